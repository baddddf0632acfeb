"""wording: what is said of a thread that is stuck."""

from __future__ import annotations

from exporter.kernel.abi import OPERATION_NONE
from exporter.stacks.format import lines_of, unnamed
from exporter.stacks.unwinding import Way
from tests.support.stacks import a_stack

NAMES = {0x1000: "read+0xd (libc.so.6)", 0x2000: "inner+0x9 (stuck)", 0x3000: "outer+0x9 (stuck)"}


class TestLines:
    """One below the other."""

    def test_call_is_told_with_its_callers_and_where_it_is_now(self) -> None:
        """The innermost function first; one without a name is a number."""
        assert lines_of(a_stack(), Way((0x1500,), (0x2000, 0x3000)), NAMES) == (
            "thread 4711 (pt_main_thread) has been in cudaStreamSynchronize for 2.3 s, called by",
            "  inner+0x9 (stuck)",
            "  outer+0x9 (stuck)",
            "inside of cudaStreamSynchronize it is at",
            "  read+0xd (libc.so.6)",
            "  0x1500",
        )

    def test_call_without_callers_is_told_as_far_as_it_is_known(self) -> None:
        """In one list."""
        assert lines_of(a_stack(), Way((), ()), NAMES) == (
            "thread 4711 (pt_main_thread) has been in cudaStreamSynchronize for 2.3 s; it is at",
            "  read+0xd (libc.so.6)",
        )

    def test_thread_outside_of_calls_is_told_by_where_it_is(self) -> None:
        """The rank that never comes."""
        assert lines_of(a_stack(operation=OPERATION_NONE, call_slot=0), Way((0x2000,), ()), NAMES) == (
            "thread 4711 (pt_main_thread) has been in no traced call for 2.3 s; it is at",
            "  read+0xd (libc.so.6)",
            "  inner+0x9 (stuck)",
        )

    def test_thread_on_a_cpu_is_told_to_be_there(self) -> None:
        """What is known is of its last entry into the kernel."""
        lines = lines_of(a_stack(is_running=True), Way((), (0x2000,)), NAMES)

        assert lines[2] == "inside of cudaStreamSynchronize it runs on a CPU, and last entered the kernel at"

    def test_long_list_is_cut(self) -> None:
        """After 24, and says so."""
        lines = lines_of(a_stack(), Way((), tuple(range(0x9000, 0x9000 + 30))), NAMES)

        assert (lines[24], lines[25]) == ("  0x9017", "  and 6 more")

    def test_name_of_a_thread_is_made_printable(self) -> None:
        """The job chooses it."""
        (line,) = unnamed(a_stack(comm=b"a\nb\x1b["))

        assert line == (
            "thread 4711 (a\ufffdb\ufffd[) has been in cudaStreamSynchronize for 2.3 s;"
            " where, nobody knows: the process has ended"
        )
