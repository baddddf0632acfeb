"""Cuts cumulative totals into Windows: what each process did since the last cut. Pure, the time is given.

In: totals of each process, as a publication has them before it adds them up by identity. Out: Windows of those that did
something.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from exporter import catalog
from exporter.clock import Moment
from exporter.history.window import NO_STEPS, NO_SWITCHES, OperationTime, ProcessLabels, Switches, Window
from exporter.totals import Counts, HistogramTotal, Series, Total, Totals

MAX_PROCESSES = 256
"""Told apart at a time, first come first served; as many as --series.max-workloads by default."""

MAX_OPERATIONS = 8
MAX_CULPRITS = 6
OTHER = "other"
"""All operations of a process that are not among those told."""

_UNTOLD = frozenset({"other_gap", "worker", "idle", "abandoned"})
"""Thread time that is neither in calls nor between those of a thread that feeds the GPU; labels of catalog.sched.THREAD_TIME."""

_NO_TIME = HistogramTotal(Counts(), 0)


class ProcessTotals(NamedTuple):
    """Everything known of the processes alive at a moment. labels: of those that are named."""

    at: Moment
    totals: Totals
    labels: Mapping[int, ProcessLabels]
    switches: Mapping[int, Switches]


class WindowSink(Protocol):
    """Whom a publication shows what it has read."""

    def is_due(self, now: Moment) -> bool:
        """Whether it wants to see what is read now."""
        ...

    def on_totals(self, taken: ProcessTotals) -> None:
        """It is shown. Called by whoever scrapes: it must not wait for anything."""
        ...

    def on_process_end(
        self, process: int, labels: ProcessLabels, totals: Mapping[Series, Total], switches: Switches
    ) -> None:
        """A process has ended, and these are its last totals. Called at a tick: it must not wait, nor take long."""
        ...


class _Sums(NamedTuple):
    """The totals of a process, as far as they are told."""

    steps: HistogramTotal
    lost_ns: Counter[str]
    culprits_ns: Counter[tuple[str, str]]
    states_ns: Counter[str]
    switches: Switches
    calls: Counter[tuple[str, str]]
    errors: Counter[tuple[str, str]]
    timed: dict[tuple[str, str], HistogramTotal]


def _nothing() -> _Sums:
    return _Sums(NO_STEPS, Counter(), Counter(), Counter(), NO_SWITCHES, Counter(), Counter(), {})


class _Span(NamedTuple):
    began_unix_ns: int
    ended_unix_ns: int


class _Retired(NamedTuple):
    process: int
    labels: ProcessLabels
    totals: Mapping[Series, Total]
    switches: Switches


class WindowBuilder:
    """Remembers the totals of the last cut. started_at: nothing was counted before.

    end_process() may be called from another thread than cut(). left_out: processes that there was no room for, once in each cut.
    """

    def __init__(self, started_at: Moment) -> None:
        self._cut_at = started_at
        self._before: dict[int, _Sums] = {}
        self._retired: deque[_Retired] = deque(maxlen=MAX_PROCESSES)
        self.left_out = 0

    @property
    def cut_at(self) -> Moment:
        """Up to when windows have been made."""
        return self._cut_at

    def end_process(
        self, process: int, labels: ProcessLabels, totals: Mapping[Series, Total], switches: Switches
    ) -> None:
        """These are its last totals; they go into the next cut. Of more at once than there is room for the first are left out."""
        if len(self._retired) == MAX_PROCESSES:
            self.left_out += 1
        self._retired.append(_Retired(process, labels, totals, switches))

    def cut(self, taken: ProcessTotals) -> list[Window]:
        """The windows since the last cut, of processes that made a call, a step or lost something."""
        began, self._cut_at = self._cut_at, taken.at
        span = _Span(taken.at.unix_ns_of(began.monotonic_ns), taken.at.unix_ns)
        windows = []
        for number, labels in sorted(taken.labels.items()):
            if number not in self._before and len(self._before) >= MAX_PROCESSES:
                self.left_out += 1
                continue
            sums = _sums_of(taken.totals.get(number, {}), taken.switches.get(number, NO_SWITCHES))
            before = self._before.get(number) or _nothing()
            self._before[number] = sums
            windows.append(_window(number, labels, before, sums, span))
        while self._retired:
            number, labels, totals, switches = self._retired.popleft()
            before = self._before.pop(number) if number in self._before else _nothing()
            windows.append(_window(number, labels, before, _sums_of(totals, switches), span))
        for number in self._before.keys() - taken.labels.keys():
            del self._before[number]  # of whom no leave was taken
        return [window for window in windows if window is not None]


def _sums_of(totals: Mapping[Series, Total], switches: Switches) -> _Sums:
    sums = _nothing()._replace(switches=switches)
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
        elif metric is catalog.sched.THREAD_TIME:  # most of them are
            operation, state = labels
            if operation not in _UNTOLD:
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
    """(api, operation); calls of NCCL on all communicators are one operation."""
    if metric is catalog.cuda.OPERATION_DURATION:
        return labels[0], labels[1]
    return ("nccl", labels[0]) if metric is catalog.nccl.OPERATION_DURATION else None


def _window(number: int, labels: ProcessLabels, before: _Sums, now: _Sums, span: _Span) -> Window | None:
    """None where nothing happened but that time went by."""
    operations = _operations(before, now)
    steps = _without_call(now.steps.minus(before.steps))
    lost_ns = now.lost_ns - before.lost_ns  # what did not grow is left out
    if not (operations or steps.counts.total or lost_ns):
        return None
    culprits_ns = {key: ns for key, ns in (now.culprits_ns - before.culprits_ns).items() if key[1]}
    switches = zip(now.switches, before.switches, strict=True)
    return Window(
        number,
        labels,
        *span,
        steps,
        lost_ns,
        tuple((*key, ns) for key, ns in sorted(culprits_ns.items(), key=lambda item: -item[1])[:MAX_CULPRITS]),
        now.states_ns - before.states_ns,
        Switches(*(max(later - earlier, 0) for later, earlier in switches)),
        operations,
    )


class _Grown(NamedTuple):
    """What an operation's totals have grown by, but for its histogram, which few are asked for."""

    key: tuple[str, str]
    calls: int
    errors: int
    sum_ns: int


def _operations(before: _Sums, now: _Sums) -> tuple[OperationTime, ...]:
    """Those that failed and those that took most time; the rest is one, without a histogram."""
    grown = []
    for key, timed in now.timed.items():
        timed_before = before.timed.get(key, _NO_TIME)
        sum_ns = timed.sum_ns - timed_before.sum_ns
        # Of NCCL all calls are timed, and counted nowhere else.
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
    told = tuple(
        OperationTime(*key, calls, errors, _added(before.timed.get(key), now.timed.get(key)))
        for key, calls, errors, _ in grown[:MAX_OPERATIONS]
    )
    rest = grown[MAX_OPERATIONS:]
    if not rest:
        return told
    timed = HistogramTotal(Counts(), sum(one.sum_ns for one in rest))
    return (*told, OperationTime("", OTHER, sum(one.calls for one in rest), sum(one.errors for one in rest), timed))


def _added(before: HistogramTotal | None, now: HistogramTotal | None) -> HistogramTotal:
    if now is None:
        return _NO_TIME
    return _without_call(now if before is None else now.minus(before))


def _without_call(total: HistogramTotal) -> HistogramTotal:
    return total._replace(exemplar=None)
