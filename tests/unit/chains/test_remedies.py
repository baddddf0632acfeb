"""remedies: advice for every cause, with commands for the real process."""

from __future__ import annotations

import re

import pytest

from exporter.causes import CHAIN_CAUSES, Cause
from exporter.chains.remedies import ProcessContext, remedy_of
from tests.support.chains import a_chain

EVERY_CAUSE = pytest.mark.parametrize("cause", CHAIN_CAUSES)
TRAINER = ProcessContext(4027, "/kubepods/pod1/abc", "0-3", (777, 778))


class TestRemedies:
    @EVERY_CAUSE
    def test_every_cause_has_advice_and_commands(self, cause: Cause) -> None:
        remedy = remedy_of(a_chain(cause=cause, peer="3"), TRAINER)

        assert remedy.what.endswith(".")
        assert remedy.commands

    @EVERY_CAUSE
    def test_known_values_replace_placeholders(self, cause: Cause) -> None:
        """Placeholders in capitals are left only for what the exporter cannot know."""
        commands = " ".join(remedy_of(a_chain(cause=cause, peer="3"), TRAINER).commands)
        blanks = set(re.findall(r"\b[A-Z]{3,}(?:_PID)?\b", commands))

        assert not blanks & {"PID", "CPUS", "CGROUP", "CULPRIT_PID"}

    def test_commands_name_both_processes_of_the_culprit(self) -> None:
        remedy = remedy_of(a_chain(), TRAINER)

        assert remedy.what.startswith("stress-ng is using the job's CPUs.")
        assert remedy.commands == (
            "ps -o pid,psr,pcpu,cgroup,args -p 777,778",
            "taskset -acp 0-3 4027",
            "renice -n 19 -p 777 778",
        )

    @pytest.mark.parametrize(
        ("culprits", "subject"),
        [
            ((("outside", 0.9),), "A process outside this pod is using"),
            ((("other", 0.9),), "Another program is using"),
            ((), "Another program is using"),
        ],
    )
    def test_culprit_without_a_name_is_described(self, culprits: tuple[tuple[str, float], ...], subject: str) -> None:
        assert remedy_of(a_chain(culprits=culprits), TRAINER).what.startswith(subject)

    def test_unknown_values_stay_placeholders(self) -> None:
        assert remedy_of(a_chain(), ProcessContext()).commands[0] == "ps -o pid,psr,pcpu,cgroup,args -p CULPRIT_PID"

    def test_remedy_for_steal_does_not_touch_the_job(self) -> None:
        """Only the hypervisor's host can help."""
        remedy = remedy_of(a_chain(culprits=(("hypervisor", 0.9),)), TRAINER)

        assert "virtual machines (steal)" in remedy.what
        assert not any("4027" in command for command in remedy.commands)
