"""The pace of an engine, found in what it copies to the host. Every moment here is written by hand, in milliseconds."""

from __future__ import annotations

import pytest

from exporter.accounting.serving import Serving
from exporter.kernel import abi
from exporter.kernel.output_rows import OutputRow
from exporter.units import slot_of

MS = 1_000_000
SECOND = 1000


class Engine:
    """A process and what is known of its pace."""

    def __init__(self) -> None:
        self.serving = Serving()
        self.now = 10_000
        self._outputs = 0
        self._ring = [0] * (2 * abi.OUTPUTS)
        self._open = 0
        self._work = 0

    def output(self, after: int = 20, *, paused: int = 0) -> None:
        """One more, so long after the last, of which the engine paused for some."""
        self.now += after
        at = self._outputs % abi.OUTPUTS * 2
        self._ring[at : at + 2] = self.now * MS, paused * MS
        self._outputs += 1

    def serve(self, count: int, after: int = 20) -> None:
        """A sequence of outputs, each of which is read."""
        for _ in range(count):
            self.output(after)
            self.tick()

    def works(self) -> None:
        """It has given the GPU work again."""
        self._work = self.now

    def asks(self) -> None:
        """A copy to the host is enqueued, and no thread has waited for it."""
        self._open = 1

    def tick(self, after: int = 0) -> None:
        """The exporter reads, so much later."""
        self.now += after
        row = OutputRow(self._outputs, self._outputs + self._open, self._work * MS, 0, 0, tuple(self._ring))
        self.serving.update(row, self.now * MS)

    def steps(self) -> tuple[int, int]:
        """(how many, milliseconds together)."""
        found = self.serving.served().steps
        return (found.counts.total, found.sum_ns // MS) if found else (0, 0)

    @property
    def idle(self) -> int:
        """In milliseconds."""
        return self.serving.served().idle_ns // MS

    @property
    def outliers(self) -> int:
        """Iterations."""
        return self.serving.served().outliers

    @property
    def missed(self) -> int:
        """Iterations."""
        return self.serving.served().missed


@pytest.fixture
def engine() -> Engine:
    """Nothing has been seen of it."""
    return Engine()


class TestSteps:
    """Their number and their length."""

    def test_iteration_goes_from_one_output_to_the_next(self, engine: Engine) -> None:
        """The first output begins one and ends none: when it began is unknown."""
        engine.output()
        engine.tick()

        assert engine.steps() == (0, 0)
        engine.output(20)
        engine.output(25)
        engine.tick()
        assert engine.steps() == (2, 45)

    def test_lengths_go_to_their_buckets(self, engine: Engine) -> None:
        """A prefill of 400 ms among decodes of 20."""
        engine.serve(10)
        engine.serve(1, 400)
        engine.serve(10)
        steps = engine.serving.served().steps

        assert steps is not None
        assert (steps.counts[slot_of(20 * MS)], steps.counts[slot_of(400 * MS)]) == (19, 1)

    def test_engine_without_an_output_has_none(self, engine: Engine) -> None:
        """It loads its model."""
        engine.tick()

        assert engine.serving.served() == (None, 0, 0, 0)


class TestOutliers:
    """More than three times the median of the last 64."""

    def test_three_medians_are_none_and_more_are_one(self, engine: Engine) -> None:
        """With iterations of 20 ms: 60 is none, 61 is one."""
        engine.serve(17)
        engine.serve(1, 60)

        assert engine.outliers == 0
        engine.serve(1, 61)
        assert engine.outliers == 1

    def test_fifteen_iterations_say_nothing_of_what_is_usual(self, engine: Engine) -> None:
        """From the sixteenth on there is a median."""
        engine.serve(16)
        engine.serve(1, 500)

        assert engine.outliers == 0
        engine.serve(1, 500)
        assert engine.outliers == 1

    def test_median_follows_the_engine(self, engine: Engine) -> None:
        """From 20 ms to 100: until half of the last 64 take 100 each of them is an outlier, and from then on none."""
        engine.serve(65)
        engine.serve(100, 100)

        assert engine.outliers == 33
        engine.serve(1, 301)
        assert engine.outliers == 34


class TestIdleness:
    """A pause without work, longer than a second and than twenty medians."""

    def test_pause_of_more_than_a_second_is_idleness_and_no_iteration(self, engine: Engine) -> None:
        """5,030 ms without an output: 5,000 were a tool call, and 30 the first iteration of its answer."""
        engine.serve(10)
        engine.output(5_030, paused=5_000)
        engine.tick()

        assert engine.idle == 5_000
        assert engine.steps() == (10, 9 * 20 + 30)

    def test_pause_of_a_second_is_part_of_the_iteration(self, engine: Engine) -> None:
        """A host that was stopped for as long looks the same."""
        engine.serve(10)
        engine.output(1_020, paused=1_000)
        engine.tick()

        assert engine.idle == 0
        assert engine.steps() == (10, 9 * 20 + 1_020)

    def test_pause_of_less_than_twenty_medians_is_part_of_the_iteration(self, engine: Engine) -> None:
        """With iterations of 200 ms: four seconds are no idle time, more are."""
        engine.serve(17, 200)
        engine.output(4_200, paused=4_000)
        engine.tick()

        assert engine.idle == 0
        engine.output(4_201, paused=4_001)
        engine.tick()
        assert engine.idle == 4_001

    def test_long_iteration_is_not_idleness(self, engine: Engine) -> None:
        """The GPU has had work for eight seconds: a long prefill, or a stall."""
        engine.serve(17)
        engine.output(8_000)
        engine.tick()

        assert (engine.idle, engine.outliers) == (0, 1)
        assert engine.steps() == (17, 16 * 20 + 8_000)

    def test_open_pause_counts_while_it_lasts(self, engine: Engine) -> None:
        """And when it is over it is the same one."""
        engine.serve(10)
        engine.tick(600)
        assert engine.idle == 0
        engine.tick(600)
        assert engine.idle == 1_200
        engine.tick(300)
        assert engine.idle == 1_500
        engine.works()
        engine.output(30, paused=1_500)
        engine.tick()

        assert engine.idle == 1_500
        assert engine.steps() == (10, 9 * 20 + 30)

    def test_idle_time_never_goes_back(self, engine: Engine) -> None:
        """The kernel saw less of a pause than was counted, since a thread is new to it."""
        engine.serve(10)
        engine.tick(3_000)
        engine.works()
        engine.output(30)
        engine.tick()

        assert engine.idle == 3_000
        assert engine.steps() == (10, 9 * 20 + 30)

    def test_engine_that_works_is_not_idle(self, engine: Engine) -> None:
        """It has given work after its last output, and that takes long."""
        engine.serve(10)
        engine.now += 5
        engine.works()
        engine.tick(7_000)

        assert engine.idle == 0

    def test_engine_that_waits_for_an_output_is_not_idle(self, engine: Engine) -> None:
        """A copy is outstanding: the GPU hangs, or the other ranks do."""
        engine.serve(10)
        engine.asks()
        engine.tick(7_000)

        assert engine.idle == 0


class TestMissed:
    """More than the ring holds between two looks."""

    def test_iterations_without_a_known_length_are_counted(self, engine: Engine) -> None:
        """The last 127 of 200 outputs are there: 126 iterations between them, and 74 more."""
        engine.serve(10)
        for _ in range(200):
            engine.output(1)
        engine.tick()

        assert engine.missed == 74
        assert engine.steps() == (9 + 126, 9 * 20 + 126)

    def test_first_output_ends_no_iteration(self, engine: Engine) -> None:
        """130 outputs at once, the first three overwritten: 126 of 129 iterations are known."""
        for _ in range(130):
            engine.output(1)
        engine.tick()

        assert (engine.missed, engine.steps()) == (3, (126, 126))

    def test_idleness_before_them_stays(self, engine: Engine) -> None:
        """It was counted while it lasted."""
        engine.serve(10)
        engine.tick(3_000)
        engine.works()
        for _ in range(200):
            engine.output(1)
        engine.tick()
        engine.tick(2_000)

        assert engine.idle == 5_000
