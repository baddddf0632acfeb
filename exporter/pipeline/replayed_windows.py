"""What processes and threads did in a recording.

In: a replayed run, between two ticks. Out: windows as those of the history, spans of threads, and slow calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from exporter.accounting.accountant import ProcessTime
from exporter.accounting.culprits import STATE_LABEL
from exporter.causes import largest_first
from exporter.history.run import RecordedWindows, Run
from exporter.history.window import NO_STEPS, NO_SWITCHES, OperationTime, ProcessLabels, Window
from exporter.history.windowing import OTHER
from exporter.kernel.abi import OPERATION_NONE, ThreadState
from exporter.kernel.operations import OPERATIONS
from exporter.kernel.process_rows import ProcessRow
from exporter.kernel.thread_rows import ThreadRow, signed
from exporter.model import Identity, label_value
from exporter.pipeline.replay import ReplayedRun
from exporter.python.call_site import CallSite
from exporter.recording.file import Recording
from exporter.totals import Counts, HistogramTotal
from exporter.units import seconds

RUN_ID = 1
"""Id of the run that made the recording."""

_NO_TIME = ProcessTime({}, {}, {})


class ThreadSpan(NamedTuple):
    """What a thread did between two readings. labels: of its traced process, which it may be a worker of.

    states_ns: its time by state. operation: of its open call at the end, "" outside of calls.
    """

    labels: ProcessLabels
    tid: int
    comm: str
    began_unix_ns: int
    ended_unix_ns: int
    states_ns: Mapping[str, int]
    operation: str


class SlowCallSpan(NamedTuple):
    """The slow calls of a process within a recording: which of its seconds they were made in is not known."""

    process: int
    labels: ProcessLabels
    began_unix_ns: int
    ended_unix_ns: int
    call_sites: tuple[CallSite, ...]


class ReplayedWindows:
    """The windows of a replayed run: each holds what happened since the one before."""

    def __init__(self, recording: Recording, replayed: ReplayedRun) -> None:
        self._recording = recording
        self._replayed = replayed
        self._until_ns = 0
        self._times: Mapping[int, ProcessTime] = {}
        self._calls: Mapping[int, int] = {}
        self._processes: Mapping[int, ProcessRow] = {}
        self._labels: dict[int, ProcessLabels] = {}

    @property
    def length_ns(self) -> int:
        """Since the last windows, or since the first tick."""
        return self._replayed.now_ns - (self._until_ns or self._replayed.began_ns)

    def take(self) -> RecordedWindows:
        """The windows up to now, of all processes. A recording has no histograms of calls."""
        began_ns, self._until_ns = self._until_ns or self._replayed.began_ns, self._replayed.now_ns
        at = self._recording.taken_at
        span_unix_ns = at.unix_ns_of(began_ns), at.unix_ns_of(self._until_ns)
        times, self._times = self._times, dict(self._replayed.times)
        calls, self._calls = self._calls, self._replayed.calls()
        processes = {**self._processes, **self._replayed.processes}  # with those that have ended since
        self._processes = self._replayed.processes
        windows = [
            self._window(number, row, times.get(number, _NO_TIME), calls.get(number, 0), span_unix_ns)
            for number, row in processes.items()
        ]
        return RecordedWindows(RUN_ID, *span_unix_ns, windows)

    def slow_calls(self) -> Iterator[SlowCallSpan]:
        """Those of all processes that have had a window."""
        at = self._recording.taken_at
        span_unix_ns = at.unix_ns_of(self._replayed.began_ns), at.unix_ns_of(self._replayed.now_ns)
        for number, labels in self._labels.items():
            process = self._recording.processes.get(number)
            if process is not None and process.call_sites:
                yield SlowCallSpan(number, labels, *span_unix_ns, process.call_sites)

    def _window(
        self, number: int, row: ProcessRow, before: ProcessTime, calls_before: int, span_unix_ns: tuple[int, int]
    ) -> Window:
        now = self._times.get(number, _NO_TIME)
        lost_ns: Counter[str] = Counter()
        culprits_ns: Counter[tuple[str, str]] = Counter()
        for (cause, culprit), ns in (Counter(now.lost) - Counter(before.lost)).items():
            lost_ns[cause.value] += ns
            culprits_ns[cause.value, culprit] += ns
        calls = self._calls.get(number, calls_before) - calls_before
        labels = self._labels[number] = _labels(self._recording, number, row)
        return Window(
            number,
            labels,
            *span_unix_ns,
            (now.steps or NO_STEPS).minus(before.steps or NO_STEPS),
            lost_ns,
            tuple((cause, culprit, ns) for (cause, culprit), ns in largest_first(culprits_ns)),
            {},
            NO_SWITCHES,
            (OperationTime("", OTHER, calls, 0, HistogramTotal(Counts(), 0)),) if calls > 0 else (),
        )


class ReplayedThreads:
    """The spans of the threads of a replayed run. A tick reads threads only where a verdict needs them."""

    def __init__(self, recording: Recording, replayed: ReplayedRun) -> None:
        self._recording = recording
        self._replayed = replayed
        self._last: dict[tuple[int, int], ThreadRow] = {}

    def take(self) -> Iterator[ThreadSpan]:
        """The spans that the last reading ends: one for each thread that the reading before had as well."""
        before = self._last
        self._last = {(row.process, row.tid): row for row in self._replayed.threads()}
        for key, row in self._last.items():
            known, process = before.get(key), self._replayed.processes.get(row.process)
            if known is not None and process is not None and row.read_ns > known.read_ns:
                yield self._span(known, row, _labels(self._recording, row.process, process))

    def _span(self, before: ThreadRow, row: ThreadRow, labels: ProcessLabels) -> ThreadSpan:
        states_ns = {
            STATE_LABEL[state]: ns
            for state in ThreadState
            if (ns := signed(row.booked_ns[state]) - signed(before.booked_ns[state])) > 0
        }
        at = self._recording.taken_at
        return ThreadSpan(
            labels,
            row.tid,
            label_value(row.comm.decode("utf-8", "replace")),
            at.unix_ns_of(before.read_ns),
            at.unix_ns_of(row.read_ns),
            states_ns,
            "" if row.operation == OPERATION_NONE else OPERATIONS[row.operation].name,
        )


def recorded_run(recording: Recording, began_ns: int, ended_ns: int) -> Run:
    """The run that made the recording, as if it were going on. began_ns, ended_ns: CLOCK_MONOTONIC."""
    at = recording.taken_at
    began_unix_ns, ended_unix_ns = at.unix_ns_of(began_ns), at.unix_ns_of(ended_ns)
    window_seconds = seconds(ended_unix_ns - began_unix_ns)
    return Run(RUN_ID, began_unix_ns, ended_unix_ns, None, recording.version, True, window_seconds)


def _labels(recording: Recording, number: int, row: ProcessRow) -> ProcessLabels:
    process = recording.processes.get(number)
    comm = label_value(row.comm.split(b"\0", 1)[0].decode(errors="replace"))
    return ProcessLabels((process and process.identity) or Identity(), row.tgid, comm)
