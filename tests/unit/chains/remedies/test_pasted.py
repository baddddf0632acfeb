"""remedies: advice for every cause, with commands that are safe to paste whatever a tenant has chosen."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from exporter.causes import CHAIN_CAUSES, Cause
from exporter.chains.chain import Chain
from exporter.chains.remedies import ProcessContext, remedy_of
from exporter.model import Identity
from tests.support.chains import a_chain
from tests.support.hostile import HOSTILE
from tests.support.pasted_command import Terminal
from tests.unit.chains.remedies.contexts import CROWDED, CULPRIT, JOB, NODE, TRAINER, groups

EVERY_CAUSE = pytest.mark.parametrize("cause", CHAIN_CAUSES)
STARTED = re.compile(r"(?:^|[|;(] ?)([a-z-]+)")
"""Programs of a command line: the first words of its parts."""
POD = Identity("n", namespace="ml", pod="train-0", container="trainer")


class TestEveryCause:
    @EVERY_CAUSE
    def test_has_advice(self, cause: Cause) -> None:
        assert remedy_of(a_chain(cause=cause, peer="3"), TRAINER).what.endswith((".", "`."))

    @EVERY_CAUSE
    @pytest.mark.parametrize(
        "context", [TRAINER, CROWDED, TRAINER._replace(culprits=())], ids=["free", "full", "ended"]
    )
    def test_no_command_has_a_placeholder(self, cause: Cause, context: ProcessContext) -> None:
        """What is not known is left out."""
        commands = " ".join(remedy_of(a_chain(cause=cause, peer="3"), context, POD).commands)

        assert not any(one in commands for one in ("PID ", " PID", "POD", "CPUS", "CGROUP", "WATTS", "  #"))

    @EVERY_CAUSE
    def test_commands_act_on_nothing_where_the_node_is_not_known(self, cause: Cause) -> None:
        """A recording is replayed elsewhere, and later."""
        assert remedy_of(a_chain(cause=cause, peer="3"), ProcessContext(4027, "/a", "0-1", (777,))).commands == ()

    @EVERY_CAUSE
    def test_commands_need_no_process_that_has_ended(self, cause: Cause) -> None:
        commands = remedy_of(a_chain(cause=cause, peer="3"), TRAINER._replace(job=None, culprits=())).commands

        assert not [one for one in commands if "4027" in one or "777" in one]

    @EVERY_CAUSE
    def test_no_command_starts_an_exporter_or_a_server(self, cause: Cause) -> None:
        commands = remedy_of(a_chain(cause=cause, peer="3"), TRAINER).commands

        assert not [one for one in commands if "exporter run" in one or "serve" in one.split()]

    @EVERY_CAUSE
    def test_commands_name_a_pod_only_in_kubernetes(self, cause: Cause) -> None:
        plain = remedy_of(a_chain(cause=cause, peer="3"), TRAINER, Identity("n", container="job_7")).commands
        in_pod = remedy_of(a_chain(cause=cause, peer="3"), TRAINER, POD).commands

        assert not [one for one in plain if "kubectl" in one]
        assert all(" -n ml " in one and " train-0" in one for one in in_pod if "kubectl" in one)

    @EVERY_CAUSE
    def test_program_that_is_not_there_is_not_used(self, cause: Cause) -> None:
        """Each in turn."""
        for program in NODE.commands:
            node = replace(NODE, commands=NODE.commands - {program})
            for context in (TRAINER, CROWDED):
                commands = remedy_of(a_chain(cause=cause, peer="3"), context._replace(node=node), POD).commands

                assert not [one for one in commands if program in STARTED.findall(one)]


PROGRAMS = NODE.commands | {"gpu-stall-exporter", "kill"}


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    return Terminal(tmp_path, PROGRAMS)


def hostile_chain(cause: Cause, value: str) -> Chain:
    """Every field that a tenant may influence has the value."""
    return a_chain(cause=cause, peer=value, culprits=((value, 0.9),), detail=value)


class TestPastedCommands:
    """What a tenant chose is never run, and never matches another process."""

    @pytest.mark.parametrize("value", HOSTILE, ids=ascii)
    def test_path_of_a_cgroup_reaches_the_program_as_it_is(self, terminal: Terminal, value: str) -> None:
        """Or not at all, where it does not lead below the root."""
        group = f"/tenant/{value}/leaf"
        context = TRAINER._replace(job=replace(JOB, groups=groups(group)))
        commands = remedy_of(a_chain(cause=Cause.CPU_QUOTA), context).commands
        ran = [one for command in commands for one in terminal.paste(command)]
        is_known = os.path.normpath(group) == group
        path = f"/sys/fs/cgroup{group}".partition("\0")[0]

        assert ran == ([["cat", f"{path}/cpu.max", f"{path}/cpu.stat"]] if is_known else [])
        assert terminal.made == []

    @pytest.mark.parametrize("value", HOSTILE, ids=ascii)
    def test_path_of_a_culprits_cgroup_is_one_word(self, terminal: Terminal, value: str) -> None:
        """Nothing but a setting of that group is written to, and none of it exists here."""
        culprit = replace(CULPRIT, groups=groups(f"/tenant/{value}", 1))
        commands = remedy_of(a_chain(), CROWDED._replace(culprits=(culprit,))).commands
        for command in commands:
            if not command.startswith("echo"):
                terminal.paste(command)

        assert terminal.made == []
        assert all(command.isprintable() for command in commands)

    @pytest.mark.parametrize("value", HOSTILE, ids=ascii)
    def test_rank_reaches_the_program_as_it_is(self, terminal: Terminal, value: str) -> None:
        (command,) = remedy_of(hostile_chain(Cause.PEER_RANK, value), TRAINER).commands

        assert terminal.paste(command) == [["gpu-stall-exporter", "explain", f"--workload=rank={value}"]]
        assert terminal.made == []

    @EVERY_CAUSE
    def test_no_command_depends_on_the_name_of_a_program(self, cause: Cause) -> None:
        """Nor on words that describe the cause."""
        for context in (
            TRAINER,
            CROWDED,
            TRAINER._replace(culprits=()),
            TRAINER._replace(culprits=(), culprit_tgids=()),
        ):
            named = a_chain(cause=cause, peer="3", culprits=(("stress-ng", 0.9),), detail="x")
            plain = remedy_of(named, context).commands
            for value in HOSTILE:
                chain = a_chain(cause=cause, peer="3", culprits=((value, 0.9),), detail=value)
                assert remedy_of(chain, context).commands == plain

    @pytest.mark.parametrize("value", HOSTILE, ids=ascii)
    def test_names_of_pods_and_units_have_a_strict_form(self, value: str) -> None:
        """Others are in no command."""
        identity = Identity("n", namespace=value, pod=value, container=value)
        managed_by = replace(
            JOB.managed_by, unit=f"{value}.service", container=value, runtime="docker", slurm_job=value
        )
        context = TRAINER._replace(job=replace(JOB, managed_by=managed_by))
        plain = remedy_of(a_chain(cause=Cause.CPU_QUOTA), TRAINER).commands

        assert remedy_of(a_chain(cause=Cause.CPU_QUOTA), context, identity).commands == plain

    @EVERY_CAUSE
    def test_every_command_is_one_for_a_shell(self, terminal: Terminal, cause: Cause) -> None:
        """With all values hostile at once, it runs only the programs that it names."""
        value = "-x';>pwned;$(>pwned)`>pwned`\n>pwned\x1b[2J\u202e*"
        managed_by = replace(JOB.managed_by, unit=f"{value}.service", container=value, slurm_job=value)
        job = replace(JOB, groups=groups(f"/tenant/{value}"), managed_by=managed_by)
        context = TRAINER._replace(
            job=job, culprits=(replace(CULPRIT, managed_by=managed_by, groups=groups(f"/tenant/{value}")),)
        )
        identity = Identity("n", namespace=value, pod=value, container=value)
        remedy = remedy_of(hostile_chain(cause, value), context, identity)
        ran = [one for command in remedy.commands for one in terminal.paste(command)]

        assert terminal.made == []
        assert {one[0] for one in ran} <= PROGRAMS
        assert all(command.isprintable() for command in (remedy.what, *remedy.commands))
        assert not any("pgrep" in one or "pkill" in one or "killall" in one for one in remedy.commands)

    @pytest.mark.parametrize(
        "group", ["/../../system.slice/sshd.service", "/a/../b", "a", "/a//b", "/a/", "/a/./b", "/" + "a/" * 3000 + "b"]
    )
    def test_path_that_does_not_lead_below_the_root_is_left_out(self, group: str) -> None:
        """In a namespace the group of another pod has one with dots. One that the history would cut is left out as well."""
        context = TRAINER._replace(job=replace(JOB, groups=groups(group)))

        assert not [one for one in remedy_of(a_chain(cause=Cause.CPU_QUOTA), context).commands if group in one]
