"""line_samples: where threads spend their time, by line, from samples."""

from __future__ import annotations

from exporter.kernel.abi import OPERATION_NONE
from exporter.kernel.operations import NUMBERS
from exporter.kernel.stacks import Stack
from exporter.python.call_site import CallStack, PythonFrame
from exporter.stacks.line_samples import INTERVAL_SECONDS, SAMPLES, LineShare, sample_lines
from tests.support.stacks import a_stack


def at_line(line: int) -> CallStack:
    return CallStack("/srv/job", (PythonFrame("/srv/job/train.py", "step", line),))


class Thread:
    """Is at each line in turn. operations: that it is in at each line."""

    def __init__(self, lines: list[int | None], operations: dict[int, str] | None = None) -> None:
        self.lines = lines
        self.operations = operations or {}
        self.taken = 0
        self.slept = 0.0

    def take(self, tid: int) -> Stack | None:
        self.taken += 1
        operation = self.operations.get(self._line() or 0)
        return a_stack(tid=tid, operation=NUMBERS[operation] if operation else OPERATION_NONE)

    def lines_of(self, _state: Stack) -> CallStack | None:
        line = self._line()
        return None if line is None else at_line(line)

    def sleep(self, seconds: float) -> None:
        self.slept += seconds

    def _line(self) -> int | None:
        return self.lines[self.taken % len(self.lines)]

    def sampled(self) -> list[LineShare]:
        return sample_lines(self.take, self.lines_of, (4711,), self.sleep)


class TestSamples:
    def test_most_frequent_line_comes_first(self) -> None:
        """Three of four samples are at line 162."""
        first, second = Thread([162, 162, 69, 162]).sampled()

        assert (first.stack, first.found, first.of) == (at_line(162), 19, SAMPLES)
        assert (second.stack, second.found) == (at_line(69), 6)
        assert first.share == 19 / SAMPLES

    def test_samples_have_equal_intervals(self) -> None:
        thread = Thread([1])
        thread.sampled()

        assert (thread.taken, round(thread.slept / INTERVAL_SECONDS)) == (SAMPLES, SAMPLES - 1)

    def test_waits_for_the_gpu_are_left_out(self) -> None:
        """They count as time."""
        (line,) = Thread([162, 75], {75: "cudaStreamSynchronize"}).sampled()

        assert (line.stack, line.found, line.of) == (at_line(162), 12, SAMPLES)

    def test_line_of_a_thread_that_is_stopped_is_left_out(self) -> None:
        """It stands there because of the signal. The samples count as time."""
        states = [a_stack(operation=OPERATION_NONE, is_stopped=number >= 3) for number in range(SAMPLES)]
        (line,) = sample_lines(lambda _tid: states.pop(0), lambda _state: at_line(162), (4711,), lambda _seconds: None)

        assert (line.found, line.of) == (3, SAMPLES)

    def test_other_calls_have_their_operation(self) -> None:
        (line,) = Thread([72], {72: "cudaMalloc"}).sampled()

        assert line.operation == NUMBERS["cudaMalloc"]

    def test_samples_without_python_count_as_time(self) -> None:
        (line,) = Thread([162, None]).sampled()

        assert (line.found, line.of) == (12, SAMPLES)

    def test_thread_that_ended_has_no_lines(self) -> None:
        assert sample_lines(lambda _tid: None, lambda _state: at_line(1), (4711,), lambda _seconds: None) == []
