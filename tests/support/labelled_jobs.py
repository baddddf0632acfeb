"""Labelled faults of simulated jobs: a case by its seed, and what a verdict has to say about it."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from exporter.causes import Cause
from exporter.fleet.job_verdict import JobVerdict, verdicts
from tests.support.simulated_jobs import HOST_CAUSES, Fault, JobShape, Recorded, recorded, simulated

SINCE_SECONDS = 300.0
EFFECT_MIN = 1.2
"""How many times as long steps take in a case, at least."""
STEPS_MIN = 15
"""Steps since the fault of a case began: with fewer, too little is known."""
HANG_CAUSES = (Cause.STALLED, Cause.CRASH, Cause.LOCK, Cause.PAUSED, Cause.BLOCK_IO)
KINDS = {
    "none": "fine",
    "slow_rank": "slow_rank",
    "two_slow_ranks": "slow_ranks",
    "all_slow": "all_slow",
    "slow_link": "slow_link",
    "slow_gpu": "slow_rank",
    "hang": "hang",
}
"""Fault -> kind of the verdict."""


@dataclass(frozen=True)
class Labelled:
    """late: ranks. causes: of each. unreported: nodes that do not answer."""

    shape: JobShape
    fault: Fault
    unreported: frozenset[str]
    records: list[Recorded]

    @property
    def has_known_gpu(self) -> bool:
        """Whether a chain says that a GPU is slow; without one it looks like a slow link."""
        chains = (one.event.cause for record in self.records for one in record.events)
        return self.fault.kind != "slow_gpu" or Cause.GPU_THROTTLED in chains

    @property
    def kind(self) -> str:
        """Where no late rank has been reported, it is not known which is; where a link is slow, one might be there."""
        if self.unreported and self.fault.kind not in ("none", "all_slow") and not self.late:
            return "ambiguous"
        if not self.has_known_gpu:
            return "slow_link"
        return "slow_rank" if self.fault.kind == "two_slow_ranks" and len(self.late) == 1 else KINDS[self.fault.kind]

    @property
    def late(self) -> set[tuple[str, str]]:
        """(node, rank), as far as they can be known."""
        if self.fault.kind in ("all_slow", "none", "slow_link") or not self.has_known_gpu:
            return set()
        found = {(f"node{self.shape.node_of(rank)}", str(rank)) for rank in self.fault.delays}
        return {one for one in found if one[0] not in self.unreported}

    def verdict(self) -> JobVerdict:
        reports = {one.node: one.report(SINCE_SECONDS) for one in self.records if one.node not in self.unreported}
        (found,) = verdicts(reports, SINCE_SECONDS)
        return found

    def is_right_rank(self, found: JobVerdict) -> bool:
        """The kind, and who is late; the most that can be said where the late rank is not known."""
        if found.kind.value != self.kind:
            return False
        return {(one.node, one.rank) for one in found.late} == self.late

    def is_right_cause(self, found: JobVerdict) -> bool:
        if self.fault.kind == "all_slow":
            return found.cause == self.fault.cause.value
        causes = {one.rank: one.cause for one in found.late}
        return causes == {rank: self.fault.cause_of(int(rank)).value for _, rank in self.late}


def developed_shape(rng: random.Random) -> JobShape:
    """The shapes that the rules were found on: data-parallel jobs, and pipelines of two and four stages, delays in bursts."""
    stages = rng.choice((1, 1, 2, 4))
    return JobShape(
        rng.choice((4, 5, 6, 8)) if stages == 1 else rng.choice((4, 8)),
        rng.choice((1, 2, 4)),
        rng.uniform(0.4, 3.0),
        stages=stages,
        microbatches=rng.choice((2, 4, 8)),
        noise=rng.uniform(0.01, 0.1),
        uneven=rng.uniform(0.0, 0.5),
        is_bursty=rng.random() < 0.4,
        has_node_groups=stages == 1 and rng.random() < 0.4,
    )


def held_out_shape(rng: random.Random) -> JobShape:
    """Others, which were only tried: deep and uneven pipelines, eight ranks of a node, shorter and longer steps, more noise."""
    stages = rng.choice((1, 1, 8, 16))
    return JobShape(
        rng.choice((4, 7, 8)) if stages == 1 else 8,
        rng.choice((3, 8)) if stages == 1 else rng.choice((2, 8)),
        rng.choice((0.2, 1.0, 6.0)) * rng.uniform(0.8, 1.25),
        stages=stages,
        microbatches=rng.choice((1, 3, 16)),
        noise=rng.uniform(0.05, 0.15),
        uneven=rng.uniform(0.0, 0.9),
        is_bursty=rng.random() < 0.5,
        has_node_groups=stages == 1 and rng.random() < 0.6,
    )


def labelled(seed: int, kind: str, *, is_held_out: bool, with_silent_node: bool = False) -> Labelled:
    """with_silent_node: one node does not answer, that of a late rank in half of the cases."""
    rng = random.Random(f"{seed} {kind} {is_held_out} {with_silent_node}")
    shape = held_out_shape(rng) if is_held_out else developed_shape(rng)
    ranks = list(range(shape.ranks))
    at_seconds = rng.uniform(100, 200)
    fault = _fault(kind, at_seconds, ranks, shape, rng)
    job = simulated(shape, fault, SINCE_SECONDS, rng)
    while kind not in ("none", "hang"):
        if job.steps_since < STEPS_MIN:
            shape = replace(shape, step_seconds=shape.step_seconds / 2)
        elif job.growth < EFFECT_MIN:  # hidden by the work of others, as in a pipeline
            delays = {rank: 1.5 * delay for rank, delay in fault.delays.items()}
            fault = replace(fault, delays=delays, growth=1.5 * fault.growth)
        else:
            break
        job = simulated(shape, fault, SINCE_SECONDS, rng)
    records = recorded(job, rng)
    silent: set[str] = set()
    if with_silent_node:
        hidden = [shape.node_of(rank) for rank in fault.delays] if rng.random() < 0.5 else []
        silent = {f"node{rng.choice(hidden or range(shape.nodes))}"}
    return Labelled(shape, fault, frozenset(silent), records)


def _fault(kind: str, at_seconds: float, ranks: list[int], shape: JobShape, rng: random.Random) -> Fault:
    host_cause = rng.choice((*HOST_CAUSES, Cause.OWN_CODE))
    one, other = rng.sample(ranks, 2)
    match kind:
        case "none":
            return Fault(kind, at_seconds)
        case "slow_rank":
            return Fault(kind, at_seconds, host_cause, {one: rng.uniform(0.4, 2.0)})
        case "two_slow_ranks":
            first = rng.uniform(0.6, 2.0)
            delays = {one: first, other: first * rng.uniform(0.7, 1.0)}
            return Fault(kind, at_seconds, host_cause, delays, {other: rng.choice(HOST_CAUSES)})
        case "all_slow":
            mean = rng.uniform(0.5, 2.0)
            return Fault(kind, at_seconds, rng.choice(HOST_CAUSES), dict.fromkeys(ranks, mean))
        case "slow_link":
            return Fault(kind, at_seconds, Cause.NETWORK, growth=rng.uniform(0.3, 2.0))
        case "slow_gpu":
            return Fault(kind, at_seconds, Cause.GPU_THROTTLED, {one: 1.0}, growth=rng.uniform(0.8, 2.0))
    return Fault(kind, at_seconds, rng.choice(HANG_CAUSES), {one: 1.0})
