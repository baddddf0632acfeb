"""Differences of two scrapes: counters and histograms as rates, shares and quantiles. Pure.

In: two Scrapes, or one, whose totals then count from the start. Out: a View.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from exporter import catalog
from exporter.catalog import Metric
from exporter.causes import Cause, largest_first
from exporter.chains.chain import Severity
from exporter.model import Identity
from exporter.scrape.quantile import quantile_seconds
from exporter.scrape.samples import Distribution, Key, Number, Scrape
from exporter.scrape.view import CauseLoss, OpenChain, OperationRates, Process, View, Workload
from exporter.units import NANOSECONDS, seconds

SHOWN_QUANTILES = (0.5, 0.95, 0.99)
_RECOVERED = "mapping_watch"  # the program whose dropped records a walk through /proc recovers
_STANDING = (Cause.NCCL_HANG, Cause.STALLED)  # causes of no progress at all
_ENTRY_ONLY = "entry"  # the attachment kind without durations


class ViewBuilder:
    """A View for each scrape, compared with the last one; the first view has the totals."""

    def __init__(self) -> None:
        self._before: Scrape | None = None
        self._last: View | None = None

    def add(self, now: Scrape) -> View:
        """The view since the last scrape."""
        self._last = view_of(now, self._before, self._last)
        self._before = now
        return self._last


def view_of(now: Scrape, before: Scrape | None = None, last: View | None = None) -> View:
    """last: the previous View, whose step length is kept while no step has ended since."""
    window = _Window(now, before)
    steps = {one.identity: one.step_seconds for one in last.workloads} if last else {}
    alive = _processes(now)
    workloads = [_workload(identity, processes, window, steps.get(identity)) for identity, processes in alive.items()]
    workloads.sort(key=lambda workload: workload.identity.values())
    chains = _chains(now)
    standing = {one.identity: one for one in chains if one.cause in _STANDING}
    return View(
        at_unix_seconds=now.at.unix_ns / NANOSECONDS,
        window_seconds=window.seconds,
        workloads=tuple(_standing_for(one, standing.get(one.identity)) for one in workloads),
        chains=chains,
        notes=tuple(_notes(now, window, bool(workloads))),
    )


def _standing_for(workload: Workload, chain: OpenChain | None) -> Workload:
    """With all of its time lost to what keeps it from making progress, as its chain has it: what its threads wait for all
    the while, such as a lock, is not the reason. Not where several processes share the labels.
    """
    if chain is None or workload.lost is None or len(workload.processes) > 1:
        return workload
    return replace(workload, lost=(CauseLoss(chain.cause, 1.0),))


class _Window:
    """Differences of two scrapes by identity. seconds: between them; None for the first scrape, whose totals are used."""

    def __init__(self, now: Scrape, before: Scrape | None) -> None:
        self._now = now
        self._before = before
        self.seconds: float | None = None
        if before:
            self.seconds = max(seconds(now.at.monotonic_ns - before.at.monotonic_ns), 1e-3)
        self._numbers: dict[str, dict[Identity | None, dict[tuple[str, ...], float]]] = {}
        self._distributions: dict[str, dict[Identity | None, dict[tuple[str, ...], Distribution]]] = {}
        self._since_unix_ns = _starts(now)
        self._missing = _missing(before) if before else frozenset[str]()

    def seconds_of(self, identity: Identity) -> float | None:
        """The time that an identity's differences cover: less than the window if it has been counted for less."""
        since = self._since_unix_ns.get(identity, 0)
        age = seconds(self._now.at.unix_ns - since) if since else 0.0
        if age <= 0:
            return self.seconds
        return age if self.seconds is None else min(self.seconds, age)

    def is_sampled(self, identity: Identity) -> bool:
        """Whether the exporter samples its kernel launches now."""
        return self._now.numbers_of(catalog.workload.SAMPLED_PROCESSES).get((identity, ()), Number(0)).value > 0

    def numbers(self, metric: Metric, identity: Identity | None) -> Mapping[tuple[str, ...], float]:
        """Values of the metric's own labels -> increase of the counter."""
        found = self._numbers.get(metric.name)
        if found is None:
            found = self._numbers[metric.name] = defaultdict(dict)
            before = self._before.numbers_of(metric) if self._before else {}
            for key, number in self._now.numbers_of(metric).items():
                if self._is_comparable(metric, key, number.since_unix_ns):
                    found[key[0]][key[1]] = _gained(number, before.get(key))
        return found.get(identity, {})

    def distributions(self, metric: Metric, identity: Identity) -> Mapping[tuple[str, ...], Distribution]:
        """Values of the metric's own labels -> increase of the histogram."""
        found = self._distributions.get(metric.name)
        if found is None:
            found = self._distributions[metric.name] = defaultdict(dict)
            before = self._before.distributions_of(metric) if self._before else {}
            for key, one in self._now.distributions_of(metric).items():
                if self._is_comparable(metric, key, one.since_unix_ns):
                    found[key[0]][key[1]] = _grown(one, before.get(key))
        return found.get(identity, {})

    def _is_comparable(self, metric: Metric, key: Key, since_unix_ns: int) -> bool:
        """False where the metric's collector had failed at the earlier scrape.

        The whole total of a workload older than that scrape would count as an increase.
        """
        if self._before is None or metric.name not in self._missing:
            return True
        return key[0] is None or since_unix_ns >= self._before.at.unix_ns


def _missing(scrape: Scrape) -> frozenset[str]:
    """Metrics of collectors without a single series."""
    return frozenset(
        metric.name
        for metrics in catalog.METRICS_OF_COLLECTOR.values()
        if not any(scrape.numbers_of(metric) or scrape.distributions_of(metric) for metric in metrics)
        for metric in metrics
    )


def _starts(scrape: Scrape) -> dict[Identity, int]:
    """The start of each identity, which is the same for all of its counters."""
    found: dict[Identity, int] = {}
    every: list[Mapping[Key, Number] | Mapping[Key, Distribution]] = [
        *scrape.numbers.values(),
        *scrape.distributions.values(),
    ]
    for series in every:
        for (identity, _), one in series.items():
            if identity is not None and one.since_unix_ns:
                found[identity] = max(found.get(identity, 0), one.since_unix_ns)
    return found


def _gained(now: Number, before: Number | None) -> float:
    """The increase of a counter; the total of one that was reset, such as by a restart of the exporter."""
    if before is None or before.since_unix_ns != now.since_unix_ns or now.value < before.value:
        return now.value
    return now.value - before.value


def _grown(now: Distribution, before: Distribution | None) -> Distribution:
    if before is None or before.since_unix_ns != now.since_unix_ns:
        return now
    gained = {slot: count - before.counts.get(slot, 0) for slot, count in now.counts.items()}
    if any(count < 0 for count in gained.values()) or not before.counts.keys() <= now.counts.keys():
        return now
    gained = {slot: count for slot, count in gained.items() if count}
    return Distribution(gained, max(now.sum_seconds - before.sum_seconds, 0.0), now.since_unix_ns)


def _processes(now: Scrape) -> dict[Identity, tuple[Process, ...]]:
    """The running processes of each identity."""
    pid, comm = (catalog.workload.INFO.labels.index(label) for label in ("pid", "comm"))
    found: dict[Identity, list[Process]] = defaultdict(list)
    for identity, labels in now.numbers_of(catalog.workload.INFO):
        if identity is not None:
            found[identity].append(Process(labels[pid], labels[comm]))
    return {identity: tuple(sorted(processes)) for identity, processes in found.items()}


def _workload(
    identity: Identity, processes: tuple[Process, ...], window: _Window, last_step_seconds: float | None
) -> Workload:
    elapsed = window.seconds_of(identity)
    if elapsed is None:
        return Workload(identity, processes, None)
    step = window.distributions(catalog.sched.STEP_DURATION, identity).get((), Distribution({}, 0.0))
    operations = _operations(identity, window, elapsed)
    return Workload(
        identity,
        processes,
        elapsed,
        steps=round(step.calls),
        step_seconds=step.sum_seconds / step.calls if step.calls else last_step_seconds,
        is_step_old=not step.calls and last_step_seconds is not None,
        lost=_lost(identity, window, elapsed * max(len(processes), 1)),
        late_seconds=_late(identity, window),
        calls_per_second=_calls(identity, window) / elapsed,
        operations=operations,
        is_sampled=window.is_sampled(identity),
    )


def _lost(identity: Identity, window: _Window, elapsed: float) -> tuple[CauseLoss, ...] | None:
    by_cause = window.numbers(catalog.sched.LOST, identity)
    if not by_cause:
        return None
    # The exporter read its counters at other moments than those of the scrapes: what was lost is no more than there was.
    elapsed = max(elapsed, sum(by_cause.values()))
    culprits: dict[str, dict[str, float]] = defaultdict(dict)
    for (cause, culprit), lost_seconds in window.numbers(catalog.sched.CULPRIT, identity).items():
        if culprit and lost_seconds > 0:
            culprits[cause][culprit] = lost_seconds / elapsed
    found = [
        CauseLoss(cause, lost_seconds / elapsed, tuple(largest_first(culprits[cause])))
        for (cause,), lost_seconds in by_cause.items()
        if lost_seconds > 0
    ]
    return tuple(sorted(found, key=lambda loss: (-loss.share, loss.cause)))


def _late(identity: Identity, window: _Window) -> float | None:
    """Mean over all collectives."""
    collectives = sum(window.numbers(catalog.nccl.ENQUEUED, identity).values())
    lag = window.numbers(catalog.nccl.ARRIVAL_LAG, identity)
    return sum(lag.values()) / collectives if lag and collectives else None


def _calls(identity: Identity, window: _Window) -> float:
    """Calls of a program. A runtime call makes driver calls, so the larger of the two counts."""
    by_api: dict[str, float] = defaultdict(float)
    for (api, _), calls in window.numbers(catalog.cuda.OPERATIONS, identity).items():
        by_api[api] += calls
    nccl = sum(one.calls for one in window.distributions(catalog.nccl.OPERATION_DURATION, identity).values())
    return max(by_api.values(), default=0.0) + nccl


def _operations(identity: Identity, window: _Window, elapsed: float) -> tuple[OperationRates, ...]:
    """The operations with calls in the window."""
    nothing = Distribution({}, 0.0)
    found = []
    errors = _errors(window.numbers(catalog.cuda.OPERATION_ERRORS, identity), 1)
    timed = window.distributions(catalog.cuda.OPERATION_DURATION, identity)
    for (api, name), calls in window.numbers(catalog.cuda.OPERATIONS, identity).items():
        if calls > 0:
            one = timed.get((api, name), nothing)
            found.append(_operation(name, "", one, elapsed, calls=calls, errors=errors.get(name, 0.0)))
    errors = _errors(window.numbers(catalog.nccl.OPERATION_ERRORS, identity), 0)
    for (name, communicator), one in window.distributions(catalog.nccl.OPERATION_DURATION, identity).items():
        if one.calls:
            # Errors are not counted by communicator: the first one has them all.
            found.append(_operation(name, communicator, one, elapsed, calls=one.calls, errors=errors.pop(name, 0.0)))
    found.sort(key=lambda one: (-one.busy_share, -one.calls_per_second, one.name, one.communicator))
    return tuple(found)


def _errors(numbers: Mapping[tuple[str, ...], float], name_at: int) -> dict[str, float]:
    """Name of an operation -> errors of all codes. name_at: index of the name in the labels."""
    found: dict[str, float] = defaultdict(float)
    for labels, count in numbers.items():
        found[labels[name_at]] += count
    return found


def _operation(
    name: str, communicator: str, timed: Distribution, elapsed: float, *, calls: float, errors: float
) -> OperationRates:
    quantiles = tuple(quantile_seconds(timed.counts, part) for part in SHOWN_QUANTILES)
    p50, p95, p99 = quantiles
    return OperationRates(
        name,
        communicator,
        calls / elapsed,
        timed.sum_seconds / elapsed,
        None if p50 is None or p95 is None or p99 is None else (p50, p95, p99),
        errors / elapsed,
    )


def _chains(now: Scrape) -> tuple[OpenChain, ...]:
    """Open chains, the worst first; ids and culprits are from the info metric of the same cause."""
    severities = now.numbers_of(catalog.chains.SEVERITY)
    lost, worst = now.numbers_of(catalog.chains.LOST), now.numbers_of(catalog.chains.LOST_AT_WORST)
    infos: dict[tuple[Identity | None, str], list[tuple[str, str]]] = defaultdict(list)
    for identity, (chain_id, cause, culprit) in now.numbers_of(catalog.chains.INFO):
        infos[identity, cause].append((chain_id, culprit))
    found = []
    for key, active in now.numbers_of(catalog.chains.ACTIVE).items():
        identity, (cause, effect) = key
        if identity is not None and active.value > 0:
            known = infos.get((identity, cause), [])
            keys = [(identity, (chain_id, cause)) for chain_id, _ in known]
            found.append(
                OpenChain(
                    identity,
                    cause,
                    effect,
                    _severity(severities.get(key, Number(0)).value),
                    culprits=tuple(sorted({culprit for _, culprit in known if culprit})),
                    ids=tuple(sorted(chain_id for chain_id, _ in known)),
                    lost_share=max((lost[one].value for one in keys if one in lost), default=None),
                    worst_lost_share=max((worst[one].value for one in keys if one in worst), default=None),
                )
            )
    return tuple(sorted(found, key=lambda one: (-one.severity, one.identity.values(), one.cause, one.effect)))


def _severity(value: float) -> Severity:
    return Severity(int(min(max(value, Severity.NONE), Severity.CRITICAL)))


def _notes(now: Scrape, window: _Window, has_workloads: bool) -> Iterable[str]:
    """Reasons why figures are incomplete."""
    enabled = now.numbers_of(catalog.own.PROBES_ENABLED).get((None, ()))
    if enabled is not None and not enabled.value:
        yield "all probes were removed (SIGUSR1): nothing is measured until the exporter is restarted"
    elif not has_workloads:
        yield "no process has called CUDA or NCCL since the probes were attached"
    kind_at = catalog.own.BUILD_INFO.labels.index("attach_kind")
    if any(labels[kind_at] == _ENTRY_ONLY for _, labels in now.numbers_of(catalog.own.BUILD_INFO)):
        yield "this kernel has no return probes: calls are counted but not timed"
    failed = sorted(
        collector for (_, (collector,)), ok in now.numbers_of(catalog.own.COLLECTOR_SUCCESS).items() if not ok.value
    )
    if failed:
        yield f"failed collectors: {', '.join(failed)}; their figures are missing or incomplete"
    lost = {
        f"{program} {reason}": count
        for (program, reason), count in window.numbers(catalog.own.LOSSES, None).items()
        if count > 0 and program != _RECOVERED
    }
    if lost:
        yield f"dropped records: {', '.join(f'{what} {count:.0f} times' for what, count in sorted(lost.items()))}"
