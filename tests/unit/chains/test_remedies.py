"""remedies: advice for every cause, with commands for the real process."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from exporter.causes import CHAIN_CAUSES, Cause
from exporter.chains.chain import Chain
from exporter.chains.remedies import ProcessContext, remedy_of
from tests.support.chains import a_chain
from tests.support.hostile import HOSTILE
from tests.support.pasted_command import Terminal

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
            "ps -o pid,lstart,psr,pcpu,cgroup,args -p 777,778",
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
        assert (
            remedy_of(a_chain(), ProcessContext()).commands[0] == "ps -o pid,lstart,psr,pcpu,cgroup,args -p CULPRIT_PID"
        )

    def test_remedy_for_steal_does_not_touch_the_job(self) -> None:
        """Only the hypervisor's host can help."""
        remedy = remedy_of(a_chain(culprits=(("hypervisor", 0.9),)), TRAINER)

        assert "virtual machines (steal)" in remedy.what
        assert not any("4027" in command for command in remedy.commands)


NAMES = """cat coredumpctl dmesg env gdb gpu-stall-exporter grep head ionice iostat kill kubectl less ls mpstat nsenter
nvidia-smi perf pidstat ps py-spy renice strace systemctl tail taskset tr vllm vmstat"""
PROGRAMS = frozenset(NAMES.split())
SAFE_PATH = re.compile(r"/sys/fs/cgroup/CGROUP/[a-z.]+")


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
        (command, *_) = remedy_of(a_chain(cause=Cause.CPU_QUOTA), TRAINER._replace(cgroup=group)).commands
        ran = terminal.paste(command)
        is_known = os.path.normpath(group) == group and "\0" not in group
        path = f"/sys/fs/cgroup{group}" if is_known else "/sys/fs/cgroup/CGROUP"

        assert ran == [["cat", f"{path}/cpu.max", f"{path}/cpu.stat"]]
        assert terminal.made == []

    @pytest.mark.parametrize("value", HOSTILE, ids=ascii)
    def test_rank_reaches_the_program_as_it_is(self, terminal: Terminal, value: str) -> None:
        (command,) = remedy_of(hostile_chain(Cause.PEER_RANK, value), TRAINER).commands

        assert terminal.paste(command) == [["gpu-stall-exporter", "explain", f"--workload=rank={value}"]]
        assert terminal.made == []

    @EVERY_CAUSE
    def test_no_command_depends_on_the_name_of_a_program(self, cause: Cause) -> None:
        """Nor on words that describe the cause."""
        plain = remedy_of(a_chain(cause=cause, peer="3", culprits=(("stress-ng", 0.9),), detail="x"), TRAINER).commands

        for value in HOSTILE:
            chain = a_chain(cause=cause, peer="3", culprits=((value, 0.9),), detail=value)
            assert remedy_of(chain, TRAINER).commands == plain

    @EVERY_CAUSE
    def test_every_command_is_one_for_a_shell(self, terminal: Terminal, cause: Cause) -> None:
        """With all values hostile at once, it runs only the programs that it names."""
        value = "-x';>pwned;$(>pwned)`>pwned`\n>pwned\x1b[2J\u202e*"
        context = ProcessContext(4027, f"/tenant/{value}", f"0-3;{value}", (777, 778))
        remedy = remedy_of(hostile_chain(cause, value), context)
        ran = [one for command in remedy.commands for one in terminal.paste(command)]

        assert terminal.made == []
        assert {one[0] for one in ran} <= PROGRAMS
        assert all(command.isprintable() for command in (remedy.what, *remedy.commands))
        assert not any(
            command.startswith(("pgrep", "pkill", "killall")) or "pgrep" in command for command in remedy.commands
        )

    @pytest.mark.parametrize(
        "group", ["/../../system.slice/sshd.service", "/a/../b", "a", "/a//b", "/a/", "/a/./b", "/" + "a/" * 3000 + "b"]
    )
    def test_path_that_does_not_lead_below_the_root_stays_a_placeholder(self, group: str) -> None:
        """In a namespace the group of another pod has one with dots."""
        commands = remedy_of(a_chain(cause=Cause.MEMORY_RECLAIM), TRAINER._replace(cgroup=group)).commands

        assert SAFE_PATH.search(commands[0])
        assert f"cgroup{group}/" not in commands[0]

    @pytest.mark.parametrize("cpus", ["0-3;id", "-1", "0-", ",", "0 -x", "0-3\n", "$(id)"])
    def test_list_of_cpus_in_another_form_stays_a_placeholder(self, cpus: str) -> None:
        """A recording is a file, which may say anything."""
        assert remedy_of(a_chain(), TRAINER._replace(cpus=cpus)).commands[1] == "taskset -acp CPUS 4027"

    def test_processes_are_shown_with_the_time_of_their_start(self) -> None:
        """Before the command that acts on them: ids are reused."""
        disk = remedy_of(a_chain(cause=Cause.BLOCK_IO), TRAINER)

        assert disk.commands[1:3] == ("ps -o pid,lstart,cgroup,args -p 777,778", "ionice -c 3 -p 777 778")

    def test_name_that_is_not_plain_is_quoted_in_a_sentence(self) -> None:
        remedy = remedy_of(a_chain(culprits=(("; rm -rf /", 0.9),)), TRAINER)

        assert remedy.what.startswith("'; rm -rf /' is using the job's CPUs.")
