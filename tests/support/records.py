"""Builders of snapshots, points and histograms."""

from __future__ import annotations

from collections.abc import Iterable

from exporter import units
from exporter.catalog import Metric
from exporter.clock import Moment
from exporter.model import Family, Histogram, Identity, Point, Snapshot
from exporter.own_metrics.store import OwnMetrics
from exporter.totals import Counts

TRAINER = Identity(node="gpu7", rank="3", container="0123456789ab", namespace="", pod="")


STARTED_UNIX_NS = 1_790_000_000_000_000_000


def at(monotonic_seconds: float) -> Moment:
    """A moment this long after an arbitrary start."""
    elapsed_ns = int(monotonic_seconds * 1e9)
    return Moment(elapsed_ns, STARTED_UNIX_NS + elapsed_ns)


def histogram_of(slots: dict[int, int], sum_seconds: float = 0.0) -> Histogram:
    """A histogram with these counts by slot."""
    return Histogram(Counts.of([slots.get(slot, 0) for slot in range(units.SLOTS)]), sum_seconds)


def point(value: int | float | Histogram, *labels: str, identity: Identity = TRAINER) -> Point:
    """One series."""
    return Point(identity, labels, value)


def snapshot_of(metric: Metric, *points: Point) -> Snapshot:
    """A snapshot of one family, taken at 0 s."""
    return Snapshot(at(0.0), (Family(metric, points),), {TRAINER: STARTED_UNIX_NS, None: STARTED_UNIX_NS})


def series_of(families: Iterable[Family], metric: Metric) -> dict[tuple[str, ...], int | float | Histogram]:
    """(rank, *labels) -> value, of one metric."""
    return {
        (found.identity.rank if found.identity else "", *found.labels): found.value
        for family in families
        if family.metric is metric
        for found in family.points
    }


def own_sample(own: OwnMetrics, name: str, **labels: str) -> float | None:
    """The value of one series of the exporter's own metrics; None if there is none."""
    for family in own.families():
        for found in family.points if family.metric.name == name else ():
            if dict(zip(family.metric.labels, found.labels, strict=True)) == labels:
                assert not isinstance(found.value, Histogram)
                return found.value
    return None
