"""The experiment: which processes are paused and how, the question to the user, and the job's steps before, during and after.

In: the event of an open chain, the exporter's address. Out: a ConfirmResult. Needs root.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from itertools import zip_longest
from typing import Final, NamedTuple

from exporter.chains.event import ChainEvent
from exporter.confirm.eligibility import ProcessFacts, Resolve, as_read, read_facts, reason_to_exclude
from exporter.confirm.intervention import PauseMethod, paused
from exporter.confirm.outcome import ConfirmResult, Steps, judge
from exporter.errors import BadInput, NotPossibleHere, ProcessGone
from exporter.host.processes import Processes
from exporter.scrape import exposition
from exporter.scrape.http_get import ScrapeTarget, fetch
from exporter.scrape.rates import view_of
from exporter.scrape.samples import Scrape
from exporter.text.shell import shell_word
from exporter.units import seconds

PAUSE_SECONDS = 2.0
_EXPORTER: Final = re.compile(r"gpu-stall-expor.*")  # a comm has at most 15 characters
_SETTLE_SECONDS = 0.3
"""Between two periods: scrapes within 0.2 s get the same snapshot."""


class Plan(NamedTuple):
    """processes: those to pause. excluded: culprits that must not be paused, each with the reason."""

    processes: tuple[ProcessFacts, ...]
    excluded: tuple[str, ...]
    method: PauseMethod


def make_plan(
    event: ChainEvent, processes: Processes, method: PauseMethod | None = None, resolve: Resolve = as_read
) -> Plan:
    """event: names the culprits' processes. Raises BadInput if none may be paused, ProcessGone if the job has ended."""
    job = read_facts(processes, event.tgid, resolve)
    if event.start_ticks and job.start_time_ticks != event.start_ticks:
        raise ProcessGone(f"process {event.tgid} is another one now")
    own = read_facts(processes, os.getpid(), resolve)
    own_tgids = {own.tgid, *own.ancestors}
    protected = _protected(processes, own_tgids, resolve)
    chosen, excluded = [], []
    for tgid, start_ticks in zip_longest(event.culprit_tgids, event.culprit_start_ticks, fillvalue=0):
        try:
            culprit = read_facts(processes, tgid, resolve)
        except ProcessGone:
            continue
        reason = _reason(culprit, start_ticks) or reason_to_exclude(culprit, job, own_tgids, protected)
        if reason:
            excluded.append(f"{shell_word(culprit.comm)} ({tgid}): {reason}")
        else:
            chosen.append(culprit)
    if not chosen:
        chain = event.chain_id[:8]
        why = "; ".join(excluded) or "they have ended"
        remedy = (
            "" if excluded else f"`gpu-stall-exporter explain --chain={chain}` names the present ones within a second"
        )
        raise BadInput(f"no culprit of chain {chain} can be paused: {why}", remedy=remedy)
    # A scheduling policy counts among the threads of one cgroup only.
    is_same_cgroup = all(set(one.cgroups) == set(job.cgroups) for one in chosen)
    default = PauseMethod.SCHED_IDLE if is_same_cgroup else PauseMethod.SIGSTOP
    return Plan(tuple(chosen), tuple(excluded), method or default)


def _reason(culprit: ProcessFacts, start_ticks: int) -> str:
    """Why it may not be the process that was recorded; "" if it is."""
    if not start_ticks:
        return "the history does not say when it was started, so it may be another process with the same pid"
    if culprit.start_time_ticks != start_ticks:
        return "it is another process, to which the pid belongs now"
    return ""


def _protected(processes: Processes, own_tgids: Collection[int], resolve: Resolve) -> list[ProcessFacts]:
    """Init, this command with its ancestors, such as the shell, and exporters."""
    found = []
    for tgid in processes.tgids():
        with suppress(ProcessGone, NotPossibleHere):
            if tgid == 1 or tgid in own_tgids or _EXPORTER.fullmatch(processes.comm(tgid)):
                found.append(read_facts(processes, tgid, resolve))
    return found


def is_unchanged(plan: Plan, later: Plan) -> bool:
    """Whether what was agreed to is what would be done now: a process may have moved to another cgroup since."""
    return (plan.processes, plan.method) == (later.processes, later.method)


def run_experiment(
    event: ChainEvent,
    plan: Plan,
    target: ScrapeTarget,
    *,
    wait: Callable[[float], None] = time.sleep,
    pause_seconds: float = PAUSE_SECONDS,
) -> ConfirmResult:
    """Takes three times pause_seconds. Raises NoAnswer or NotOurs if the exporter cannot be scraped, PauseFailed."""
    before = _measure(event, target, wait, pause_seconds)
    with paused(plan.processes, plan.method, pause_seconds):
        during = _measure(event, target, wait, pause_seconds)
    after = _measure(event, target, wait, pause_seconds)
    return judge(before, during, after, seconds_without(event, before))


def seconds_without(event: ChainEvent, before: Steps) -> float:
    """What a step takes without this chain: more than the baseline while another chain of the job is open, too."""
    slowdown = event.present.slowdown
    if before.mean_seconds is None or slowdown is None:
        return seconds(event.usual_step_ns)
    return max(seconds(event.usual_step_ns), before.mean_seconds / (1 + slowdown))


def _measure(event: ChainEvent, target: ScrapeTarget, wait: Callable[[float], None], for_seconds: float) -> Steps:
    """The job's steps in the next seconds."""
    wait(_SETTLE_SECONDS)
    first = _scrape(target)
    wait(for_seconds - _SETTLE_SECONDS)
    return steps_between(event, first, _scrape(target))


def _scrape(target: ScrapeTarget) -> Scrape:
    response = fetch(target)
    return exposition.read(response.body, response.at)


def steps_between(event: ChainEvent, first: Scrape, last: Scrape) -> Steps:
    """Steps of the event's workload."""
    for workload in view_of(last, first).workloads:
        if workload.identity == event.identity:
            return Steps(workload.steps, workload.step_seconds if workload.steps else None)
    return Steps(0, None)


def names(processes: Collection[ProcessFacts]) -> str:
    """`stress-ng (777, 778)`. A name that is not plain is quoted."""
    by_comm: dict[str, list[int]] = {}
    for one in processes:
        by_comm.setdefault(one.comm, []).append(one.tgid)
    return ", ".join(f"{shell_word(comm)} ({', '.join(map(str, tgids))})" for comm, tgids in by_comm.items())


def consent_lines(plan: Plan, pause_seconds: float = PAUSE_SECONDS) -> Sequence[str]:
    """What the user must agree to."""
    effect = {
        PauseMethod.SIGSTOP: "will be stopped (SIGSTOP)",
        PauseMethod.SCHED_IDLE: "will run only on idle CPUs (SCHED_IDLE)",
    }[plan.method]
    return (
        f"{names(plan.processes)} {effect} for {pause_seconds:g} s and then resume, whatever happens to this command.",
        *(f"Not paused: {one}." for one in plan.excluded),
    )
