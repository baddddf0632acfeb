"""naming: closed sets of labels, and names of other programs, which are anything."""

from __future__ import annotations

import pytest

from exporter.accounting.culprits import (
    CAUSE_OF_CULPRIT,
    CAUSE_OF_STATE,
    CAUSE_OF_WAKER_STATE,
    NO_CULPRIT,
    STATE_LABEL,
    culprit_name,
    program_name,
)
from exporter.kernel.abi import Culprit, ThreadState, Victim
from exporter.kernel.thread_rows import BlameKey


def blamed(comm: bytes = b"stress", culprit: Culprit = Culprit.TASK) -> BlameKey:
    """Who held a CPU."""
    return BlameKey(1, Victim.STEP, culprit, 666, 0, 7, comm)


class TestStates:
    """One label for each."""

    def test_labels_are_the_seventeen_of_the_design(self) -> None:
        """In the order of the header."""
        assert list(STATE_LABEL.values()) == [
            "on_cpu",
            "reclaim",
            "gpu_wait",
            "runnable",
            "throttled",
            "io",
            "memory",
            "fault",
            "lock",
            "pipe",
            "socket",
            "poll",
            "sleep",
            "child",
            "stopped",
            "other",
            "output",
        ]

    @pytest.mark.parametrize(
        ("state", "cause"),
        [
            ("THROTTLED", "cpu_quota"),
            ("IO", "block_io"),
            ("MEMORY", "memory_reclaim"),
            ("RECLAIM", "memory_reclaim"),
            ("FAULT", "major_fault"),
            ("LOCK", "lock"),
            ("SOCKET", "network"),
            ("STOPPED", "paused"),
            ("OUTPUT", "blocked_output"),
            ("PIPE", "own_wait"),
            ("POLL", "own_wait"),
            ("SLEEP", "own_wait"),
            ("CHILD", "own_wait"),
            ("OTHER", "other"),
        ],
    )
    def test_state_has_a_cause(self, state: str, cause: str) -> None:
        """Where nothing more is known."""
        assert CAUSE_OF_STATE[ThreadState[state]].value == cause

    def test_waker_that_computed_or_slept_explains_only_who_it_is(self) -> None:
        """A wait for a CPU and a blocked write are explained by who caused them."""
        assert {state.name for state in ThreadState if state not in CAUSE_OF_WAKER_STATE} == {
            "ON_CPU",
            "GPU_WAIT",
            "RUNNABLE",
            "LOCK",
            "PIPE",
            "POLL",
            "SLEEP",
            "CHILD",
            "OTHER",
            "OUTPUT",
        }

    def test_every_state_and_culprit_has_a_cause(self) -> None:
        """No table has a hole."""
        assert set(CAUSE_OF_STATE) == set(ThreadState)
        assert {culprit.name: CAUSE_OF_CULPRIT[culprit].value for culprit in Culprit} == {
            "TASK": "cpu_contention",
            "OWN": "cpu_oversubscribed",
            "IDLE": "wakeup_latency",
            "IRQ": "irq",
            "UNKNOWN": "unknown",
            "OUTSIDE": "cpu_contention",
            "HYPERVISOR": "cpu_contention",
            "EXPORTER": "exporter",
        }


class TestProgramName:
    """A process chooses the up to 16 bytes of its comm."""

    @pytest.mark.parametrize(
        ("comm", "name"),
        [
            (b"stress-ng", "stress-ng"),
            (b"", "other"),
            (b"kworker/u8:6-ev", "kworker"),
            (b"ksoftirqd/0", "ksoftirqd"),
            (b"/init", "/init"),
            (b"a\nb", "a\ufffdb"),
            (b"\xff\xfe", "\ufffd\ufffd"),
            ("käse".encode(), "käse"),
        ],
    )
    def test_name_is_printable(self, comm: bytes, name: str) -> None:
        """Whatever the program calls itself."""
        assert program_name(comm) == name

    @pytest.mark.parametrize(
        "comm",
        [
            b"hypervisor",
            b"outside",
            b"other",
            b"none",
            b"unknown",
            b"kernel",
            b"Hypervisor",
            b"other ",
            b"sshd.service",
            b"0123456789ab",
            b"make (children)",
            b"other (program)",
        ],
    )
    def test_name_of_what_is_no_program_is_marked(self, comm: bytes) -> None:
        """A program that calls itself so is not reported as steal, as another pod, or as a service."""
        assert program_name(comm) == f"{comm.decode()} (program)"

    def test_name_is_marked_after_it_is_cut(self) -> None:
        """What follows the slash is the number of a thread of the kernel."""
        assert program_name(b"hypervisor/0") == "hypervisor (program)"


class TestCulpritName:
    """The culprit that a wait is charged to."""

    def test_programs_have_a_name(self) -> None:
        """Others, and the job's own."""
        assert {culprit_name(blamed(b"stress", one)) for one in (Culprit.TASK, Culprit.OWN)} == {"stress"}

    def test_who_is_not_of_the_pod_is_outside(self) -> None:
        """Its name is kept from us."""
        assert culprit_name(blamed(b"", Culprit.OUTSIDE)) == "outside"

    def test_who_runs_the_machine_has_a_name(self) -> None:
        """There is only one."""
        assert culprit_name(blamed(b"", Culprit.HYPERVISOR)) == "hypervisor"

    def test_program_called_like_the_machine_s_owner_has_a_mark(self) -> None:
        assert culprit_name(blamed(b"hypervisor", Culprit.TASK)) == "hypervisor (program)"

    def test_exporter_has_its_own_name(self) -> None:
        """Whatever its process is called."""
        assert culprit_name(blamed(b"python3", Culprit.EXPORTER)) == "gpu-stall-exporter"

    def test_no_culprit_is_named_where_no_program_held_the_cpu(self) -> None:
        """Interrupts, idle CPUs, what is not known."""
        found = {culprit_name(blamed(b"swapper", one)) for one in (Culprit.IDLE, Culprit.IRQ, Culprit.UNKNOWN)}

        assert found == {NO_CULPRIT}
