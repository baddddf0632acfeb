"""format: lines about a thread that is stuck."""

from __future__ import annotations

from exporter.kernel.abi import OPERATION_NONE
from exporter.stacks.format import format_stack, format_without_names
from exporter.stacks.unwinding import Backtrace
from tests.support.stacks import a_stack, frames

NAMES = {0x1000: "read+0xd (libc.so.6)", 0x2000: "inner+0x9 (stuck)", 0x3000: "outer+0x9 (stuck)"}


class TestFormat:
    def test_callers_come_first_and_then_the_innermost_functions(self) -> None:
        """An address without a name is a number."""
        assert format_stack(a_stack(), Backtrace(frames(0x1500), frames(0x2000, 0x3000)), NAMES) == (
            "thread 4711 (pt_main_thread) has been in cudaStreamSynchronize for 2.3 s, called by",
            "  inner+0x9 (stuck)",
            "  outer+0x9 (stuck)",
            "inside cudaStreamSynchronize it is at",
            "  read+0xd (libc.so.6)",
            "  0x1500",
        )

    def test_call_without_callers_is_one_list(self) -> None:
        assert format_stack(a_stack(), Backtrace((), ()), NAMES) == (
            "thread 4711 (pt_main_thread) has been in cudaStreamSynchronize for 2.3 s; it is at",
            "  read+0xd (libc.so.6)",
        )

    def test_thread_that_passes_through_is_not_said_to_be_stuck(self) -> None:
        """It had been there for a tenth of the shortest time that is printed."""
        stack = a_stack()
        (line, *_) = format_stack(stack._replace(read_ns=stack.opened_ns + 10_000_000), Backtrace((), ()), NAMES)

        assert line == "thread 4711 (pt_main_thread) was in cudaStreamSynchronize; it is at"

    def test_thread_outside_of_calls_is_one_list(self) -> None:
        """As of a rank that does not join a collective."""
        assert format_stack(a_stack(operation=OPERATION_NONE, call_slot=0), Backtrace(frames(0x2000), ()), NAMES) == (
            "thread 4711 (pt_main_thread) has been outside CUDA and NCCL for 2.3 s; it is at",
            "  read+0xd (libc.so.6)",
            "  inner+0x9 (stuck)",
        )

    def test_thread_on_a_cpu_shows_its_last_entry_into_the_kernel(self) -> None:
        lines = format_stack(a_stack(is_running=True), Backtrace((), frames(0x2000)), NAMES)

        assert lines[2] == "inside cudaStreamSynchronize it runs on a CPU, and last entered the kernel at"

    def test_list_is_truncated_after_24_frames(self) -> None:
        lines = format_stack(a_stack(), Backtrace((), frames(*range(0x9000, 0x9000 + 30))), NAMES)

        assert (lines[24], lines[25]) == ("  0x9017", "  and 6 more")

    def test_thread_name_is_made_printable(self) -> None:
        """The job chooses it."""
        (line,) = format_without_names(a_stack(comm=b"a\nb\x1b["))

        assert line == (
            "thread 4711 (a\ufffdb\ufffd[) has been in cudaStreamSynchronize for 2.3 s;"
            " its functions are not known: the process has ended"
        )
