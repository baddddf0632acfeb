"""Finds the steps of a job in its repeated GPU operations: the job itself announces none.

In: the beats of a process (bpf/lib/cadence.bpf.h): collectives and copies to the GPU, in the order of their return. Out: a
histogram of the time from one step to the next, empty while no rhythm is known.

A step makes the same beats every time. The shortest period that has come three times in a row is the step, and a pair of beats
that comes once in it is the anchor: from one anchor to the next is one step. An anchor is kept while it goes on coming, so that
an evaluation or a checkpoint in between makes one long step and no gap; so does a copy that is added to each step. Where a job
makes the beats of several batches in a burst, and then waits for all of them, these are one step (bursts).

Where sizes differ from step to step, as with sequences of variable length, beats are compared without their size. Less is known
then, so the period has to hold for longer, and steps have to be about as long as each other: requests that come at random make
the same copies as well. For the same reason most steps that are a single beat have to be about as long as each other. Where there
are only a few sizes, three steps in a row are often of the same, which proves nothing: an anchor that now comes and now does not,
in steps that are otherwise alike, was found by chance.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from exporter.accounting.bursts import Bursts
from exporter.kernel.cadence_rows import Beat, CadenceRow
from exporter.totals import Counts, HistogramTotal
from exporter.units import slot_of

MAX_PERIOD = 64
"""Beats of a step; a job with more has no known rhythm."""

REPEATS = 3
MIN_BEATS = 12  # repetitions: a handful of copies at the start of a program is no rhythm
MIN_STEP_NS = 1_000_000
ALIKE_BEATS = 16  # where a step is one beat
EVEN_SHARE = 0.75  # of such steps, that are as long as their median
EVEN_LENGTH = 0.3  # how far from it that is
SIZELESS_BEATS = 64  # that have to repeat without their sizes
SIZELESS_SPREAD = 0.3  # mean deviation of steps from their mean length
GAPS = 2  # of the anchor, in steps that are alike except for their sizes
ANCHORED_SHARE = 0.9  # of such steps, that have it: the last batch of an epoch may be smaller
TYPICAL_OF = 63  # steps
TYPICAL_NEEDED = 16
PAUSE_STEPS = 8  # a step of so many typical ones contains a pause
UNSEEN_MAX = 1024  # batches between two readings whose bursts are followed
LOOK_EVERY = 8  # updates, while there is an anchor: two seconds

_Anchor = tuple[int, int]
"""Signatures of two beats in a row."""


class Rhythm(NamedTuple):
    """steps: that were seen to end. sum_ns: their durations. step_began_ns: CLOCK_MONOTONIC; 0 while no rhythm is known.

    missed_beats: how many came too fast to be read before it was known how many a step makes, or show that steps have changed;
    the steps they belong to are not counted.
    typical_step_ns: the median of the last steps; 0 while there are few. pauses: steps that took PAUSE_STEPS times as long,
    pause_ns: the time beyond it. resized: how often steps began to make the same beats with other sizes.
    """

    steps: int
    sum_ns: int
    step_began_ns: int
    missed_beats: int
    typical_step_ns: int
    pauses: int
    pause_ns: int
    resized: int


class Cadence:
    """The rhythm of one process."""

    def __init__(self) -> None:
        self._read = 0
        self._beats: deque[Beat] = deque(maxlen=(REPEATS + 1) * MAX_PERIOD)
        self._anchor: _Anchor | None = None
        self._period = 0  # in which the anchor was found
        self._parts: Counter[int] = Counter()  # signatures in the step in which the anchor was found
        self._last_part: Beat | None = None
        self._is_sizeless = False  # the anchor's signatures are kinds
        self._anchored: Beat | None = None  # the last beat that ended a step
        self._is_broken = False  # beats since then went unseen
        self._beats_per_batch: deque[int] = deque(maxlen=TYPICAL_OF)  # from anchor to anchor
        self._bursts = Bursts()
        self._open: list[int] = []  # lengths of the batches of the open step
        self._updates = 0
        self._counts: Counter[int] = Counter()  # by slot
        self._missed = 0
        self._steps = 0
        self._sum_ns = 0
        self._last_ns: deque[int] = deque(maxlen=TYPICAL_OF)
        self._typical_ns = 0
        self._pauses = self._pause_ns = self._resized = 0
        self._kinds: Counter[int] = Counter()  # of the beats of a step

    def update(self, row: CadenceRow) -> None:
        """Take the latest beats. It is known how many were overwritten before they were read, and so how many steps."""
        beats, is_whole = row.since(self._read)
        if not is_whole:
            self._beats.clear()
            self._last_part = None
            self._is_broken = True
            if not self._beats_per_batch:
                self._anchored = None
                self._missed += row.oldest - self._read
        self._read = max(self._read, row.oldest) + len(beats)
        for beat in beats:
            self._take(beat)
        self._updates += 1
        if beats and (self._anchor is None or self._updates % LOOK_EVERY == 0):
            self._look()

    def _take(self, beat: Beat) -> None:
        before = self._beats[-1] if self._beats else None
        if before is not None and self._is_sizeless and self._is_continued(before, beat):
            return
        self._beats.append(beat)
        signature = self._signature(beat)
        if signature not in self._parts:
            return
        before, self._last_part = self._last_part, beat
        if before is not None and (self._signature(before), signature) == self._anchor:
            self._batch_ends(beat)

    def _signature(self, beat: Beat) -> int:
        return beat.kind if self._is_sizeless else beat.signature

    @staticmethod
    def _is_continued(before: Beat, beat: Beat) -> bool:
        """Whether a batch is copied in several pieces."""
        return beat.kind == before.kind and beat.at_ns - before.at_ns < MIN_STEP_NS

    def _batch_ends(self, beat: Beat) -> None:
        if self._anchored is not None:
            self._add_batches(self._batches_since(self._anchored, beat), max(beat.at_ns - self._anchored.at_ns, 0))
        self._anchored, self._is_broken = beat, False

    def _batches_since(self, before: Beat, beat: Beat) -> int:
        """One, unless beats in between went unseen."""
        made = beat.number - before.number
        if self._is_broken:
            return max(round(made / median(self._beats_per_batch)), 1)
        self._beats_per_batch.append(made)
        return 1

    def _add_batches(self, batches: int, passed_ns: int) -> None:
        lengths_ns = self._bursts.split(min(batches, UNSEEN_MAX), passed_ns)
        self._bursts.add(lengths_ns)
        self._open += lengths_ns
        size = self._bursts.size
        while size and len(self._open) >= size:
            self._add(sum(self._open[:size]))
            del self._open[:size]

    def _add(self, step_ns: int) -> None:
        self._counts[slot_of(step_ns)] += 1
        self._steps += 1
        self._sum_ns += step_ns
        self._last_ns.append(step_ns)
        if self._steps % TYPICAL_NEEDED == 0:
            self._typical_ns = sorted(self._last_ns)[len(self._last_ns) // 2]
        if self._typical_ns and step_ns > PAUSE_STEPS * self._typical_ns:
            self._pauses += 1
            self._pause_ns += step_ns - self._typical_ns

    def _look(self) -> None:
        beats = list(self._beats)
        if self._is_chance(beats) or (
            not self._look_at(beats, is_sizeless=False) and (self._anchor is None or self._is_sizeless)
        ):
            self._look_at(_pieces_joined(beats), is_sizeless=True)

    def _look_at(self, beats: list[Beat], *, is_sizeless: bool) -> bool:
        """Find the anchor; whether there is one."""
        signatures = [beat.kind if is_sizeless else beat.signature for beat in beats]
        period = shortest_period(signatures)
        repeating = beats[-(ALIKE_BEATS if period == 1 else repeated(period)) :] if period else []
        if repeating and is_burst(repeating, period):
            period, repeating = 0, []
        if is_sizeless and not is_regular(beats[-SIZELESS_BEATS:], period):
            return False
        if self._is_sizeless and not is_sizeless and not is_periodic(signatures[-SIZELESS_BEATS:], period):
            return False
        once = anchors(signatures, period) if period != 1 or is_even(repeating) else set()
        if self._is_sizeless is is_sizeless and self._is_kept(
            beats[-period - 1 :] if once else beats, has_period=bool(once)
        ):
            return True
        if not once and (is_sizeless or self._is_sizeless):
            return False  # the other way of looking may know better
        kinds = Counter(beat.kind for beat in beats[-period:]) if period else Counter()
        if self._anchor is not None:
            self._missed += 1  # since it came for the last time, steps went unseen
            self._resized += kinds == self._kinds and not is_sizeless
        self._kinds = kinds
        self._anchor, self._anchored, self._is_sizeless = min(once, default=None), None, is_sizeless
        self._beats_per_batch.clear()
        self._bursts = Bursts()
        self._open.clear()
        self._period = period
        self._parts = Counter(signatures[-period:]) if self._anchor else Counter()
        self._last_part = beats[-1] if self._anchor else None
        # The steps that revealed the rhythm count as well.
        for before, beat in pairwise(repeating):
            if (self._signature(before), self._signature(beat)) == self._anchor:
                self._batch_ends(beat)
        return self._anchor is not None

    def _is_chance(self, beats: list[Beat]) -> bool:
        """Whether steps follow each other without regard to their sizes, and now one has the anchor, which has sizes, now another
        has not. Where none has it any more, the job has changed.
        """
        joined = _pieces_joined(beats)[-SIZELESS_BEATS:]
        period = shortest_period([beat.kind for beat in joined])
        if self._anchor is None or self._is_sizeless or not is_regular(joined, period):
            return False
        signatures = [beat.signature for beat in beats if beat.at_ns >= joined[0].at_ns]
        parts = [(number, one) for number, one in enumerate(signatures) if one in self._parts]
        found = [number for (_, before), (number, one) in pairwise(parts) if (before, one) == self._anchor]
        gaps = sum(after - before > self._period for before, after in pairwise(found))
        is_interleaved = gaps >= GAPS and len(found) < ANCHORED_SHARE * len(joined) / period
        return is_interleaved and not is_periodic(signatures, shortest_period(signatures))

    def _is_kept(self, beats: Sequence[Beat], *, has_period: bool) -> bool:
        """Whether the anchor still comes: once in a period, or at all where none is known.

        Beats that are new to the step are passed over. A step in many whose sizes are others makes no longer period, and neither
        does a beat that is added to a step in few.
        """
        if self._anchor is None:
            return False
        found = Counter(pairwise(one for one in map(self._signature, beats) if one in self._parts))[self._anchor]
        if not has_period or found == 1:
            return found > 0
        steps = (len(beats) - 1) / self._period
        is_resized = found >= ANCHORED_SHARE * steps and is_periodic([beat.kind for beat in beats], self._period)
        return is_resized or self._is_of_several(beats[1:])

    def _is_of_several(self, period: Sequence[Beat]) -> bool:
        """Whether a period has several steps with all their beats, and others that come once for all of them, as where a job
        updates its weights after four batches: what is added there makes no step longer than it was.
        """
        found = Counter(one for one in map(self._signature, period) if one in self._parts)
        count = found.total() // self._period
        return count > 1 and found == Counter({part: count * of_step for part, of_step in self._parts.items()})

    def rhythm(self) -> Rhythm:
        """Steps so far and the open one."""
        return Rhythm(
            self._steps,
            self._sum_ns,
            self._anchored.at_ns - sum(self._open) if self._anchored and self._bursts.size else 0,
            self._missed,
            self._typical_ns,
            self._pauses,
            self._pause_ns,
            self._resized,
        )

    def steps(self) -> HistogramTotal | None:
        """Durations so far; None without any."""
        if not self._sum_ns:
            return None
        begin, end = min(self._counts), max(self._counts) + 1
        return HistogramTotal(Counts(begin, tuple(self._counts[slot] for slot in range(begin, end))), self._sum_ns)


def shortest_period(signatures: Sequence[int]) -> int:
    """Shortest period of the last beats that has come REPEATS times, in beats; 0 when there is none."""
    last = signatures[::-1]
    for period in range(1, MAX_PERIOD + 1):
        length = repeated(period)
        if length > len(last):
            return 0
        if all(last[i] == last[i + period] for i in range(length - period)):
            return period
    return 0


def is_periodic(signatures: Sequence[int], period: int) -> bool:
    """Whether all of them repeat this period; 0: none."""
    return period > 0 and all(one == later for one, later in zip(signatures, signatures[period:], strict=False))


def is_even(beats: Sequence[Beat]) -> bool:
    """Whether most beats come about as long after one another as the others: slow steps now and then make no difference."""
    if len(beats) < ALIKE_BEATS:
        return False
    steps_ns = sorted(later.at_ns - before.at_ns for before, later in pairwise(beats))
    median_ns = steps_ns[len(steps_ns) // 2]
    even = sum(abs(step_ns - median_ns) <= EVEN_LENGTH * median_ns for step_ns in steps_ns)
    return even >= EVEN_SHARE * len(steps_ns)


def is_regular(beats: Sequence[Beat], period: int) -> bool:
    """Whether beats repeat this period all the time, in steps of about the same length."""
    if (
        not period
        or len(beats) < SIZELESS_BEATS
        or any(beat.kind != later.kind for beat, later in zip(beats, beats[period:], strict=False))
    ):
        return False
    ends_ns = [beat.at_ns for beat in beats[::period]]
    steps_ns = [later - before for before, later in pairwise(ends_ns)]
    mean_ns = sum(steps_ns) / len(steps_ns)
    return sum(abs(step_ns - mean_ns) for step_ns in steps_ns) <= SIZELESS_SPREAD * mean_ns * len(steps_ns)


def _pieces_joined(beats: list[Beat]) -> list[Beat]:
    """Without the later pieces of batches that are copied in several."""
    return beats[:1] + [
        beat for before, beat in pairwise(beats) if beat.kind != before.kind or beat.at_ns - before.at_ns >= MIN_STEP_NS
    ]


def is_burst(beats: Sequence[Beat], period: int) -> bool:
    """Whether a period is too short for a step: a large batch is copied in many pieces of one size."""
    return (beats[-1].at_ns - beats[0].at_ns) * period < MIN_STEP_NS * (len(beats) - 1)


def repeated(period: int) -> int:
    """How many beats must repeat for this to be a period."""
    return max(REPEATS * period, MIN_BEATS)


def anchors(signatures: Sequence[int], period: int) -> set[_Anchor]:
    """Pairs of beats that come exactly once in a period."""
    if not period:
        return set()
    around = signatures[-period - 1 :]
    pairs = Counter(pairwise(around))
    return {pair for pair, count in pairs.items() if count == 1}
