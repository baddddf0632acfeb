"""The whole of a proof: who is to be held, with whose consent, and what the job's steps say.

In: what was said of an open chain, the exporter's address. Out: a Proof. Needs root.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from exporter.chains.event import ChainEvent
from exporter.confirm.eligibility import ProcessFacts, facts_of, reason_against
from exporter.confirm.intervention import How, held
from exporter.confirm.outcome import Proof, Steps, judge
from exporter.errors import BadInput, ProcessGone
from exporter.host.processes import Processes
from exporter.scrape import exposition
from exporter.scrape.http_get import ScrapeTarget, fetch
from exporter.scrape.rates import view_of
from exporter.scrape.samples import Scrape
from exporter.units import seconds

HELD_SECONDS = 2.0
_SETTLED_SECONDS = 0.3
"""Between two times: scrapes of a fifth of a second share a snapshot."""


class Chosen(NamedTuple):
    """Who will be held, how, and who will not, with the reason."""

    subjects: tuple[ProcessFacts, ...]
    left_alone: tuple[str, ...]
    how: How


def choose(report: ChainEvent, processes: Processes, how: How | None = None) -> Chosen:
    """report: that names culprits by their numbers. Raises BadInput when nobody may be held, ProcessGone for the job."""
    job = facts_of(processes, report.tgid)
    ours = {os.getpid(), *facts_of(processes, os.getpid()).line}
    subjects, left_alone = [], []
    for tgid in report.culprit_tgids:
        try:
            one = facts_of(processes, tgid)
        except ProcessGone:
            continue
        reason = reason_against(one, job, ours)
        if reason:
            left_alone.append(f"{one.comm} ({tgid}): {reason}")
        else:
            subjects.append(one)
    if not subjects:
        why = "; ".join(left_alone) or "the programs that it names have ended"
        raise BadInput(f"nobody may be held for chain {report.chain_id[:8]}: {why}")
    # Weights count within a control group only.
    is_beside = all(set(one.cgroups) == set(job.cgroups) for one in subjects)
    return Chosen(tuple(subjects), tuple(left_alone), how or (How.WEIGHT if is_beside else How.FREEZE))


def prove(
    report: ChainEvent,
    chosen: Chosen,
    target: ScrapeTarget,
    *,
    wait: Callable[[float], None] = time.sleep,
    held_seconds: float = HELD_SECONDS,
) -> Proof:
    """Takes three times held_seconds. Raises NoAnswer or NotOurs when the exporter cannot be asked, NotHeld."""
    before = _steps(report, target, wait, held_seconds)
    with held(chosen.subjects, chosen.how, held_seconds):
        meanwhile = _steps(report, target, wait, held_seconds)
    after = _steps(report, target, wait, held_seconds)
    return judge(before, meanwhile, after, seconds(report.usual_step_ns))


def _steps(report: ChainEvent, target: ScrapeTarget, wait: Callable[[float], None], for_seconds: float) -> Steps:
    """Of the job's identity, in so many seconds from now on."""
    wait(_SETTLED_SECONDS)
    first = _scrape(target)
    wait(for_seconds - _SETTLED_SECONDS)
    return steps_between(report, first, _scrape(target))


def _scrape(target: ScrapeTarget) -> Scrape:
    answer = fetch(target)
    return exposition.read(answer.body, answer.at)


def steps_between(report: ChainEvent, first: Scrape, last: Scrape) -> Steps:
    """Of the identity of a report."""
    for workload in view_of(last, first).workloads:
        if workload.identity == report.identity:
            return Steps(workload.steps, workload.step_seconds if workload.steps else None)
    return Steps(0, None)


def names(subjects: Collection[ProcessFacts]) -> str:
    """`stress-ng (777, 778)`."""
    by_comm: dict[str, list[int]] = {}
    for one in subjects:
        by_comm.setdefault(one.comm, []).append(one.tgid)
    return ", ".join(f"{comm} ({', '.join(map(str, tgids))})" for comm, tgids in by_comm.items())


def consent_text(chosen: Chosen, held_seconds: float = HELD_SECONDS) -> Sequence[str]:
    """What somebody is asked to agree to."""
    what = {
        How.FREEZE: "will be stopped (SIGSTOP)",
        How.WEIGHT: "will get a CPU only when nobody else wants it (SCHED_IDLE)",
    }[chosen.how]
    return (
        f"{names(chosen.subjects)} {what} for {held_seconds:g} s, and go on as before then, whatever happens.",
        *(f"Left alone: {one}." for one in chosen.left_alone),
    )
