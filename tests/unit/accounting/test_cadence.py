"""The step of a job, found in what it gives the GPU again and again."""

from __future__ import annotations

import struct
from random import Random

import pytest

from exporter.accounting.cadence import Cadence, Rhythm, anchors, shortest_period
from exporter.kernel import abi
from exporter.kernel.cadence_rows import CadenceRow
from exporter.units import slot_of

MS = 1_000_000
BEAT = struct.Struct("=QQ")  # at_ns, signature
COPY, REDUCE, OTHER = 7, 8, 9


class Job:
    """A process and what is known of its rhythm."""

    def __init__(self) -> None:
        self.cadence = Cadence()
        self.now_ns = 1000 * MS
        self._beats = 0
        self._ring = bytearray(abi.BEATS * BEAT.size)

    def beat(self, signature: int, after_ms: int = 0) -> None:
        """One more, so long after the last."""
        self.now_ns += after_ms * MS
        BEAT.pack_into(self._ring, self._beats % abi.BEATS * BEAT.size, self.now_ns, signature)
        self._beats += 1

    def step(self, length_ms: int = 40, *, buckets: int = 4, copies: int = 1) -> None:
        """Copies first, at the end of `length_ms` the reductions."""
        for number in range(copies):
            self.beat(COPY, 0 if number else 1)
        for number in range(buckets):
            self.beat(REDUCE, 0 if number else length_ms - 1)

    def tick(self) -> None:
        """The exporter reads."""
        self.cadence.update(CadenceRow(self._beats, bytes(self._ring)))

    def steps(self) -> tuple[int, int]:
        """(how many, milliseconds together)."""
        found = self.cadence.steps()
        return (sum(found.counts), found.sum_ns // MS) if found else (0, 0)


@pytest.fixture
def job() -> Job:
    """Nothing has been seen of it."""
    return Job()


class TestRhythm:
    """Three times the same, and twelve beats at the least."""

    @pytest.mark.parametrize(
        ("signatures", "period"),
        [
            ([1] * 12, 1),
            ([1] * 11, 0),
            ([1, 2, 2] * 4, 3),
            ([9, 9, 9] + [1, 2] * 6, 2),
            ([1, 2, 3, 4, 5, 6] * 3, 6),
            ([1, 2, 3, 4, 5, 6] * 2, 0),
            (list(range(40)), 0),
            ([], 0),
        ],
    )
    def test_shortest_period_of_the_last_beats(self, signatures: list[int], period: int) -> None:
        """Whatever came before."""
        assert shortest_period(signatures) == period

    def test_anchor_comes_once_in_a_period(self) -> None:
        """Two anchors in a copy and four reductions: into the first reduction, and into the copy."""
        assert anchors([COPY, REDUCE, REDUCE, REDUCE, REDUCE] * 3, 5) == {(COPY, REDUCE), (REDUCE, COPY)}


class TestSteps:
    """Their number and their length."""

    @pytest.mark.parametrize(("buckets", "copies"), [(4, 1), (1, 1), (0, 1), (4, 8)])
    def test_step_is_from_anchor_to_anchor(self, job: Job, buckets: int, copies: int) -> None:
        """Whatever it consists of; with eight copies it accumulates gradients."""
        for _ in range(20 if buckets else 120):
            job.step(40, buckets=buckets, copies=copies)
            job.tick()
        before = job.steps()
        for _ in range(5):
            job.step(40 if buckets else 1, buckets=buckets, copies=copies)
            job.tick()

        assert job.steps() == (before[0] + 5, before[1] + (200 if buckets else 5))

    def test_lengths_go_to_their_buckets(self, job: Job) -> None:
        """One of 400 ms among those of 40."""
        for length_ms in [40] * 10 + [400] + [40] * 5:
            job.step(length_ms)
            job.tick()
        steps = job.cadence.steps()

        assert steps is not None
        assert steps.counts[slot_of(400 * MS)] == 1

    def test_there_are_no_steps_without_a_rhythm(self, job: Job) -> None:
        """Copies of ever other sizes."""
        for signature in range(100):
            job.beat(signature, 10)
            job.tick()

        assert job.cadence.steps() is None

    def test_burst_is_no_rhythm(self, job: Job) -> None:
        """A batch copied in a hundred pieces."""
        for _ in range(100):
            job.now_ns += 20_000
            job.beat(COPY)
        job.tick()

        assert job.cadence.steps() is None

    def test_evaluation_in_between_is_one_long_step(self, job: Job) -> None:
        """Other collectives for 200 ms; the anchor is kept."""
        for _ in range(20):
            job.step()
            job.tick()
        count, together_ms = job.steps()
        for _ in range(6):
            job.beat(OTHER, 30)
        job.tick()
        job.step(40)
        job.tick()

        assert job.steps() == (count + 1, together_ms + 6 * 30 + 40)

    @pytest.mark.parametrize("place", range(3))
    def test_beat_that_is_added_to_each_step_keeps_the_anchor(self, job: Job, place: int) -> None:
        """20 steps of a copy and two reductions, then 20 with another copy at any place: each of them is counted at once."""
        usual = [COPY, REDUCE, REDUCE]
        for number in range(40):
            beats = usual if number < 20 else [*usual[:place], OTHER, *usual[place:]]
            for signature in beats:
                job.beat(signature, 60 // len(beats))
            job.tick()
            if number == 19:
                before = job.steps()[0]

        assert job.steps()[0] == before + 20
        assert job.cadence.rhythm().missed_beats == 0

    def test_beat_that_is_added_to_every_fourth_step_keeps_the_anchor(self, job: Job) -> None:
        """80 steps of a copy, then 80 with another copy after every fourth, as before an update of weights: all are counted."""
        for number in range(160):
            job.beat(COPY, 15)
            if number >= 80 and number % 4 == 3:
                job.beat(OTHER, 15)
            job.tick()

        assert job.steps() == (158, 158 * 15 + 19 * 15)
        assert job.cadence.rhythm().missed_beats == 0

    def test_step_of_several_with_a_part_more_is_another_one(self, job: Job) -> None:
        """20 steps of a copy and a reduction, then 20 of two copies and three reductions, which are not two of the old ones."""
        for number in range(40):
            for signature in [COPY, REDUCE] if number < 20 else [COPY, REDUCE, COPY, REDUCE, REDUCE]:
                job.beat(signature, 10)
            job.tick()

        assert job.cadence.rhythm().missed_beats == 1

    def test_steps_whose_beats_were_overwritten_count(self, job: Job) -> None:
        """More came between two readings than there is room for: how many is known, and so how many steps."""
        for _ in range(20):
            job.step()
            job.tick()
        count, total_ms = job.steps()
        for _ in range(60):
            job.step()
        job.tick()

        assert job.steps() == (count + 60, total_ms + 60 * 40)

    def test_batches_in_a_burst_are_one_step(self, job: Job) -> None:
        """Six of 25 copies each within 12 ms, and a wait of 488 ms for all of them: of 150 beats the ring holds 128."""
        for _ in range(20):
            for batch in range(6):
                for number in range(24):
                    job.beat(OTHER, 0 if number else (2 if batch else 488))
                job.beat(COPY, 0 if batch else 2)
            job.tick()
        count, total_ms = job.steps()
        for _ in range(10):
            for batch in range(6):
                for number in range(24):
                    job.beat(OTHER, 0 if number else (2 if batch else 488))
                job.beat(COPY, 0 if batch else 2)
            job.tick()

        assert job.steps() == (count + 10, total_ms + 10 * 500)

    def test_another_rhythm_has_another_anchor(self, job: Job) -> None:
        """The job goes on with steps of its own kind."""
        for _ in range(20):
            job.step()
            job.tick()
        count, _ = job.steps()
        for _ in range(100):
            job.beat(OTHER, 10)
            job.tick()

        assert job.steps()[0] > count + 20

    def test_lone_copies_at_random_are_no_rhythm(self, job: Job) -> None:
        """A copy of the same size for each of 5,000 requests, which come independently of each other, every 0.2 s on average."""
        chance = Random(7)
        for _ in range(5000):
            job.beat(COPY, round(chance.expovariate(1 / 200)))
            job.tick()

        assert job.steps() == (0, 0)

    def test_lone_copies_are_a_rhythm_despite_slow_steps(self, job: Job) -> None:
        """Every sixth of 18 copies comes ten times as late. A pair of copies is the anchor: 16 steps from the second one on."""
        for number in range(18):
            job.beat(COPY, 400 if number % 6 == 5 else 40)
            job.tick()

        assert job.steps() == (16, 13 * 40 + 3 * 400)


class TestProgress:
    """How far the job has come."""

    def test_open_step_began_at_its_anchor(self, job: Job) -> None:
        """Steps of 40 ms; the first ones made the rhythm known, and count as well."""
        for _ in range(12):
            job.step()
            job.tick()
        rhythm = job.cadence.rhythm()

        assert rhythm.steps == job.steps()[0] > 0
        assert rhythm.sum_ns == rhythm.steps * 40 * MS
        assert rhythm.step_began_ns > job.now_ns - 40 * MS
        assert rhythm.missed_beats == 0

    def test_same_beats_of_other_sizes_are_another_batch(self, job: Job) -> None:
        """Copies of a kind, 65,536 bytes larger; then steps with a copy more, which are none."""
        for sizes in ([COPY, REDUCE], [COPY + (1 << 16), REDUCE], [COPY, COPY, OTHER, REDUCE]):
            for _ in range(40):
                for signature in sizes:
                    job.beat(signature, 20)
                job.tick()

        assert job.cadence.rhythm().resized == 1

    def test_step_of_many_usual_ones_contains_a_pause(self, job: Job) -> None:
        """20 steps of 40 ms, one of 400, and one of 300, which is less than eight."""
        for length_ms in [40] * 20 + [400, 300]:
            job.step(length_ms)
            job.tick()
        rhythm = job.cadence.rhythm()

        assert (rhythm.typical_step_ns, rhythm.pauses, rhythm.pause_ns) == (40 * MS, 1, 360 * MS)

    def test_without_a_rhythm_no_step_is_open(self, job: Job) -> None:
        """One step is none."""
        job.step()
        job.tick()

        assert job.cadence.rhythm() == Rhythm(*(0,) * 8)

    def test_beats_that_came_too_fast_are_counted(self, job: Job) -> None:
        """Forty steps of five beats before it is known how many a step makes: the ring holds 128 of the 200."""
        for _ in range(40):
            job.step()
        job.tick()

        assert job.cadence.rhythm().missed_beats == 200 - 128


class TestVariableSizes:
    """Copies of a kind whose sizes differ from step to step: the low 16 bits are the kind."""

    @staticmethod
    def _step(job: Job, number: int, length_ms: int = 28) -> None:
        job.beat(number << 16 | COPY, length_ms)
        job.beat((number + 1) << 16 | COPY)

    def test_steps_of_variable_lengths_are_found(self, job: Job) -> None:
        """Two pieces a step; steps of 24 to 32 ms. From the 64th step on they are known, and 40 more are counted."""
        for number in range(104):
            self._step(job, number, 24 + number % 9)
            job.tick()

        count, sum_ms = job.steps()
        assert count >= 40
        assert sum_ms / count == pytest.approx(28, abs=1)

    @pytest.mark.parametrize("seed", range(5))
    def test_steps_of_a_few_sizes_are_found(self, job: Job, seed: int) -> None:
        """Batches padded to one of three lengths: three in a row are often alike. After 128 steps, 40 are counted as 40."""
        chance = Random(seed)
        for number in range(168):
            if number == 128:
                before = job.steps()[0]
            job.beat(chance.choices((512, 448, 384), (0.5, 0.35, 0.15))[0] << 16 | COPY, 28)
            job.beat(REDUCE, 1)
            job.tick()

        assert job.steps()[0] - before == pytest.approx(40, abs=1)

    def test_smaller_batch_at_the_end_of_an_epoch_changes_nothing(self, job: Job) -> None:
        """Every 20th step; it has no anchor of its own and is part of the next one."""
        for number in range(200):
            if number == 100:
                before = job.cadence.rhythm()
            job.beat((100 if number % 20 == 19 else 512) << 16 | COPY, 28)
            job.beat(REDUCE, 1)
            job.tick()
        after = job.cadence.rhythm()

        assert after.steps - before.steps == 95
        assert (after.missed_beats, after.resized) == (before.missed_beats, before.resized)

    def test_requests_at_random_are_no_rhythm(self, job: Job) -> None:
        """The same copies, 5 or 200 ms apart."""
        for number in range(200):
            self._step(job, number, 200 if number % 3 else 5)
            job.tick()

        assert job.steps() == (0, 0)

    def test_equal_sizes_come_first(self, job: Job) -> None:
        """A job with a rhythm of its own is not looked at without sizes."""
        for _ in range(40):
            job.step()
            job.tick()

        assert job.steps()[0] >= 36
