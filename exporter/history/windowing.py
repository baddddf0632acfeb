"""Builds windows from cumulative totals: what each process did since the last time. Pure, the time is an argument.

In: totals of each process, before a snapshot adds them up by identity. Out: a Window for each process that did something.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from exporter import catalog
from exporter.causes import largest_first
from exporter.clock import Moment
from exporter.history.collective_mark import CollectiveMark
from exporter.history.communicator_windows import CommunicatorWindows, LagKey
from exporter.history.membership import Membership
from exporter.history.window import (
    NO_STEPS,
    NO_SWITCHES,
    CommunicatorWindow,
    OperationTime,
    ProcessLabels,
    Switches,
    Window,
)
from exporter.model import fairly
from exporter.python.call_site import OTHER_STACKS, CallSite
from exporter.totals import Counts, HistogramTotal, Series, Total, Totals

MAX_PROCESSES = 256
"""Recorded at a time, shared between tenants; the default of --series.max-workloads."""

MAX_OPERATIONS = 8
MAX_CULPRITS = 6
MAX_CALL_SITES = 8
OTHER = "other"
"""The operation that stands for all that are not recorded by name."""

_IGNORED_OPERATIONS = frozenset({"other_gap", "worker", "idle", "abandoned"})
"""Values of the label `operation` of catalog.sched.THREAD_TIME for time that is neither in calls nor between the calls of a
thread that feeds the GPU."""

_NO_TIME = HistogramTotal(Counts(), 0)


class ProcessTotals(NamedTuple):
    """The totals of all living processes at one time, by number of the process. labels: of those whose labels are known.

    collectives: the last ones before that. memberships: of these processes, those first that are kept if they are too many.
    lags_ns: delay behind the node's first rank so far. probe_costs_ns: what probes have cost each process so far, if known.
    """

    at: Moment
    totals: Totals
    labels: Mapping[int, ProcessLabels]
    switches: Mapping[int, Switches]
    collectives: Sequence[CollectiveMark] = ()
    memberships: Sequence[Membership] = ()
    lags_ns: Mapping[LagKey, int] = MappingProxyType({})
    probe_costs_ns: Mapping[int, int] = MappingProxyType({})


class EndedProcess(NamedTuple):
    """The last totals of a process, by its number. memberships, lags_ns, probe_cost_ns: as in ProcessTotals."""

    number: int
    labels: ProcessLabels
    totals: Mapping[Series, Total]
    switches: Switches
    memberships: Sequence[Membership] = ()
    lags_ns: Mapping[LagKey, int] = MappingProxyType({})
    probe_cost_ns: int | None = None


CallSitesOf = Callable[[int], Iterable[CallSite]]
"""The slow calls of a process so far, by number of the process."""


def no_call_sites(_process: int) -> Iterable[CallSite]:
    """CallSitesOf where no line of Python is known."""
    return ()


class _Sums(NamedTuple):
    """The totals of a process, as far as windows hold them."""

    steps: HistogramTotal
    lost_ns: Counter[str]
    culprits_ns: Counter[tuple[str, str]]
    states_ns: Counter[str]
    switches: Switches
    calls: Counter[tuple[str, str]]
    errors: Counter[tuple[str, str]]
    timed: dict[tuple[str, str], HistogramTotal]
    call_sites: tuple[CallSite, ...]
    probe_cost_ns: int | None


def _no_sums() -> _Sums:
    return _Sums(NO_STEPS, Counter(), Counter(), Counter(), NO_SWITCHES, Counter(), Counter(), {}, (), 0)


class _Interval(NamedTuple):
    began_unix_ns: int
    ended_unix_ns: int


class WindowBuilder:
    """Remembers the last totals. started_at: all counters were 0 then. call_sites: called for each process of a window.

    end_process() may be called from another thread than build(). dropped: windows of processes beyond MAX_PROCESSES. A process
    that was left out has its first window once a whole one has passed since it has a place: what it did before is not known.
    """

    def __init__(self, started_at: Moment, call_sites: CallSitesOf = no_call_sites) -> None:
        self._built_until = started_at
        self._call_sites = call_sites
        self._before: dict[int, _Sums] = {}
        self._switches: Mapping[int, Switches] = {}
        self._left_out: frozenset[int] = frozenset()
        self._lock = threading.Lock()  # of the next line
        self._ended: list[tuple[EndedProcess, tuple[CallSite, ...]]] = []
        self._communicators = CommunicatorWindows()
        self.dropped = 0

    @property
    def built_until(self) -> Moment:
        """End of the last windows."""
        return self._built_until

    def end_process(self, ended: EndedProcess) -> None:
        """Its last totals go into the next windows. If more than MAX_PROCESSES end before that, who has most loses one."""
        last = ended, tuple(self._call_sites(ended.number))
        with self._lock:
            self._ended.append(last)
            if len(self._ended) > MAX_PROCESSES:
                tenants = [one.labels.identity.tenant for one, _ in self._ended]
                ((most, _),) = Counter(tenants).most_common(1)
                del self._ended[tenants.index(most)]
                self.dropped += 1

    def build(self, totals: ProcessTotals) -> list[Window]:
        """The windows since the last ones, of processes that made a call or a step, or lost time."""
        began, self._built_until = self._built_until, totals.at
        interval = _Interval(totals.at.unix_ns_of(began.monotonic_ns), totals.at.unix_ns)
        ended = self._take_ended()
        communicators = self._communicators.build(
            totals.labels.keys() | ended.keys(),
            [
                *(one for one in totals.memberships if one.process not in ended),
                *(one for last, _ in ended.values() for one in last.memberships),
            ],
            {**totals.lags_ns, **{key: ns for last, _ in ended.values() for key, ns in last.lags_ns.items()}},
        )
        windows = []
        living = {number: labels for number, labels in totals.labels.items() if number not in ended}
        sums_of = {}
        for number in self._placed(living, totals.switches):
            switches = totals.switches.get(number, NO_SWITCHES)
            call_sites, probe_cost_ns = tuple(self._call_sites(number)), totals.probe_costs_ns.get(number)
            sums = sums_of[number] = _sums_of(totals.totals.get(number, {}), switches, call_sites, probe_cost_ns)
            if number not in self._left_out:
                before, places = self._before.get(number) or _no_sums(), communicators.get(number, ())
                windows.append(_window(number, living[number], before, sums, interval, communicators=places))
        for number, (last, call_sites) in ended.items():
            if number in self._left_out:
                self.dropped += 1
                continue
            before, places = self._before.get(number) or _no_sums(), communicators.get(number, ())
            sums = _sums_of(last.totals, last.switches, call_sites, last.probe_cost_ns)
            windows.append(_window(number, last.labels, before, sums, interval, communicators=places))
        self._before, self._switches = sums_of, totals.switches
        self._left_out = frozenset(living.keys() - sums_of.keys())
        return [window for window in windows if window is not None]

    def _placed(self, living: Mapping[int, ProcessLabels], switches: Mapping[int, Switches]) -> list[int]:
        """Those that are recorded. Of each tenant, processes whose threads have run since the last windows come first."""
        if len(living) <= MAX_PROCESSES:
            return sorted(living)

        def rank(number: int) -> tuple[bool, bool, int]:
            return not self._has_run(number, switches), number not in self._before, number

        in_order = fairly(sorted(living, key=rank), lambda number: living[number].identity.tenant)
        self.dropped += sum(self._has_run(number, switches) for number in in_order[MAX_PROCESSES:])
        return sorted(in_order[:MAX_PROCESSES])

    def _has_run(self, number: int, switches: Mapping[int, Switches]) -> bool:
        return number not in switches or switches[number] != self._switches.get(number)

    def _take_ended(self) -> dict[int, tuple[EndedProcess, tuple[CallSite, ...]]]:
        """Those since the last windows, by number, with their call sites."""
        with self._lock:
            ended, self._ended = self._ended, []
        return {last.number: (last, call_sites) for last, call_sites in ended}


def _sums_of(
    totals: Mapping[Series, Total], switches: Switches, call_sites: tuple[CallSite, ...], probe_cost_ns: int | None
) -> _Sums:
    sums = _no_sums()._replace(switches=switches, call_sites=call_sites, probe_cost_ns=probe_cost_ns)
    states_ns, calls, timed = sums.states_ns, sums.calls, sums.timed
    for (metric, labels), total in totals.items():
        if isinstance(total, HistogramTotal):
            if metric is catalog.sched.STEP_DURATION:
                sums = sums._replace(steps=total)
                continue
            key = _timed_key(metric, labels)
            if key is not None:
                known = timed.get(key)
                timed[key] = known.plus(total) if known else total
        elif metric is catalog.sched.THREAD_TIME:  # most series are of this metric
            operation, state = labels
            if operation not in _IGNORED_OPERATIONS:
                states_ns[state] += total
        elif metric is catalog.cuda.OPERATIONS:
            calls[labels[0], labels[1]] = total
        elif metric is catalog.sched.LOST:
            sums.lost_ns[labels[0]] += total
        elif metric is catalog.sched.CULPRIT:
            sums.culprits_ns[labels[0], labels[1]] += total
        elif metric is catalog.cuda.OPERATION_ERRORS:
            sums.errors[labels[0], labels[1]] += total
        elif metric is catalog.nccl.OPERATION_ERRORS:
            sums.errors["nccl", labels[0]] += total
    return sums


def _timed_key(metric: catalog.Metric, labels: tuple[str, ...]) -> tuple[str, str] | None:
    """(api, operation); NCCL calls are added up over communicators."""
    if metric is catalog.cuda.OPERATION_DURATION:
        return labels[0], labels[1]
    return ("nccl", labels[0]) if metric is catalog.nccl.OPERATION_DURATION else None


def _window(
    number: int,
    labels: ProcessLabels,
    before: _Sums,
    now: _Sums,
    interval: _Interval,
    *,
    communicators: Sequence[CommunicatorWindow],
) -> Window | None:
    """None if the process did nothing."""
    operations = _operations(before, now)
    steps = _without_exemplar(now.steps.minus(before.steps))
    lost_ns = now.lost_ns - before.lost_ns  # Counter subtraction drops what did not grow
    call_sites = _call_sites(before, now)
    if not (operations or steps.counts.total or lost_ns or call_sites):
        return None
    culprits_ns = {key: ns for key, ns in (now.culprits_ns - before.culprits_ns).items() if key[1]}
    switches = zip(now.switches, before.switches, strict=True)
    return Window(
        number,
        labels,
        *interval,
        steps,
        lost_ns,
        tuple((*key, ns) for key, ns in largest_first(culprits_ns)[:MAX_CULPRITS]),
        now.states_ns - before.states_ns,
        Switches(*(max(later - earlier, 0) for later, earlier in switches)),
        operations,
        call_sites,
        tuple(communicators),
        _added_cost_ns(before.probe_cost_ns, now.probe_cost_ns),
    )


def _added_cost_ns(before_ns: int | None, now_ns: int | None) -> int | None:
    return None if before_ns is None or now_ns is None else max(now_ns - before_ns, 0)


class _Grown(NamedTuple):
    """Growth of an operation's totals, without its histogram, which only few operations need."""

    key: tuple[str, str]
    calls: int
    errors: int
    sum_ns: int


def _operations(before: _Sums, now: _Sums) -> tuple[OperationTime, ...]:
    """Those that failed and those that took most time; the others as one, without a histogram."""
    grown = []
    for key, timed in now.timed.items():
        timed_before = before.timed.get(key, _NO_TIME)
        sum_ns = timed.sum_ns - timed_before.sum_ns
        # NCCL calls are all timed, and not counted elsewhere.
        calls = now.calls[key] - before.calls[key] if key in now.calls else 0
        if sum_ns and not calls:
            calls = timed.counts.total - timed_before.counts.total
        errors = now.errors[key] - before.errors[key] if now.errors else 0
        if calls or errors:
            grown.append(_Grown(key, calls, errors, sum_ns))
    for key in (now.calls.keys() | now.errors.keys()) - now.timed.keys():
        calls, errors = now.calls[key] - before.calls[key], now.errors[key] - before.errors[key]
        if calls or errors:
            grown.append(_Grown(key, calls, errors, 0))
    grown.sort(key=lambda one: (one.errors == 0, -one.sum_ns, -one.calls, one.key))
    named = tuple(
        OperationTime(*key, calls, errors, _added(before.timed.get(key), now.timed.get(key)))
        for key, calls, errors, _ in grown[:MAX_OPERATIONS]
    )
    rest = grown[MAX_OPERATIONS:]
    if not rest:
        return named
    timed = HistogramTotal(Counts(), sum(one.sum_ns for one in rest))
    return (*named, OperationTime("", OTHER, sum(one.calls for one in rest), sum(one.errors for one in rest), timed))


def _call_sites(before: _Sums, now: _Sums) -> tuple[CallSite, ...]:
    """Those whose slow calls took most time; the others as one, without a stack."""
    known = {one.place: one for one in before.call_sites}
    grown = []
    for one in now.call_sites:
        earlier = known.get(one.place)
        calls = one.calls - (earlier.calls if earlier else 0)
        if calls > 0:
            total_ns = one.total_ns - (earlier.total_ns if earlier else 0)
            grown.append(one._replace(calls=calls, total_ns=max(total_ns, 0)))
    grown.sort(key=lambda one: (-one.total_ns, one.operation))
    named, rest = grown[:MAX_CALL_SITES], grown[MAX_CALL_SITES:]
    if not rest:
        return tuple(named)
    calls, total_ns = sum(one.calls for one in rest), sum(one.total_ns for one in rest)
    return (*named, CallSite("", OTHER, 0, calls, total_ns, OTHER_STACKS))


def _added(before: HistogramTotal | None, now: HistogramTotal | None) -> HistogramTotal:
    if now is None:
        return _NO_TIME
    return _without_exemplar(now if before is None else now.minus(before))


def _without_exemplar(total: HistogramTotal) -> HistogramTotal:
    return total._replace(exemplar=None)
