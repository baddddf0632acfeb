"""Histories of nodes, also merged ones, become rows of a store: for nodes that could not push, or did not yet.

In: a history, and a store that no other process writes to. Out: its windows and chains in the store, each once.
A window is recognised by its node, the number of its process and its begin: a history does not have the ids of pushed windows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from exporter.chains.chain import Change
from exporter.cluster.chain_decoding import chain_event_row, chain_span_row
from exporter.cluster.folder import StoreFolder
from exporter.cluster.known_rows import KnownRows
from exporter.cluster.plain_records import PlainRecord, PlainSpan, PlainSpanEvent
from exporter.cluster.records import Batch, ChainEventRow, ChainSpanRow, Stored, WindowRow
from exporter.cluster.store import ClusterStore
from exporter.history.membership import Membership
from exporter.history.reader import History, opened
from exporter.history.run import Run
from exporter.history.window import Window
from exporter.output.otlp.chain_records import ChainSpans, log_record
from exporter.output.otlp.records import SpanRecord
from exporter.units import seconds

SENDER: Final = "import"
_PUSHED: Final = (Change.OPENED, Change.ESCALATED, Change.RESOLVED)
_BATCH_ROWS: Final = 2048
_ALL: Final = 0  # since 1970
_EFFORT: Final = 20.0
"""Storing a window takes that many times as long as reading it."""

_Jobs = Mapping[tuple[int, int], str]
"""(run, process) -> hash of its largest communicator."""


class ImportedCounts(NamedTuple):
    """known: rows that the store had already. refused: rows of processes beyond the limit of a segment."""

    rows: int
    known: int
    refused: int


def import_history(path: Path, folder: StoreFolder, store: ClusterStore, now_unix_ns: int) -> ImportedCounts:
    """Raises what opened() and the store raise; what was stored until then stays, and is known to the next attempt."""
    store.seal()
    stored: list[Stored] = []
    known = 0
    with opened(path, effort=_EFFORT) as history, closing(KnownRows(folder)) as known_rows:
        for windows in _in_batches(_window_rows(history)):
            new = known_rows.without_windows(windows)
            known += len(windows) - len(new)
            stored += store.add([Batch(SENDER, now_unix_ns, new)], now_unix_ns)
        events, spans = _chain_rows(history)
        new_events, new_spans = known_rows.without_chains(events, spans)
        known += len(events) + len(spans) - len(new_events) - len(new_spans)
        stored += store.add([Batch(SENDER, now_unix_ns, (), new_events, new_spans)], now_unix_ns)
    return ImportedCounts(
        sum(one.rows for one in stored),
        known + sum(one.duplicates for one in stored),
        sum(one.refused for one in stored),
    )


def _window_rows(history: History) -> Iterator[WindowRow]:
    runs = {run.id: run for run in history.runs()}
    jobs = _jobs(history)
    for interval in history.windows(_ALL):
        run = runs.get(interval.run)
        for window in interval.windows:
            run_id = _run_id(run, interval.run, window.labels.identity.node)
            yield _window_row(window, run_id, jobs.get((interval.run, window.process)))


def _run_id(run: Run | None, number: int, node: str) -> str:
    """The same for each copy of a history. It has no ids of runs, but no two begin at the same time on a node."""
    key = f"{node}\n{run.began_unix_ns if run else number}\n{run.version if run else ''}"
    return hashlib.blake2b(key.encode("utf-8", "replace"), digest_size=8).hexdigest()


def _jobs(history: History) -> _Jobs:
    largest: dict[tuple[int, int], Membership] = {}
    for one in history.memberships(_ALL):
        known = largest.get((one.run, one.membership.process))
        if known is None or one.membership.ranks > known.ranks:
            largest[one.run, one.membership.process] = one.membership
    return {process: f"{one.communicator:016x}" for process, one in largest.items()}


def _window_row(window: Window, run_id: str, job: str | None) -> WindowRow:
    """Without communicators: a history has the last state of each alone, from which the job is known."""
    culprits = window.culprits_ns
    operations = window.operations
    return WindowRow(
        run=run_id,
        process=window.process,
        began_unix_ns=window.began_unix_ns,
        ended_unix_ns=window.ended_unix_ns,
        node=window.labels.identity.node,
        rank=window.labels.identity.rank,
        container=window.labels.identity.container,
        namespace=window.labels.identity.namespace,
        pod=window.labels.identity.pod,
        pid=window.labels.tgid,
        command=window.labels.comm,
        job=job or f"{run_id}-{window.process}",
        duration_seconds=seconds(window.duration_ns),
        steps=window.steps.counts.total,
        step_seconds=seconds(window.steps.sum_ns),
        bucket_first=window.steps.counts.begin,
        bucket_counts=tuple(window.steps.counts.held),
        lost_causes=tuple(window.lost_ns),
        lost_seconds=tuple(map(seconds, window.lost_ns.values())),
        culprit_causes=tuple(cause for cause, _, _ in culprits),
        culprit_names=tuple(culprit for _, culprit, _ in culprits),
        culprit_seconds=tuple(seconds(ns) for _, _, ns in culprits),
        states=tuple(window.states_ns),
        state_seconds=tuple(map(seconds, window.states_ns.values())),
        communicator_hashes=(),
        communicator_ranks=(),
        communicator_sizes=(),
        communicator_operations=(),
        communicator_lags=(),
        call_apis=tuple(one.api for one in operations),
        call_operations=tuple(one.name for one in operations),
        call_counts=tuple(one.calls for one in operations),
        call_errors=tuple(one.errors for one in operations),
        call_timed=tuple(one.timed.counts.total for one in operations),
        call_seconds=tuple(seconds(one.timed.sum_ns) for one in operations),
        overhead_seconds=None,
    )


def _chain_rows(history: History) -> tuple[list[ChainEventRow], list[ChainSpanRow]]:
    """Those that the exporter would have pushed."""
    events, spans = [], []
    open_chains = ChainSpans()
    for _, event in history.events(_ALL):
        if event.change in _PUSHED:
            record = log_record(event)
            events.append(
                chain_event_row(
                    PlainRecord(
                        {},
                        record.event_name,
                        record.time_unix_ns,
                        record.observed_unix_ns,
                        record.trace_id,
                        record.body,
                        record.attributes,
                    )
                )
            )
            if (span := open_chains.on_chain_event(event)) is not None:
                spans.append(chain_span_row(_plain(span)))
    return events, spans


def _plain(span: SpanRecord) -> PlainSpan:
    return PlainSpan(
        {},
        span.trace_id,
        span.name,
        span.start_unix_ns,
        span.end_unix_ns,
        span.attributes,
        [PlainSpanEvent(one.name, one.time_unix_ns, one.attributes) for one in span.events],
        span.error,
    )


def _in_batches(rows: Iterable[WindowRow]) -> Iterator[Sequence[WindowRow]]:
    iterator = iter(rows)
    while batch := list(islice(iterator, _BATCH_ROWS)):
        yield batch
