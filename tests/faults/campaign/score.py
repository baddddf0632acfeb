"""Compares the chains of each window of a session with the job's own steps.

In: a Session. Out: a Case for each window, and chains while nothing was wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean, median
from typing import NamedTuple

from exporter.causes import Cause
from exporter.chains.chain import Chain, Change
from exporter.units import NANOSECONDS
from tests.faults.campaign.co_occurrence import Alarm, alarms
from tests.faults.campaign.plan import is_last
from tests.faults.campaign.session import Session
from tests.faults.diagnosed import ACCEPTED, Event, events_of, first_of, latest_of
from tests.faults.episode import Episode
from tests.faults.job import COMM, Step, Window
from tests.faults.recording import RecordedRun
from tests.faults.registry import WORKER
from tests.faults.truth import AFTERMATH

IMPACT = 0.04
"""A step must be longer by this part, or the fault is none: whatever was injected."""
STRONG, WEAK = 0.2, (0.04, 0.1)
BASE_NS = 6 * NANOSECONDS
"""Quiet steps before a window, that say how long it would have been."""
BEFORE_NS = NANOSECONDS
"""So much may the begin of a chain lie before that of the fault: four ticks."""
ONSET_NS = 2 * NANOSECONDS
"""Other slowness this shortly before a fault cannot be separated from it: such a window proves nothing."""
SETTLED_NS = 5 * NANOSECONDS
"""First steps of a job, which are not compared."""
DISTURBED = 0.1
"""Seconds in which nothing was injected and half of the steps were longer by this part: the machine has other work."""
RULES_LOOK_BACK_NS = 10 * NANOSECONDS
_OF_A_RANK = {Cause.SLOW_RANK, Cause.NCCL_HANG}


@dataclass(frozen=True)
class Case:
    """One window. impact: by which part its steps were longer; None where none ended.

    opened: chains from its begin to the episode's grace behind its end, in order. last: the same, as they were when resolved.
    reported_impact: the impact between the moments at which the first of them says that it began and ended.
    alarms: of the other rules, in the same time.
    """

    episode: Episode
    impact: float | None
    began_ns: int
    ended_ns: int
    opened: tuple[Event, ...]
    last: tuple[Chain, ...]
    reported_impact: float | None
    alarms: tuple[Alarm, ...]

    @property
    def is_positive(self) -> bool:
        """Whether a chain is expected."""
        return self.episode.cause is not None and (self.impact is None or self.impact >= IMPACT)

    @property
    def is_strong(self) -> bool:
        """Whether it is to be found within seconds."""
        is_felt = self.is_positive and not self.episode.costs_nothing
        return is_felt and (self.impact is None or self.impact >= STRONG)

    @property
    def is_weak(self) -> bool:
        """Whether it is one of those that are hard to find."""
        return self.is_positive and self.impact is not None and WEAK[0] <= self.impact < WEAK[1]

    @property
    def is_of_the_host(self) -> bool:
        """Whether silence would be a miss."""
        return self.is_positive and self.episode.cause is not Cause.GPU

    @property
    def accepted(self) -> set[str]:
        """Causes that are right."""
        return set().union(*(ACCEPTED.get(cause, {cause.value}) for cause in self.episode.causes))

    @property
    def first(self) -> Event | None:
        """The first chain; one of waiting for a peer only where there is no other."""
        return first_of(self.opened)

    @property
    def is_right(self) -> bool:
        """Whether the first chain has the right cause."""
        return self.first is not None and self.first.chain.cause.value in self.accepted

    @property
    def detected_after_ns(self) -> int | None:
        """Since the fault began."""
        return self.first.now_ns - self.began_ns if self.first else None

    @property
    def names_culprit(self) -> bool | None:
        """Whether it is the right one; None where there is none to name, or no chain."""
        if self.first is None:
            return None
        if self.episode.cause in _OF_A_RANK:
            return self.first.rank == self.episode.culprit_rank
        chain = latest_of(self.first, self.last)
        named = (Cause.CPU_CONTENTION, Cause.GPU_CONTENTION)
        of_cause = dict.fromkeys(named, self.episode.culprit) | {Cause.CPU_OVERSUBSCRIBED: COMM}
        if chain.cause.value == Cause.BLOCK_IO and self.episode.culprit != WORKER:  # which is the job itself
            of_cause[Cause.BLOCK_IO] = self.episode.culprit
        wanted = of_cause.get(self.episode.cause)
        if wanted is None:
            return None
        return bool(chain.culprits) and chain.culprits[0][0] == wanted

    @property
    def chains_of_a_rank(self) -> int:
        """The most that any rank has."""
        ranks = [event.rank for event in self.opened]
        return max((ranks.count(rank) for rank in set(ranks)), default=0)

    @property
    def contribution_error(self) -> float | None:
        """Distance of the reported lost share from the true one; None where no step shows it."""
        if self.first is None or self.reported_impact is None or not self.is_right:
            return None
        chain = latest_of(self.first, self.last)
        if chain.slowdown is None:
            return None
        parts = sum(part for cause, part in chain.shares if cause in self.accepted) or chain.contribution
        said = min(parts, 1.0) * chain.slowdown / (1 + chain.slowdown)
        return abs(said - self.reported_impact / (1 + self.reported_impact))


class Scored(NamedTuple):
    """A session. false_alarms: chains that were opened while its steps were as long as ever. disturbed: while they were longer
    without an injected fault: other work on this machine. unsettled: windows that are left out, since that had begun just
    before them. noise: by how much windows without a fault are off.
    false_rules: moments at which one of the other rules held that had not held before, in quiet times.
    """

    cases: tuple[Case, ...]
    false_alarms: tuple[Event, ...]
    disturbed: tuple[Event, ...]
    unsettled: int
    quiet_ns: int
    noise: tuple[float, ...]
    false_rules: tuple[Alarm, ...]


def score(session: Session) -> Scored:
    """Cases of every window."""
    events = events_of(session.run)
    opened = [one for one in events if one.change is Change.OPENED]
    resolved = {one.chain.id: one.chain for one in events if one.change is Change.RESOLVED}
    rules = list(alarms(session.gauges))
    cases = []
    for began_ns, ended_ns in _spans(session):
        until_ns = ended_ns + session.episode.grace_ns
        during = [one for one in opened if began_ns <= one.now_ns <= until_ns]
        mine = tuple(one for one in during if _is_of(resolved.get(one.chain.id, one.chain), began_ns))
        cases.append(
            Case(
                session.episode,
                _impact(session, began_ns, ended_ns) if _is_measured(session.episode) else None,
                began_ns,
                ended_ns,
                mine,
                tuple(resolved[one.chain.id] for one in mine if one.chain.id in resolved),
                _reported_impact(session, began_ns, first_of(mine), resolved),
                tuple(rule for rule in rules if began_ns <= rule.now_ns <= until_ns),
            )
        )
    settled = [case for case in cases if not case.is_positive or is_settled(session, case.began_ns)]
    others = [one for one in opened if not any(one in case.opened for case in cases)]
    # A fault without impact is none, and neither is a decoy: a chain for them is wrong.
    others += [one for case in cases if not case.is_positive for one in case.opened]
    disturbed = tuple(one for one in others if is_excused(session, one))
    run_ns = session.run.ticks[-1].now_ns - session.run.ticks[0].now_ns
    grace_ns = session.episode.grace_ns
    positive_ns = sum(case.ended_ns + grace_ns - case.began_ns for case in cases if case.is_positive)
    return Scored(
        tuple(case for case in settled if case.is_positive),
        tuple(one for one in others if one not in disturbed),
        disturbed,
        len(cases) - len(settled),
        max(run_ns - positive_ns, 0),
        tuple(_noise(session)),
        tuple(_fresh(rules, [(case.began_ns, case.ended_ns) for case in cases if case.is_positive])),
    )


def _is_measured(episode: Episode) -> bool:
    """Whether steps show what its fault costs."""
    return not (is_last(episode) or episode.costs_nothing)


def _is_of(chain: Chain, began_ns: int) -> bool:
    """Whether it says to have begun with this fault, and not before it."""
    return chain.began_ns >= began_ns - BEFORE_NS


def _spans(session: Session) -> Iterator[tuple[int, int]]:
    """From the first step with the fault to the last one; of an injector, while it was at work."""
    if session.run.injections_ns:
        yield from session.run.injections_ns
        return
    steps = session.run.of(0)
    for window in session.episode.windows:
        mine = [step for step in steps if step.number in window]
        if is_last(session.episode):
            yield mine[0].start_ns if mine else steps[-1].end_ns, session.run.ticks[-1].now_ns
        elif mine:
            yield mine[0].start_ns, mine[-1].end_ns


def _cycles(run: RecordedRun, rank: int) -> list[Step]:
    """Steps from the end of the one before: what is lost between two of them is lost."""
    steps = run.of(rank)
    return [*steps[:1], *(replace(after, start_ns=before.end_ns) for before, after in pairwise(steps))]


def _reported_impact(
    session: Session, began_ns: int, event: Event | None, resolved: Mapping[str, Chain]
) -> float | None:
    chain = event and resolved.get(event.chain.id)
    if chain is None or not _is_measured(session.episode):
        return None
    steps = _cycles(session.run, session.episode.culprit_rank or 0)
    base_ns = _base_ns(steps, began_ns, session.episode.period)
    walls = [step.wall_ns for step in steps if step.end_ns > chain.began_ns and step.start_ns < chain.resolved_ns]
    return fmean(walls) / base_ns - 1 if walls and base_ns else None


def _impact(session: Session, began_ns: int, ended_ns: int) -> float | None:
    """Chains of the rank that has the fault."""
    steps = _cycles(session.run, session.episode.culprit_rank or 0)
    of_fault = [step for step in steps if step.end_ns > began_ns and step.start_ns < ended_ns]
    if not of_fault:
        return None
    paid = Window(of_fault[0].number, of_fault[-1].number + 1 + AFTERMATH)
    base_ns = _base_ns(steps, began_ns, session.episode.period)
    lost_ns = sum(step.wall_ns - base_ns for step in steps if step.number in paid)
    return lost_ns / (base_ns * len(of_fault)) if base_ns else None


def _base_ns(steps: Sequence[Step], before_ns: int, period: int = 1) -> float:
    """The mean of whole periods; steps that a hiccup of the machine made longer than twice the median count as that."""
    walls = [step.wall_ns for step in steps if before_ns - BASE_NS <= step.start_ns and step.end_ns <= before_ns]
    if not walls:
        return 0.0
    usual = median(walls)
    return fmean(min(wall, 2 * usual) if period == 1 else wall for wall in walls)


def is_settled(session: Session, began_ns: int) -> bool:
    """Whether the steps of the rank that has the fault were as long just before it as in the seconds before that."""
    steps = _cycles(session.run, session.episode.culprit_rank or 0)
    base = [step for step in steps if began_ns - BASE_NS <= step.start_ns and step.end_ns <= began_ns]
    if not base:
        return True
    usual = median(step.wall_ns for step in base)
    seconds_of = [
        [step.wall_ns for step in base if from_ns <= step.end_ns < from_ns + NANOSECONDS]
        for from_ns in range(began_ns - ONSET_NS, began_ns, NANOSECONDS)
    ]
    return all(median(walls) <= (1 + DISTURBED) * usual for walls in seconds_of if walls)


def is_excused(session: Session, event: Event) -> bool:
    """Whether an unexpected chain is true: the machine itself made steps longer.

    Of a decoy that is no excuse, unless it injects nothing: what it does may make steps longer, and nothing is wrong.
    """
    episode = session.episode
    return (not episode.is_decoy or episode.injects_nothing) and is_slower(session, event)


def is_slower(session: Session, event: Event) -> bool:
    """Whether the job's own steps were longer than in quiet times, between the begin of the chain and its opening.

    Quiet times of the whole session: what a fault leaves behind it slows steps down for a while, without an injected fault.
    """
    steps = _cycles(session.run, max(event.rank, 0))
    during = [step.wall_ns for step in steps if step.end_ns > event.chain.began_ns and step.start_ns < event.now_ns]
    quiet = [step.wall_ns for step in _quiet(session, steps)]
    return bool(during and quiet) and fmean(during) / median(quiet) - 1 >= IMPACT


def _quiet(session: Session, steps: Sequence[Step]) -> list[Step]:
    """Those in which no fault was injected, nor just before; nor while the job had just begun."""
    settled_ns = steps[0].start_ns + SETTLED_NS if steps else 0
    faults = [(began_ns, ended_ns + BEFORE_NS) for began_ns, ended_ns in _spans(session)]
    return [
        step
        for step in steps
        if step.start_ns >= settled_ns
        and not any(began_ns <= step.end_ns and step.start_ns <= ended_ns for began_ns, ended_ns in faults)
    ]


def is_disturbed(session: Session) -> bool:
    """Whether something else than the fault made steps longer."""
    steps = _cycles(session.run, session.episode.culprit_rank or 0)
    by_second: dict[int, list[int]] = {}
    for step in _quiet(session, steps):
        by_second.setdefault(step.end_ns // NANOSECONDS, []).append(step.wall_ns)
    medians = [median(walls) for walls in by_second.values()]
    return bool(medians) and max(medians) > (1 + DISTURBED) * median(medians)


def _noise(session: Session) -> Iterator[float]:
    """For a session without injection: how much longer its windows took than the steps before them."""
    if session.episode.fault or session.run.injections_ns:
        return
    steps = session.run.of(0)
    for window in session.episode.windows:
        mine = [step for step in steps if step.number in window]
        base_ns = _base_ns(steps, mine[0].start_ns, session.episode.period) if mine else 0.0
        if base_ns:
            impact = fmean(step.wall_ns for step in mine) / base_ns - 1
            yield abs(impact / (1 + impact))


def _fresh(rules: Sequence[Alarm], faults: Sequence[tuple[int, int]]) -> Iterator[Alarm]:
    """Once for each rule and each time that it begins to hold, outside of faults and the ten seconds that rules look back on."""
    last_ns: dict[str, int] = {}
    for rule in rules:
        is_new = rule.now_ns - last_ns.get(rule.rule, 0) > 3 * NANOSECONDS
        last_ns[rule.rule] = rule.now_ns
        in_fault = any(began_ns <= rule.now_ns <= ended_ns + RULES_LOOK_BACK_NS for began_ns, ended_ns in faults)
        if is_new and not in_fault:
            yield rule
