"""Which trials, chosen by a seed: a shape, what goes wrong, how strongly, and where the job runs.

Half of the trials are decoys. Strengths are what steps should take longer, by arithmetic; what counts is what was measured.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from exporter.causes import HOST_CAUSES
from tests.faults.shapes.expected import EXPECTED
from tests.faults.shapes.shape import DECOYS, InsideFault, Shape
from tests.faults.trials.extra import Extra
from tests.faults.trials.fault import OutsideFault

SHARES = (0.1, 3.0)
FAULT_SECONDS = (8.0, 20.0)
INSIDE, INSIDE_DECOY, NOTHING = 0.4, 0.25, 0.1
TWO_AT_ONCE = 0.1
IN_SEQUENCE = (6, 12)
SEQUENCE_FAULT_SECONDS = (8.0, 14.0)
GAP_SECONDS = 12.0
"""After each fault of a sequence: the job recovers, and ten seconds before a fault are what it is compared with."""
ON_ONE_CPU = 0.3
ONE_CPU = "0"
HOST = frozenset(cause.value for cause in HOST_CAUSES)
LATE_RANK = frozenset({"slow_rank"})
ANY_EXTRA = (Extra.NONE, Extra.NONE, Extra.NONE, Extra.FILE, Extra.SERVER, Extra.LOG)
"""What a job may do besides where its fault does not care."""


class Decoys(enum.StrEnum):
    """How many of the trials are decoys."""

    NONE = "none"
    HALF = "half"
    ONLY = "only"


@dataclass(frozen=True)
class PlannedFault:
    """share: by which part steps should take longer. rank: that has the fault, if it comes from inside."""

    name: str
    share: float
    is_inside: bool = False
    rank: int = 0


@dataclass(frozen=True)
class PlannedTrial:
    """faults: none, one, or a second one that begins in the middle of the first. cpus: as taskset takes them, "" for all.

    is_crowded: programs with ever other names start and end beside it all the time. gap_seconds: where it is not 0, any number
    of faults and decoys have the job in sequence, with so long between them.
    """

    number: int
    seed: int
    shape: str
    faults: tuple[PlannedFault, ...]
    extra: Extra
    cpus: str
    fault_seconds: float
    is_crowded: bool = False
    gap_seconds: float = 0.0

    @property
    def name(self) -> str:
        """Name of its file."""
        faults = "+".join(fault.name for fault in self.faults) or "nothing"
        return f"{self.seed}-{self.number:03}-{self.shape}-{f'{len(self.faults)}-in-sequence' if self.gap_seconds else faults}"

    def part(self, number: int) -> PlannedTrial:
        """One fault of a sequence, as if it were a trial."""
        return replace(self, faults=(self.faults[number],), gap_seconds=0.0)


class Planner:
    """shapes, outside: to choose from."""

    def __init__(self, seed: int, shapes: Sequence[Shape], outside: Mapping[str, OutsideFault]) -> None:
        self._seed = seed
        self._random = Random(seed)
        self._shapes = shapes
        self._outside = outside

    def trials(self, count: int, decoys: Decoys = Decoys.HALF) -> Iterator[PlannedTrial]:
        """Every shape as often as any other."""
        order: list[Shape] = []
        for number in range(count):
            order = order or self._random.sample(self._shapes, len(self._shapes))
            is_decoy = decoys is Decoys.ONLY or (decoys is Decoys.HALF and number % 2 == 1)
            yield self._trial(number, order.pop(), is_decoy=is_decoy)

    def sequences(self, count: int) -> Iterator[PlannedTrial]:
        """Faults and decoys as they come, in one job each; every shape as often as any other."""
        order: list[Shape] = []
        for number in range(count):
            order = order or self._random.sample(self._shapes, len(self._shapes))
            yield self._sequence(number, order.pop())

    def _sequence(self, number: int, shape: Shape) -> PlannedTrial:
        extra = Extra.NONE if shape.source else self._random.choice(tuple(Extra))
        cpus = ONE_CPU if shape.ranks == 1 and self._random.random() < ON_ONE_CPU else ""
        able = [fault for fault in self._outside.values() if is_felt(shape, fault) and is_possible(fault, extra, cpus)]
        chosen = []
        for _ in range(self._random.randint(*IN_SEQUENCE)):
            is_decoy = self._random.random() < 0.5
            inside = shape.decoys if is_decoy else shape.faults
            outside = [fault.name for fault in able if fault.is_decoy == is_decoy]
            is_inside = bool(inside) and (not outside or self._random.random() < (INSIDE_DECOY if is_decoy else INSIDE))
            chosen.append(self._fault(shape, self._random.choice(inside if is_inside else outside)))
        seconds = self._random.uniform(*SEQUENCE_FAULT_SECONDS)
        return PlannedTrial(
            number, self._seed, shape.name, tuple(chosen), extra, cpus, seconds, gap_seconds=GAP_SECONDS
        )

    def only(self, name: str, count: int) -> Iterator[PlannedTrial]:
        """One fault or decoy, in shapes that can have it."""
        able = [shape for shape in self._shapes if name in self._names(shape)]
        for number, shape in enumerate(able * (count // max(len(able), 1) + 1)):
            if number < count:
                yield self._placed(number, shape, (self._fault(shape, name),))

    def _names(self, shape: Shape) -> set[str]:
        return {*shape.offers, *(fault.name for fault in self._outside.values() if is_felt(shape, fault))}

    def _trial(self, number: int, shape: Shape, *, is_decoy: bool) -> PlannedTrial:
        lot = self._random.random()
        inside = shape.decoys if is_decoy else shape.faults
        outside = [fault for fault in self._outside.values() if fault.is_decoy == is_decoy and is_felt(shape, fault)]
        if is_decoy and lot < NOTHING:
            return self._placed(number, shape, ())
        if inside and lot < (NOTHING + INSIDE_DECOY if is_decoy else INSIDE):
            return self._placed(number, shape, (self._fault(shape, self._random.choice(inside)),))
        first = self._random.choice(outside)
        faults = [self._fault(shape, first.name)]
        if not is_decoy and not first.is_of_one_cpu and self._random.random() < TWO_AT_ONCE:
            others = [one for one in outside if one is not first and one.extra is None and not one.is_of_one_cpu]
            faults.append(self._fault(shape, self._random.choice(others).name))
        return self._placed(number, shape, tuple(faults))

    def _fault(self, shape: Shape, name: str) -> PlannedFault:
        low, high = map(math.log, SHARES)
        share = math.exp(self._random.uniform(low, high))
        is_inside = name not in self._outside
        return PlannedFault(name, share, is_inside, self._random.randrange(shape.ranks) if is_inside else 0)

    def _placed(self, number: int, shape: Shape, faults: tuple[PlannedFault, ...]) -> PlannedTrial:
        outside = [self._outside[fault.name] for fault in faults if not fault.is_inside]
        extra = next((fault.extra for fault in outside if fault.extra), None)
        if extra is None:
            extra = Extra.NONE if shape.source else self._random.choice(ANY_EXTRA)
        is_alone = any(fault.is_of_one_cpu for fault in outside)
        may_be_alone = shape.ranks == 1 and not any(fault.is_of_all_cpus for fault in outside)
        cpus = ONE_CPU if is_alone or (may_be_alone and self._random.random() < ON_ONE_CPU) else ""
        seconds = self._random.uniform(*FAULT_SECONDS)
        return PlannedTrial(number, self._seed, shape.name, faults, extra, cpus, seconds)


def is_felt(shape: Shape, fault: OutsideFault) -> bool:
    """A program in C++ does nothing besides; a job of several ranks does not fit on one CPU."""
    return not (shape.source and fault.extra) and not (shape.ranks > 1 and fault.is_of_one_cpu)


def is_possible(fault: OutsideFault, extra: Extra, cpus: str) -> bool:
    """Whether it can be brought to a job that does this besides, on these CPUs."""
    return (
        fault.extra in (None, extra) and not (fault.is_of_one_cpu and not cpus) and not (fault.is_of_all_cpus and cpus)
    )


def is_decoy(faults: Iterable[PlannedFault], outside: Mapping[str, OutsideFault]) -> bool:
    """Whether no chain is expected: nothing is wrong, or the job does on purpose what it does."""
    return all(fault.name in DECOYS if fault.is_inside else outside[fault.name].is_decoy for fault in faults)


def accepted(faults: Iterable[PlannedFault], outside: Mapping[str, OutsideFault], ranks: int = 1) -> frozenset[str]:
    """Causes that are right; of a decoy from inside, what may be named.

    Where one of several ranks does more than the others, and the host is not the reason, it is right as well that it is late.
    """
    found: frozenset[str] = frozenset()
    for fault in faults:
        found |= EXPECTED[InsideFault(fault.name)] if fault.is_inside else outside[fault.name].causes
    is_of_a_rank = ranks > 1 and any(fault.is_inside and fault.name not in DECOYS for fault in faults)
    return found | LATE_RANK if is_of_a_rank and not found & HOST else found
