"""remedies: what to do about every cause, with the numbers of the real process."""

from __future__ import annotations

import re

import pytest

from exporter.causes import CHAIN_CAUSES, Cause
from exporter.chains.remedies import ProcessContext, remedy_of
from tests.support.chains import a_chain

EVERY_CAUSE = pytest.mark.parametrize("cause", CHAIN_CAUSES)
TRAINER = ProcessContext(4027, "/kubepods/pod1/abc", "0-3", (777, 778))


class TestRemedies:
    """One sentence and some commands."""

    @EVERY_CAUSE
    def test_every_cause_has_one(self, cause: Cause) -> None:
        """A sentence, and something to paste."""
        remedy = remedy_of(a_chain(cause=cause, peer="3"), TRAINER)

        assert remedy.what.endswith(".")
        assert remedy.commands

    @EVERY_CAUSE
    def test_what_is_known_is_filled_in(self, cause: Cause) -> None:
        """Words in capitals stand only for what the exporter cannot know."""
        commands = " ".join(remedy_of(a_chain(cause=cause, peer="3"), TRAINER).commands)
        blanks = set(re.findall(r"\b[A-Z]{3,}(?:_PID)?\b", commands))

        assert not blanks & {"PID", "CPUS", "CGROUP", "CULPRIT_PID"}

    def test_culprit_is_named_and_its_processes_are_shown(self) -> None:
        """Both of them."""
        remedy = remedy_of(a_chain(), TRAINER)

        assert remedy.what.startswith("stress-ng takes the CPUs")
        assert remedy.commands == (
            "ps -o pid,psr,pcpu,cgroup,args -p 777,778",
            "taskset -acp 0-3 4027",
            "renice -n 19 -p 777 778",
        )

    def test_what_is_not_known_stays_a_word(self) -> None:
        """Of a process out of sight."""
        assert remedy_of(a_chain(), ProcessContext()).commands[0] == "ps -o pid,psr,pcpu,cgroup,args -p CULPRIT_PID"

    def test_nothing_is_done_to_a_process_for_what_the_hypervisor_took(self) -> None:
        """The place to act is another machine's."""
        remedy = remedy_of(a_chain(culprits=(("hypervisor", 0.9),)), TRAINER)

        assert "other machines (steal)" in remedy.what
        assert not any("4027" in command for command in remedy.commands)
