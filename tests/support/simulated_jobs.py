"""Jobs on several nodes, simulated step by step, with faults whose place and cause are known.

A model of its own, which knows nothing of the rules that are tried on it: ranks compute, wait for each other where their
communicators make them, and are delayed. What came of it is recorded as the exporter would, in windows by each node's own
clock, with chains that are late, missing or wrong now and then.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Final, NamedTuple

from exporter.causes import Cause
from exporter.chains.chain import Effect, Severity
from exporter.chains.event import ChainEvent
from exporter.fleet.node_ranks import ReportSpan, report_of
from exporter.fleet.rank_report import NodeReport
from exporter.history.membership import Membership, RecordedMembership
from exporter.history.run import RecordedEvent, RecordedWindows, Run
from exporter.history.window import NO_SWITCHES, ProcessLabels, Window
from exporter.history.window_batch import WindowBatch
from exporter.model import Identity
from exporter.totals import Counts, HistogramTotal
from tests.support.history import NOON, SECOND, an_event

WINDOW_SECONDS: Final = 10.0
OFFSET_SECONDS_MAX: Final = 300.0
HOST_CAUSES: Final = (
    *(Cause.CPU_CONTENTION, Cause.CPU_OVERSUBSCRIBED, Cause.CPU_QUOTA, Cause.IRQ, Cause.BLOCK_IO, Cause.MEMORY_RECLAIM),
    *(
        Cause.MAJOR_FAULT,
        Cause.LOCK,
        Cause.NETWORK,
        Cause.DATALOADER,
        Cause.PAUSED,
        Cause.BLOCKED_OUTPUT,
        Cause.OWN_WAIT,
    ),
)
FAULTS: Final = ("none", "slow_rank", "two_slow_ranks", "all_slow", "slow_link", "slow_gpu", "hang")


@dataclass(frozen=True, slots=True)
class JobShape:
    """stages: of a pipeline, 1 for none. microbatches: of a step. has_node_groups: ranks of a node have collectives of their own.

    noise: standard deviation of each part of a step, as a share of it. uneven: by how much the work of stages differs.
    """

    nodes: int
    ranks_of_node: int
    step_seconds: float
    stages: int = 1
    microbatches: int = 4
    has_node_groups: bool = False
    noise: float = 0.05
    uneven: float = 0.0
    is_bursty: bool = False

    @property
    def ranks(self) -> int:
        return self.nodes * self.ranks_of_node

    def node_of(self, rank: int) -> int:
        return rank // self.ranks_of_node

    def stage_of(self, rank: int) -> int:
        return rank * self.stages // self.ranks


@dataclass(frozen=True, slots=True)
class Fault:
    """ranks: that are late; with the delay of each of their steps, as a share of a step. at_seconds: when it begins."""

    kind: str
    at_seconds: float
    cause: Cause = Cause.CPU_CONTENTION
    delays: Mapping[int, float] = field(default_factory=dict)
    causes: Mapping[int, Cause] = field(default_factory=dict)
    growth: float = 0.0

    def cause_of(self, rank: int) -> Cause:
        return self.causes.get(rank, self.cause)


class _Step(NamedTuple):
    began: float
    ended: float
    waiting: float
    computing: float
    lost: Mapping[str, float]


@dataclass(slots=True)
class Simulated:
    """steps: of each rank. stopped: rank -> collectives that it has entered, by communicator; when the last one was entered."""

    shape: JobShape
    fault: Fault
    seconds: float
    steps: list[list[_Step]]
    entered: list[dict[int, int]]
    entered_at: list[dict[int, float]]

    @property
    def steps_since(self) -> int:
        """With the fault."""
        return sum(one.began >= self.fault.at_seconds for one in self.steps[0])

    @property
    def growth(self) -> float:
        """How many times as long a step takes with the fault."""
        lengths = [(one.began >= self.fault.at_seconds, one.ended - one.began) for one in self.steps[0]]
        return fmean(length for late, length in lengths if late) / fmean(length for late, length in lengths if not late)


def simulated(shape: JobShape, fault: Fault, seconds: float, rng: random.Random) -> Simulated:
    """The job from its begin to `seconds` later."""
    ranks = range(shape.ranks)
    steps: list[list[_Step]] = [[] for _ in ranks]
    entered: list[dict[int, int]] = [dict.fromkeys(communicators_of(shape, rank), 0) for rank in ranks]
    entered_at = [dict.fromkeys(communicators_of(shape, rank), 0.0) for rank in ranks]
    found = Simulated(shape, fault, seconds, steps, entered, entered_at)
    now = 0.0
    base = [rng.uniform(0.95, 1.05) for _ in ranks]
    while now < seconds:
        is_faulty = now >= fault.at_seconds and fault.kind != "none"
        if is_faulty and fault.kind == "hang":
            _hang(found, now)
            break
        now = _one_step(found, now, base, rng, is_faulty=is_faulty)
    return found


def communicators_of(shape: JobShape, rank: int) -> list[int]:
    """Hashes: of all ranks, of its node, and of its stage."""
    found = [1000]
    if shape.has_node_groups and shape.ranks_of_node > 1:
        found.append(2000 + shape.node_of(rank))
    if shape.stages > 1 and shape.ranks // shape.stages > 1:
        found.append(3000 + shape.stage_of(rank))
    return found


def members_of(shape: JobShape, communicator: int) -> list[int]:
    return [rank for rank in range(shape.ranks) if communicator in communicators_of(shape, rank)]


def _one_step(found: Simulated, now: float, base: Sequence[float], rng: random.Random, *, is_faulty: bool) -> float:
    """Every rank works, then all wait for the last one and for the collective. Returns when it ends."""
    shape, fault = found.shape, found.fault
    delay, host, gpu = [], [], []
    for rank in range(shape.ranks):
        delay.append(_delay(shape, fault, rank, rng) if is_faulty else 0.0)
        host.append(0.35 * shape.step_seconds * base[rank] * _noise(shape, rng) + delay[rank])
        slow = 1.0 + fault.growth if is_faulty and fault.kind == "slow_gpu" and rank in fault.delays else 1.0
        gpu.append(0.45 * shape.step_seconds * slow * _noise(shape, rng))
    link = 0.15 * shape.step_seconds * _noise(shape, rng)
    if is_faulty and fault.kind == "slow_link":
        link += fault.growth * shape.step_seconds
    own, ended = _pipeline(shape, host, gpu) if shape.stages > 1 else _data_parallel(shape, host, gpu, link)
    ended += now + (link if shape.stages > 1 else 0.0)
    for rank in range(shape.ranks):
        lost: dict[str, float] = {}
        cause = fault.cause_of(rank)
        if delay[rank] and cause is not Cause.OWN_CODE:
            charged = rng.uniform(0.75, 1.0) * delay[rank]
            lost[cause.value] = charged
            lost[Cause.UNKNOWN.value] = delay[rank] - charged
        if rng.random() < 0.3:
            by_chance = rng.choice(HOST_CAUSES).value
            lost[by_chance] = lost.get(by_chance, 0.0) + rng.uniform(0, 0.02) * shape.step_seconds
        computing = own[rank] - (delay[rank] if cause is not Cause.OWN_CODE else 0.0)
        found.steps[rank].append(_Step(now, ended, max(ended - now - own[rank], 0.0), max(computing, 0.0), lost))
        for communicator in found.entered[rank]:
            found.entered[rank][communicator] += 2 if communicator >= 2000 else 1
            found.entered_at[rank][communicator] = now + own[rank]
    return ended


def _data_parallel(
    shape: JobShape, host: Sequence[float], gpu: Sequence[float], link: float
) -> tuple[list[float], float]:
    """Own host time of each rank, and the length of the step."""
    done = [host[rank] + gpu[rank] for rank in range(shape.ranks)]
    if shape.has_node_groups:
        by_node = [
            max(done[rank] for rank in range(shape.ranks) if shape.node_of(rank) == node) for node in range(shape.nodes)
        ]
        return list(host), max(by_node) + link
    return list(host), max(done) + link


def _pipeline(shape: JobShape, host: Sequence[float], gpu: Sequence[float]) -> tuple[list[float], float]:
    """Microbatches go through the stages and back; a rank of a stage waits for that of the stage before it."""
    replicas = shape.ranks // shape.stages
    free = [0.0] * shape.ranks
    for direction in (1, -1):
        order = range(shape.stages)[::direction]
        for _ in range(shape.microbatches):
            arrived = [0.0] * replicas
            for stage in order:
                weight = 1.0 + shape.uneven * (stage / max(shape.stages - 1, 1) - 0.5)
                for replica in range(replicas):
                    rank = stage * replicas + replica
                    work = weight * (host[rank] + gpu[rank]) / (2 * shape.microbatches)
                    free[rank] = arrived[replica] = max(free[rank], arrived[replica]) + work
    return list(host), max(free)


def _noise(shape: JobShape, rng: random.Random) -> float:
    return max(rng.gauss(1.0, shape.noise), 0.3)


def _delay(shape: JobShape, fault: Fault, rank: int, rng: random.Random) -> float:
    mean = fault.delays.get(rank, 0.0) * shape.step_seconds
    if not mean or fault.kind == "slow_gpu":
        return 0.0
    if shape.is_bursty:
        return 4 * mean * rng.uniform(0.8, 1.2) if rng.random() < 0.25 else 0.0
    return mean * rng.uniform(0.7, 1.3)


def _hang(found: Simulated, now: float) -> None:
    """The late ranks enter nothing any more; the others enter until they wait for one that does not."""
    shape, late = found.shape, set(found.fault.delays)
    for rank in range(shape.ranks):
        if rank in late:
            continue
        for communicator in sorted(found.entered[rank], reverse=True):  # of its stage, of its node, of all
            found.entered[rank][communicator] += 1
            found.entered_at[rank][communicator] = now + 0.3 * shape.step_seconds
            if any(one in late for one in members_of(shape, communicator)):
                break


# ---- what nodes have recorded of it


class Recorded(NamedTuple):
    """What a node has recorded, by its own clock."""

    node: str
    runs: list[Run]
    events: list[RecordedEvent]
    windows: list[RecordedWindows]
    memberships: list[RecordedMembership]
    now_unix_ns: int

    def report(self, since_seconds: float) -> NodeReport:
        span = ReportSpan(self.now_unix_ns - int(since_seconds * SECOND), self.now_unix_ns)
        windows = [one for one in self.windows if one.ended_unix_ns > span.since_unix_ns]
        return report_of(self.runs, self.events, windows, self.memberships, span)

    def batches(self) -> list[WindowBatch]:
        """For a file: each membership with the last window that had it."""
        return [
            WindowBatch(
                one.began_unix_ns,
                one.ended_unix_ns,
                one.windows,
                memberships=[place.membership for place in self.memberships if place.seen_unix_ns == one.ended_unix_ns],
            )
            for one in self.windows
        ]


def recorded(job: Simulated, rng: random.Random) -> list[Recorded]:
    """One for each node, whose clock is off by up to five minutes, and whose report is made up to two seconds later."""
    return [_of_node(job, node, rng) for node in range(job.shape.nodes)]


def _of_node(job: Simulated, node: int, rng: random.Random) -> Recorded:
    offset = rng.uniform(-OFFSET_SECONDS_MAX, OFFSET_SECONDS_MAX)

    def unix_ns(at_seconds: float) -> int:
        return NOON + int((at_seconds + offset) * SECOND)

    ranks = [rank for rank in range(job.shape.ranks) if job.shape.node_of(rank) == node]
    ends = []
    end = rng.uniform(1.0, WINDOW_SECONDS)
    while end < job.seconds:
        ends.append(end)
        end += rng.uniform(9.0, 11.0)
    windows = []
    of_ranks = {rank: _windows(job.steps[rank], ends) for rank in ranks}
    for number, end in enumerate(ends):
        began = ends[number - 1] if number else end - WINDOW_SECONDS
        found = [
            _window(job, rank, of_ranks[rank][number], unix_ns(began), unix_ns(end))
            for rank in ranks
            if number in of_ranks[rank]
        ]
        windows.append(RecordedWindows(1, unix_ns(began), unix_ns(end), found))
    memberships = []
    for rank in ranks:
        is_dead = job.fault.kind == "hang" and job.fault.cause is Cause.CRASH and rank in job.fault.delays
        seen = max((end for end in ends if end < job.fault.at_seconds), default=ends[0]) if is_dead else ends[-1]
        for communicator in communicators_of(job.shape, rank):
            members = members_of(job.shape, communicator)
            entered, at = _entered_by(job, rank, communicator, seen)
            place = Membership(
                rank + 1, communicator, members.index(rank), len(members), entered, unix_ns(at), _labels(job, rank)
            )
            memberships.append(RecordedMembership(1, unix_ns(seen), place))
    events = [one for rank in ranks for one in _events(job, rank, rng, unix_ns)]
    now = job.seconds + rng.uniform(0, 2)
    run = Run(1, unix_ns(0.0), unix_ns(max(ends[-1], now - 5)), None, "1.0", True, WINDOW_SECONDS)
    return Recorded(f"node{node}", [run], events, windows, memberships, unix_ns(now))


def _labels(job: Simulated, rank: int) -> ProcessLabels:
    identity = Identity(f"node{job.shape.node_of(rank)}", str(rank), "", "training", f"trainer-{rank}")
    return ProcessLabels(identity, 4000 + rank, "python")


def _entered_by(job: Simulated, rank: int, communicator: int, seen: float) -> tuple[int, float]:
    """As of the last window; what came after it is not known."""
    count, at = job.entered[rank][communicator], job.entered_at[rank][communicator]
    each = 2 if communicator >= 2000 else 1
    for step in reversed(job.steps[rank]):
        if at <= seen:
            break
        count, at = count - each, step.began
    return max(count, 0), min(at, seen)


def _windows(steps: Sequence[_Step], ends: Sequence[float]) -> dict[int, _Step]:
    """Number of a window -> (steps, their length, waiting, computing, lost), what is spent divided by time."""
    found: dict[int, list[float]] = {}
    lost: dict[int, dict[str, float]] = {}
    number = 0
    for step in steps:
        length = max(step.ended - step.began, 1e-9)
        at = step.began
        while number < len(ends) and ends[number] <= at:
            number += 1
        here = number
        while at < step.ended and here < len(ends):
            until = min(ends[here], step.ended)
            share = (until - at) / length
            sums = found.setdefault(here, [0.0, 0.0, 0.0, 0.0])
            sums[2] += step.waiting * share
            sums[3] += step.computing * share
            losses = lost.setdefault(here, {})
            for cause, one in step.lost.items():
                losses[cause] = losses.get(cause, 0.0) + one * share
            if until >= step.ended:
                sums[0] += 1
                sums[1] += length
            at, here = until, here + 1
    return {here: _Step(one[0], one[1], one[2], one[3], lost[here]) for here, one in found.items()}


def _window(job: Simulated, rank: int, sums: _Step, began_unix_ns: int, ended_unix_ns: int) -> Window:
    count, length, waiting, computing, lost = sums
    return Window(
        rank + 1,
        _labels(job, rank),
        began_unix_ns,
        ended_unix_ns,
        HistogramTotal(Counts.of([int(count)] if count else [], begin=190), int(length * SECOND)),
        {cause: int(one * SECOND) for cause, one in lost.items() if one > 0},
        (),
        {"gpu_wait": int(waiting * SECOND), "on_cpu": int(computing * SECOND)},
        NO_SWITCHES,
        (),
    )


def _events(job: Simulated, rank: int, rng: random.Random, unix_ns: Callable[[float], int]) -> list[RecordedEvent]:
    """A chain of the late rank nine times of ten; victims often have one as well, and any rank one of little account."""
    fault, found = job.fault, []
    kind, is_late = fault.kind, rank in fault.delays

    def chain(cause: Cause, began: float, lost_share: float, severity: Severity = Severity.HIGH) -> None:
        opened = began + rng.uniform(2, 12)
        if opened < job.seconds:
            found.append(_event(_labels(job, rank), cause, (unix_ns(began), unix_ns(opened)), lost_share, severity))

    began = fault.at_seconds + rng.uniform(0, 2)
    if kind == "hang":
        if is_late and rng.random() < 0.97:
            chain(fault.cause, began, 1.0, Severity.CRITICAL)
        elif rng.random() < 0.8:
            chain(Cause.STALLED, began, 1.0)
    elif is_late and rng.random() < 0.9:
        is_right = rng.random() < 0.95
        chain(fault.cause_of(rank) if is_right else Cause.GPU, began, 0.4)
    elif kind != "none" and rng.random() < 0.6:
        chain(Cause.GPU, began, 0.4, Severity.MEDIUM)
    if rng.random() < 0.08:
        chain(rng.choice(HOST_CAUSES), rng.uniform(0, job.seconds), 0.05, Severity.LOW)
    return found


def _event(
    labels: ProcessLabels, cause: Cause, times: tuple[int, int], lost_share: float, severity: Severity
) -> RecordedEvent:
    event: ChainEvent = an_event(
        chain_id=f"{labels.tgid:04x}{list(Cause).index(cause):04x}".ljust(32, "0"),
        cause=cause,
        effect=Effect.GAP,
        severity=severity,
        began_unix_ns=times[0],
        at_unix_ns=times[1],
        duration_ns=times[1] - times[0],
        lost_share=lost_share,
        culprits=(("noisy-neighbour", 0.9),) if cause is Cause.CPU_CONTENTION else (),
        identity=labels.identity,
        tgid=labels.tgid,
    )
    return RecordedEvent(1, event)
