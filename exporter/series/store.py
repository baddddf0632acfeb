"""Sums of totals by identity that never go back while processes start, are renamed and end.

In: cumulative totals of each process, and the identity each is exported under. Out: the families of a Snapshot.
Counters and histograms of an ended process stay in the sum of its identity until no process has had that identity for a TTL;
gauges and infos end with the process. A process that is renamed leaves what it counted so far under the old name and continues
from there. Totals stay integers in the kernel's units until they leave here, so that sums never round. An identity that returns
after its totals have expired counts from then on.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

from exporter import units
from exporter.catalog import WORKLOAD_METRICS, Kind, Metric
from exporter.clock import Moment
from exporter.model import Exemplar, Family, Histogram, Identity, Point, Snapshot
from exporter.series.accumulation import LastSeen, add, end_surplus_culprits, growth
from exporter.series.code_bounds import CodeBounds
from exporter.totals import Call, HistogramTotal, Series, Total, Totals, Trace, Traces

_KEPT = (Kind.COUNTER, Kind.HISTOGRAM)
_MAX_EXPIRED = 10_000  # identities whose expiry is remembered; one that returns after more than that starts too early
_EXEMPLAR_NS = 60 * units.NANOSECONDS  # an older one does not explain what is slow now

_NOTHING: Mapping[Any, Any] = MappingProxyType({})


class SeriesStore:
    """Totals by identity. ttl_seconds: how long totals outlive the last process of their identity. opened_at: now."""

    def __init__(self, ttl_seconds: float, opened_at: Moment) -> None:
        self.ttl_seconds = ttl_seconds
        self._kept: dict[Identity, dict[Series, Total]] = {}
        self._last_seen: LastSeen[Identity] = LastSeen()
        self._opened_unix_ns = opened_at.unix_ns
        self._started_unix_ns: dict[Identity | None, int] = {None: opened_at.unix_ns}
        self._expired_unix_ns: dict[Identity, int] = {}
        self._left_behind: dict[int, dict[Series, Total]] = {}
        self._traces: dict[tuple[Identity, Series], Trace] = {}
        self._bounds = CodeBounds()
        self._host_identities: set[Identity] = set()  # of the last snapshot

    def rename(self, process: int, old: Identity, totals: Mapping[Series, Total]) -> None:
        """The process gets another identity; what it has counted so far stays with `old`."""
        self._keep(process, old, totals)
        self._left_behind[process] = {s: total for s, total in totals.items() if s.metric.kind in _KEPT}

    def retire(
        self,
        process: int,
        identity: Identity,
        totals: Mapping[Series, Total],
        traces: Mapping[Series, Trace] = _NOTHING,
    ) -> None:
        """The process has ended; `totals` and `traces` are its last."""
        self._keep(process, identity, totals)
        self._note(identity, traces)
        self._left_behind.pop(process, None)

    def end(self, identity: Identity, now: Moment) -> None:
        """Its series end now, as if its TTL had passed. No process has it any more."""
        self._last_seen.pop(identity, None)
        if self._kept.pop(identity, None) is not None:
            self._started_unix_ns.pop(identity, None)
            self._expired_unix_ns[identity] = now.unix_ns
        self._bounds.forget(identity)

    def fold(self, identity: Identity, into: Identity, now: Moment) -> None:
        """What ended processes of an identity have counted goes to another one. No process has it any more."""
        kept, into_kept = self._kept.get(identity, {}), self._kept.setdefault(into, {})
        self._last_seen.pop(into, None)
        for series, total in kept.items():
            add(into_kept, self._bounds.series(into, series), total)
        end_surplus_culprits(into_kept)
        self.end(identity, now)

    def _keep(self, process: int, identity: Identity, totals: Mapping[Series, Total]) -> None:
        kept = self._kept.setdefault(identity, {})
        # The TTL runs from the next snapshot, however long ago the last one was.
        self._last_seen.pop(identity, None)
        for series, total in totals.items():
            if series.metric.kind in _KEPT:
                add(kept, self._bounds.series(identity, series), self._since_rename(process, series, total))
        end_surplus_culprits(kept)

    def _note(self, identity: Identity, traces: Mapping[Series, Trace]) -> None:
        """Keep the latest trace of each series."""
        for series, trace in traces.items():
            known = self._traces.get((identity, series))
            if known is None or known.at_ns <= trace.at_ns:
                self._traces[identity, series] = trace

    def _since_rename(self, process: int, series: Series, total: Total) -> Total:
        left_behind = self._left_behind.get(process)
        earlier = left_behind.get(series) if left_behind else None
        # A culprit's series may have ended and begun again since.
        gained = None if earlier is None else growth(total, earlier)
        return total if gained is None else gained

    def take_folded(self) -> Mapping[Identity, int]:
        """Identity -> series of errors that it was refused since the last call."""
        return self._bounds.take_folded()

    def retained(self) -> Collection[Identity]:
        """Identities with totals of processes that have ended."""
        return self._kept.keys()

    def snapshot(
        self,
        totals: Totals,
        identities: Mapping[int, Identity],
        now: Moment,
        traces: Traces = _NOTHING,
        host_totals: Mapping[Identity, Mapping[Series, Total]] = _NOTHING,
    ) -> Snapshot:
        """Every series, by metric in catalogue order. identities: of processes to export; the others are held back.

        host_totals: of containers and of the node; HostTotals keeps them monotone.
        """
        sums = self._sums_of_processes(totals, identities, now, traces)
        self._expire(now)
        for by_identity in (self._kept, host_totals):
            for identity, of_identity in by_identity.items():
                summed = sums.setdefault(identity, {})
                for series, total in of_identity.items():
                    add(summed, series, total)
        self._update_starts(sums.keys(), host_totals.keys(), now)
        points: dict[Metric, list[Point]] = {metric: [] for metric in WORKLOAD_METRICS}
        for identity, of_identity in sums.items():
            for series, total in of_identity.items():
                value = min(total, 1) if series.metric.kind is Kind.INFO and isinstance(total, int) else total
                points[series.metric].append(Point(identity, series.labels, _exported(series.metric, value, now)))
        exemplars = self._exemplars(now)
        families = tuple(
            Family(metric, tuple(points[metric]), exemplars.get(metric, _NOTHING))
            for metric in WORKLOAD_METRICS
            if points[metric]
        )
        return Snapshot(now, families, dict(self._started_unix_ns))

    def _sums_of_processes(
        self, totals: Totals, identities: Mapping[int, Identity], now: Moment, traces: Traces
    ) -> dict[Identity, dict[Series, Total]]:
        """Identity -> series -> sum over its running processes."""
        sums: dict[Identity, dict[Series, Total]] = {}
        for process, identity in identities.items():
            self._note(identity, traces.get(process, _NOTHING))
            self._last_seen[identity] = now.monotonic_ns
            summed = sums.setdefault(identity, {})
            for series, total in totals.get(process, {}).items():
                add(summed, self._bounds.series(identity, series), self._since_rename(process, series, total))
        return sums

    def _update_starts(self, exported: Collection[Identity], of_host: Collection[Identity], now: Moment) -> None:
        """Since when each exported identity counts. of_host: those with totals of the host."""
        for identity in self._host_identities.difference(of_host, exported):
            self._started_unix_ns.pop(identity, None)
            self._expired_unix_ns[identity] = now.unix_ns
        self._host_identities = set(of_host)
        for identity in exported:
            if identity not in self._started_unix_ns:
                self._started_unix_ns[identity] = self._expired_unix_ns.pop(identity, self._opened_unix_ns)
        self._set_back(now)

    def _exemplars(self, now: Moment) -> dict[Metric, dict[tuple[Identity | None, tuple[str, ...]], Exemplar]]:
        """Exemplars of counters, by metric and series; forgets those that are too old."""
        self._traces = {
            key: trace for key, trace in self._traces.items() if now.monotonic_ns - trace.at_ns <= _EXEMPLAR_NS
        }
        found: dict[Metric, dict[tuple[Identity | None, tuple[str, ...]], Exemplar]] = {}
        for (identity, series), trace in self._traces.items():
            labels = (("trace_id", trace.trace_id), ("span_id", trace.span_id))
            exemplar = Exemplar(
                labels, units.seconds(trace.amount_ns), now.unix_ns_of(min(trace.at_ns, now.monotonic_ns))
            )
            found.setdefault(series.metric, {})[identity, series.labels] = exemplar
        return found

    def _set_back(self, now: Moment) -> None:
        """Handle a time of day that was set back: a start in the future is moved to now, once."""
        if now.unix_ns < max(self._opened_unix_ns, *self._started_unix_ns.values()):
            self._opened_unix_ns = min(self._opened_unix_ns, now.unix_ns)
            for identity, started in self._started_unix_ns.items():
                self._started_unix_ns[identity] = min(started, now.unix_ns)

    def _expire(self, now: Moment) -> None:
        ttl_ns = self.ttl_seconds * units.NANOSECONDS
        for identity in self._kept:
            self._last_seen.setdefault(identity, now.monotonic_ns)
        for identity in self._last_seen.expire(now.monotonic_ns, ttl_ns):
            self._bounds.forget(identity)
            if self._kept.pop(identity, None) is not None:
                self._started_unix_ns.pop(identity, None)
                self._expired_unix_ns[identity] = now.unix_ns
        for identity in list(self._expired_unix_ns)[:-_MAX_EXPIRED]:
            del self._expired_unix_ns[identity]


def _exported(metric: Metric, total: Total, now: Moment) -> int | float | Histogram:
    if isinstance(total, HistogramTotal):
        return Histogram(total.counts, units.seconds(total.sum_ns), _exemplar(total.exemplar, now))
    return units.seconds(total) if metric.is_fractional else total


def _exemplar(call: Call | None, now: Moment) -> Exemplar | None:
    # A call that ended while the tables were read belongs to the next snapshot.
    if call is None or not 0 <= now.monotonic_ns - call.ended_ns <= _EXEMPLAR_NS:
        return None
    labels = (("pid", str(call.tgid)), ("tid", str(call.tid))) if call.tid else ()
    return Exemplar(labels, units.seconds(call.duration_ns), now.unix_ns_of(call.ended_ns))
