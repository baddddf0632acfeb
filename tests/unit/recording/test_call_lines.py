"""Single calls as lines, bounded for each second."""

from __future__ import annotations

from exporter.kernel.abi import ThreadState
from exporter.recording.call_lines import call_lines
from exporter.recording.recorded_calls import RecordedCalls, SingleCall, StateSpan
from exporter.units import NANOSECONDS
from tests.support.recorded_calls import thread

NOON = 1_700_049_600 * NANOSECONDS


def a_call(at_ns: int, length_ns: int = 1500, name: str = "cudaMemcpy", depth: int = 0) -> SingleCall:
    ended_ns = NOON + at_ns
    return SingleCall(1, 100, name, depth, ended_ns - length_ns, ended_ns, {"bytes": 64}, None)


def lines(*found: SingleCall | StateSpan, most: int = 50) -> list[str]:
    read = RecordedCalls()
    read.threads[1, 100] = thread(ThreadState.ON_CPU)
    return list(call_lines(read, found, most))


class TestLines:
    def test_line_says_when_who_what_and_how_long(self) -> None:
        assert lines(a_call(1_500_000)) == [
            "12:00:00.001500  pid 100 trainer 100  cudaMemcpy  1.5 us bytes=64",
        ]

    def test_call_inside_another_is_indented(self) -> None:
        assert "  trainer 100    cudaMemcpy  " in lines(a_call(0, depth=1))[0].replace("pid 100", " ")

    def test_states_are_no_lines(self) -> None:
        assert lines(StateSpan(1, 100, "running", 1, 2, {})) == []

    def test_more_calls_of_a_second_are_counted(self) -> None:
        """Two lines of each second; then how many more, and the slowest of them."""
        found = lines(a_call(1), a_call(2), a_call(3), a_call(4, 3_000_000, "cudaFree"), a_call(NANOSECONDS), most=2)

        assert found[2:3] == ["  2 more calls in this second; the slowest: cudaFree, 3.0 ms"]
        assert len(found) == 4

    def test_more_calls_of_the_last_second_are_counted(self) -> None:
        assert lines(a_call(1), a_call(2), most=1)[1:] == [
            "  1 more calls in this second; the slowest: cudaMemcpy, 1.5 us"
        ]
