"""Compares what was reported in a trial with what its step log shows.

In: a Trial. Out: a Case: whether there was a fault at all, its chains, and the alarms while nothing was wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from exporter.causes import LOST_TIME_CAUSES, Cause
from exporter.chains.chain import Chain, Change
from exporter.units import NANOSECONDS
from tests.faults.books import Entry, books, first_after, last_before
from tests.faults.campaign.co_occurrence import Alarm, alarms
from tests.faults.diagnosed import Event, first_of, latest_of
from tests.faults.job import Step
from tests.faults.recording import RecordedRun
from tests.faults.shapes import SHAPES
from tests.faults.shapes.shape import DECOYS
from tests.faults.trials.fault import OutsideFault
from tests.faults.trials.outside.neighbour import GROUP
from tests.faults.trials.outside.registry import OUTSIDE
from tests.faults.trials.plan import HOST, PlannedTrial, accepted, is_decoy
from tests.faults.trials.trial import Trial, first_ns
from tests.faults.trials.truth import StepTruth, spans_of, truth_of

GRACE_NS = 5 * NANOSECONDS
"""Behind a fault, in which a chain may still open for it."""
BEFORE_NS = NANOSECONDS
"""So much may the begin of a chain lie before that of the fault, as it is known at its end."""
SLOWER = 0.1
"""Steps that are longer by this part are slow, whether or not something was done to them."""
OWN, DEVICE = frozenset({"own_code", "own_wait"}), frozenset({"gpu", "gpu_throttled", "gpu_contention"})


class Published(NamedTuple):
    """Where the lost time of a fault is published.

    of_chains_ns: in chains of causes that no lost time is charged to, such as own_code. has_charges: whether lost time is charged
    to a right cause of the fault.
    """

    of_chains_ns: int
    has_charges: bool


class Booked(NamedTuple):
    """Nanoseconds lost during a fault: as they are published, beyond as many steps before it; and by the step log."""

    booked_ns: float
    lost_ns: float
    wall_ns: int

    @property
    def error_of_wall(self) -> float:
        """As a share of the time."""
        return abs(self.booked_ns - self.lost_ns) / self.wall_ns

    @property
    def error_of_lost(self) -> float:
        """As a share of what was lost."""
        return abs(self.booked_ns - self.lost_ns) / self.lost_ns if self.lost_ns > 0 else 0.0


@dataclass(frozen=True)
class Case:
    """A trial that was compared.

    is_decoy: no chain is expected. accepted: causes that are right, or may be named though nothing is wrong. opened: chains from
    the begin of the fault to its grace. last: the same, when they were resolved. false_alarms: chains while steps were as long
    as ever. disturbed: those while they were longer without a fault. quiet_ns: in which no chain was to be opened. rules,
    false_rules: alarms of rules of co-occurrence. booked: None without a recording or a fault, with several ranks, which are late
    by turns, and for a job with pauses, whose lost time depends on its users.
    """

    planned: PlannedTrial
    truth: StepTruth
    is_decoy: bool
    accepted: frozenset[str]
    on_ns: int
    opened: tuple[Event, ...]
    last: tuple[Chain, ...]
    false_alarms: tuple[Event, ...]
    disturbed: tuple[Event, ...]
    quiet_ns: int
    rules: tuple[Alarm, ...] = ()
    false_rules: tuple[Alarm, ...] = ()
    booked: Booked | None = None

    @property
    def is_fault(self) -> bool:
        """Whether something was wrong: it was meant to be, and steps show it."""
        return not self.is_decoy and self.truth.is_real

    @property
    def is_harmful_decoy(self) -> bool:
        """Whether what should make no step longer did so all the same: it proves nothing."""
        return self.is_decoy and not is_on_purpose(self.planned) and self.truth.is_real

    @property
    def reported(self) -> list[Event]:
        """All chains, right or not, in the order of their opening."""
        return sorted((*self.opened, *self.false_alarms, *self.disturbed), key=lambda event: event.now_ns)

    @property
    def first(self) -> Event | None:
        """The first chain; one of waiting for a peer only where there is no other."""
        return first_of(self.opened)

    @property
    def is_right(self) -> bool:
        """Whether the first chain has a right cause."""
        return self.first is not None and self.is_right_event(self.first)

    def is_right_event(self, event: Event) -> bool:
        """Whether a chain of the fault has a right cause. To wait for a rank that has one is right as well."""
        right = {str(one.rank) for one in self.opened if one.chain.cause.value in self.accepted}
        is_of_a_peer = event.chain.cause is Cause.PEER_RANK and event.chain.peer in right
        return is_of_a_peer or event.chain.cause.value in self.accepted

    @property
    def detected_after_ns(self) -> int | None:
        """Since the first slow step."""
        return max(self.first.now_ns - (self.truth.first_slow_ns or self.on_ns), 0) if self.first else None

    @property
    def names_culprit(self) -> bool | None:
        """Whether the first culprit or late rank is the right one; None where there is none to name, or no right chain."""
        if self.first is not None and self.first.chain.cause in (Cause.SLOW_RANK, Cause.PEER_RANK) and self.is_right:
            late = self.first.chain.peer or str(self.first.rank)
            return late in {str(fault.rank) for fault in self.planned.faults if fault.is_inside}
        if self.first is None or not self.is_right:
            return None
        known = [OUTSIDE[fault.name] for fault in self.planned.faults if not fault.is_inside]
        of_cause = [fault for fault in known if self.first.chain.cause.value in fault.causes]
        wanted = [name for fault in of_cause for name in fault.culprits]
        if not wanted:
            return None
        culprits = latest_of(self.first, self.last).culprits
        return bool(culprits) and is_named(culprits[0][0], wanted)

    @property
    def is_distinguished(self) -> bool | None:
        """Whether own work is not taken for a slow GPU, or the other way round; None for other faults and a late rank."""
        is_of_the_job = bool(self.accepted & (OWN | DEVICE)) and not self.accepted & HOST
        if self.first is None or self.first.chain.cause is Cause.SLOW_RANK or not is_of_the_job:
            return None
        return self.first.chain.cause.value in (OWN if self.accepted & OWN else DEVICE)


def is_named(culprit: str, wanted: Iterable[str]) -> bool:
    """By its program, cut to 15 characters as the kernel does, or by its control group."""
    return GROUP in culprit or any(culprit.startswith(name[:15]) for name in wanted)


class Part(NamedTuple):
    """One fault of a trial, or all of one whose faults overlap.

    on_ns, off_ns: of the fault. from_ns, until_ns: chains that open in between are counted here.
    """

    planned: PlannedTrial
    on_ns: int
    off_ns: int
    from_ns: int
    until_ns: int


def parts_of(trial: Trial) -> list[Part]:
    """In the order in which they came. All of the trial's time is part of one of them."""
    moments, planned = trial.run.injections_ns, trial.planned
    if planned.gap_seconds:
        faults = [(planned.part(number), *moment) for number, moment in enumerate(moments)]
    else:
        faults = [(planned, min(on_ns for on_ns, _ in moments), max(off_ns for _, off_ns in moments))]
    ends = [0, *(off_ns + GRACE_NS for _, _, off_ns in faults[:-1]), max(step.end_ns for step in trial.run.steps)]
    return [Part(*fault, *span) for fault, span in zip(faults, pairwise(ends), strict=True)]


def score(trial: Trial, outside: Mapping[str, OutsideFault] = OUTSIDE) -> list[Case]:
    """The case of each part of a trial. Raises ValueError when its job made no steps before a fault."""
    events = trial.events
    return [_case(trial, part, events, outside) for part in parts_of(trial)]


def _case(trial: Trial, part: Part, events: Iterable[Event], outside: Mapping[str, OutsideFault]) -> Case:
    planned, on_ns, off_ns, from_ns, until_ns = part
    shape = SHAPES[planned.shape]
    has_pauses = shape.has_pauses
    is_alone = shape.ranks == 1 and not has_pauses
    truth = truth_of(trial.run.steps, on_ns, off_ns, has_pauses=has_pauses)
    right = accepted(planned.faults, outside, shape.ranks)
    is_last = part == parts_of(trial)[-1]
    own = [event for event in events if from_ns <= event.now_ns and (event.now_ns < until_ns or is_last)]
    opened = [event for event in own if event.change is Change.OPENED]
    resolved = {event.chain.id: event.chain for event in events if event.change is Change.RESOLVED}
    nothing_is_wrong = is_decoy(planned.faults, outside)
    is_fault = not nothing_is_wrong and truth.is_real
    mine = [
        event
        for event in opened
        if is_fault
        and on_ns <= event.now_ns <= off_ns + GRACE_NS
        and resolved.get(event.chain.id, event.chain).began_ns >= on_ns - BEFORE_NS
    ]
    # A right cause for what was too weak to count, or was done on purpose, is neither right nor wrong.
    others = [
        event
        for event in opened
        if event not in mine and not (event.chain.cause.value in right and on_ns <= event.now_ns <= off_ns + GRACE_NS)
    ]
    is_excused = [
        _is_start(trial, event)
        or (not is_on_purpose(planned) and is_slow(trial.run.steps, event, on_ns, off_ns, has_pauses=has_pauses))
        for event in others
    ]
    rules = [rule for rule in alarms(trial.gauges) if from_ns <= rule.now_ns and (rule.now_ns < until_ns or is_last)]
    whole_ns = until_ns - max(from_ns, first_ns(trial))
    return Case(
        planned,
        truth,
        nothing_is_wrong,
        right,
        on_ns,
        tuple(mine),
        tuple(resolved[event.chain.id] for event in mine if event.chain.id in resolved),
        tuple(event for event, excused in zip(others, is_excused, strict=True) if not excused),
        tuple(event for event, excused in zip(others, is_excused, strict=True) if excused),
        whole_ns - (off_ns + GRACE_NS - on_ns if is_fault else 0),
        tuple(rule for rule in rules if is_fault and on_ns <= rule.now_ns <= off_ns + GRACE_NS),
        tuple(rule for rule in rules if not (is_fault and on_ns <= rule.now_ns)),
        booked(trial.run, truth, part, published(right, mine, resolved))
        if is_fault and trial.run.ticks and is_alone
        else None,
    )


def is_on_purpose(planned: PlannedTrial) -> bool:
    """Whether steps may become longer and nothing is wrong: the job does something else now."""
    return any(fault.is_inside and fault.name in DECOYS for fault in planned.faults)


def _is_start(trial: Trial, event: Event) -> bool:
    """While the job had no rhythm yet: its libraries and page tables are new."""
    return event.now_ns < first_ns(trial)


def is_slow(steps: Iterable[Step], event: Event, on_ns: int, off_ns: int, *, has_pauses: bool = False) -> bool:
    """Whether the rank's steps were longer than in quiet times while the chain came up, whatever the reason."""
    spans = spans_of((step for step in steps if step.rank == max(event.rank, 0)), has_pauses=has_pauses)
    during = [span.wall_ns for span in spans if span.end_ns > event.chain.began_ns and span.start_ns < event.now_ns]
    quiet = [span.wall_ns for span in spans if span.end_ns <= on_ns or span.start_ns >= off_ns + GRACE_NS]
    return bool(during and quiet) and sum(during) / len(during) / median(quiet) - 1 >= SLOWER


def booked(run: RecordedRun, truth: StepTruth, part: Part, published: Published) -> Booked:
    """Sums of the rank to which most was booked."""
    on_ns, off_ns = part.on_ns, part.off_ns
    sums = [0.0]
    if published.has_charges:
        before_ns = max(on_ns - (off_ns - on_ns), part.from_ns)
        numbers = [last_before(run, moment) for moment in (before_ns, on_ns)]
        numbers.append(min(first_after(run, off_ns) + 1, len(run.ticks) - 1))
        entered = books(run, numbers)
        entries = [entered[number] for number in numbers]
        moments = [run.ticks[number].now_ns for number in numbers]
        sums += [beyond(entries, moments, tgid, run.of(rank)) for rank, tgid in run.tgids.items()]
    return Booked(max(sums) + published.of_chains_ns, truth.lost_ns, truth.wall_ns)


def beyond(entries: Sequence[Entry], moments: Sequence[int], tgid: int, steps: Sequence[Step]) -> float:
    """Lost during the fault, less what as many steps lose without it. moments: of the entries, the second when the fault came."""
    before, on, off = (sum(entry.get(tgid, {}).values()) for entry in entries)
    made_before, made = (sum(then < step.end_ns <= now for step in steps) for then, now in pairwise(moments))
    return off - on - (on - before) * made / max(made_before, 1)


def published(right: frozenset[str], opened: Sequence[Event], resolved: Mapping[str, Chain]) -> Published:
    """right: causes of the fault. opened: its chains."""
    of_chains_ns = 0
    for event in opened:
        chain = resolved.get(event.chain.id, event.chain)
        if chain.cause not in LOST_TIME_CAUSES:
            of_chains_ns += chain.lost_ns
    return Published(of_chains_ns, any(cause.value in right for cause in LOST_TIME_CAUSES))
