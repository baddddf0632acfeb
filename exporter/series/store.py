"""Who owns which total? Keeps what is exported monotone while processes come, are renamed and go.

In: cumulative totals of each process, and the identity each is exported under. Out: the families of a Snapshot.
Counters and histograms of an ended process stay in the sum of its identity until no process has had that identity for a TTL;
gauges and infos end with the process. A process that is renamed leaves what it had under the old name and goes on from there.
Totals are integers in the kernel's units until they leave here, so that folding never rounds. An identity whose totals have
expired counts from then on if it returns.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

from exporter import units
from exporter.catalog import WORKLOAD_METRICS, Kind, Metric, chains
from exporter.clock import Moment
from exporter.model import Exemplar, Family, Histogram, Identity, Point, Snapshot
from exporter.totals import Call, HistogramTotal, Series, Total, Totals, Trace, Traces

_KEPT = (Kind.COUNTER, Kind.HISTOGRAM)
_MAX_EXPIRED = 10_000  # identities whose expiry is remembered; one that returns after more than that starts too early
_EXEMPLAR_NS = 60 * units.NANOSECONDS  # an older one says nothing of what is slow now


_NOTHING: Mapping[Any, Any] = MappingProxyType({})


class SeriesStore:
    """Totals by identity. ttl_seconds: how long totals outlive the last process of their identity. opened_at: now."""

    def __init__(self, ttl_seconds: float, opened_at: Moment) -> None:
        self.ttl_seconds = ttl_seconds
        self._kept: dict[Identity, dict[Series, Total]] = {}
        self._last_seen_ns: dict[Identity, int] = {}
        self._opened_unix_ns = opened_at.unix_ns
        self._started_unix_ns: dict[Identity | None, int] = {None: opened_at.unix_ns}
        self._expired_unix_ns: dict[Identity, int] = {}
        self._left_behind: dict[int, dict[Series, Total]] = {}
        self._traces: dict[tuple[Identity, Series], Trace] = {}
        self._places: set[Identity] = set()  # of the last snapshot

    def rename(self, process: int, old: Identity, totals: Mapping[Series, Total]) -> None:
        """From here on the process has another identity; what it has so far stays with `old`."""
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

    def _keep(self, process: int, identity: Identity, totals: Mapping[Series, Total]) -> None:
        kept = self._kept.setdefault(identity, {})
        # The TTL runs from the next publication, however long ago the last one was.
        self._last_seen_ns.pop(identity, None)
        for series, total in totals.items():
            if series.metric.kind in _KEPT:
                _add(kept, series, self._since_rename(process, series, total))

    def _note(self, identity: Identity, traces: Mapping[Series, Trace]) -> None:
        """Of several the latest."""
        for series, trace in traces.items():
            noted = self._traces.get((identity, series))
            if noted is None or noted.at_ns <= trace.at_ns:
                self._traces[identity, series] = trace

    def _since_rename(self, process: int, series: Series, total: Total) -> Total:
        left_behind = self._left_behind.get(process)
        earlier = left_behind.get(series) if left_behind else None
        return total if earlier is None else _minus(total, earlier)

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
        sums: dict[Identity, dict[Series, Total]] = {}
        for process, identity in identities.items():
            self._note(identity, traces.get(process, _NOTHING))
            self._last_seen_ns[identity] = now.monotonic_ns
            of_identity = sums.setdefault(identity, {})
            for series, total in totals.get(process, {}).items():
                _add(of_identity, series, self._since_rename(process, series, total))
        self._expire(now)
        for identity, kept in self._kept.items():
            of_identity = sums.setdefault(identity, {})
            for series, total in kept.items():
                _add(of_identity, series, total)
        for place, of_place in host_totals.items():
            of_identity = sums.setdefault(place, {})
            for series, total in of_place.items():
                _add(of_identity, series, total)
        for place in self._places - host_totals.keys() - sums.keys():
            self._started_unix_ns.pop(place, None)
            self._expired_unix_ns[place] = now.unix_ns
        self._places = set(host_totals)
        for identity in sums:
            if identity not in self._started_unix_ns:
                self._started_unix_ns[identity] = self._expired_unix_ns.pop(identity, self._opened_unix_ns)
        self._set_back(now)
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

    def _exemplars(self, now: Moment) -> dict[Metric, dict[tuple[Identity | None, tuple[str, ...]], Exemplar]]:
        """Of counters; those that are too old are forgotten."""
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
        """The time of day may have been set back. A start that lies ahead is moved once, and stays where it is then."""
        if now.unix_ns < max(self._opened_unix_ns, *self._started_unix_ns.values()):
            self._opened_unix_ns = min(self._opened_unix_ns, now.unix_ns)
            for identity, started in self._started_unix_ns.items():
                self._started_unix_ns[identity] = min(started, now.unix_ns)

    def _expire(self, now: Moment) -> None:
        seen_ns, now_ns = self._last_seen_ns, now.monotonic_ns
        for identity in [
            i for i in self._kept if now_ns - seen_ns.setdefault(i, now_ns) > self.ttl_seconds * units.NANOSECONDS
        ]:
            del self._kept[identity], seen_ns[identity]
            self._started_unix_ns.pop(identity, None)
            self._expired_unix_ns[identity] = now.unix_ns
        for identity in list(self._expired_unix_ns)[:-_MAX_EXPIRED]:
            del self._expired_unix_ns[identity]


def _add(into: dict[Series, Total], series: Series, total: Total) -> None:
    earlier = into.get(series)
    if earlier is None:
        into[series] = total
    elif isinstance(earlier, HistogramTotal) and isinstance(total, HistogramTotal):
        into[series] = earlier.plus(total)
    elif isinstance(earlier, int) and isinstance(total, int):
        into[series] = max(earlier, total) if series.metric in chains.LEVELS else earlier + total


def _minus(total: Total, earlier: Total) -> Total:
    if isinstance(total, HistogramTotal) and isinstance(earlier, HistogramTotal):
        return total.minus(earlier)
    assert isinstance(total, int)  # noqa: S101 - a metric is one kind of total throughout
    assert isinstance(earlier, int)  # noqa: S101
    return total - earlier


def _exported(metric: Metric, total: Total, now: Moment) -> int | float | Histogram:
    if isinstance(total, HistogramTotal):
        return Histogram(total.counts, units.seconds(total.sum_ns), _exemplar(total.exemplar, now))
    return units.seconds(total) if metric.is_fractional else total


def _exemplar(call: Call | None, now: Moment) -> Exemplar | None:
    # One that ended while the tables were read belongs to the next snapshot.
    if call is None or not 0 <= now.monotonic_ns - call.ended_ns <= _EXEMPLAR_NS:
        return None
    labels = (("pid", str(call.tgid)), ("tid", str(call.tid))) if call.tid else ()
    return Exemplar(labels, units.seconds(call.duration_ns), now.unix_ns_of(call.ended_ns))
