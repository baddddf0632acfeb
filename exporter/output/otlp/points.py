"""A Snapshot as OpenTelemetry sees it: data points of resources. What JSON and protobuf have in common.

In: a Snapshot and the exporter's own families. Out: DataPoints in the order in which they are written, cut into requests.
"""

from __future__ import annotations

import operator
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from exporter import __version__, units
from exporter.catalog import COMMON_LABELS, Kind, Metric
from exporter.model import Exemplar, Family, Histogram, Identity, Snapshot
from exporter.totals import Counts

SCOPE = ("gpu-stall-exporter", __version__)
CUMULATIVE, DELTA = 2, 1
"""AggregationTemporality of the protocol."""

POINTS_PER_REQUEST = 1000  # about 1 MB of JSON: below what receivers accept, and small beside the rest of this process
INT64_MAX = 2**63 - 1

# OpenTelemetry numbers an exponential bucket by its lower edge, where Prometheus takes the upper one.
FIRST_INDEX = (units.UNIT_EXPONENT << units.SCALE) - 1

# What the semantic conventions hash the name of a thing with, to make its service.instance.id.
_INSTANCE_NAMESPACE = uuid.UUID("4d63009a-8d0f-11ee-aad7-4c796ed8e320")
_CONTAINER_ID = re.compile(r"[0-9a-f]{12}")


class DataPoint(NamedTuple):
    """One series at one time. start_unix_ns: since when a counter or a histogram counts. exemplar: of a counter."""

    metric: Metric
    identity: Identity | None
    labels: tuple[str, ...]
    value: int | float | Histogram
    start_unix_ns: int
    exemplar: Exemplar | None = None


@dataclass(frozen=True, slots=True)
class Form:
    """How a receiver wants numbers. with_explicit_buckets: those of /metrics instead of the exponential ones."""

    is_delta: bool
    with_explicit_buckets: bool


@dataclass(frozen=True, slots=True)
class Origin:
    """Whose numbers these are. attributes: what the user adds to every resource."""

    node: str
    service_name: str
    attributes: tuple[tuple[str, str], ...] = ()

    def resource(self, identity: Identity | None) -> dict[str, str]:
        """Attributes of one container's rank; of the exporter itself for None."""
        own = {"service.name": self.service_name, "service.instance.id": self._instance_id(identity)}
        own["host.name"] = self.node
        if identity is not None:
            conventional = {
                "k8s.namespace.name": identity.namespace,
                "k8s.pod.name": identity.pod,
                "container.id": identity.container if _CONTAINER_ID.fullmatch(identity.container) else "",
                "gpustall.rank": identity.rank,
            }
            own |= {key: value for key, value in conventional.items() if value}
        return {encodable(key): encodable(value) for key, value in (dict(self.attributes) | own).items()}

    def _instance_id(self, identity: Identity | None) -> str:
        """The same for the same labels, today and tomorrow; no label holds the separator, which is not printable."""
        name = f"exporter\n{self.node}" if identity is None else "\n".join(identity.values())
        return str(uuid.uuid5(_INSTANCE_NAMESPACE, encodable(name)))


def encodable(text: str) -> str:
    """Text that UTF-8 can hold: lone surrogates, as os.environ has them for bytes that are none, become `?`."""
    return text.encode("utf-8", "replace").decode()


def data_points(snapshot: Snapshot, own: Iterable[Family]) -> list[DataPoint]:
    """Every series of the workloads and of the exporter itself."""
    started, now = snapshot.started_unix_ns, snapshot.taken_at.unix_ns
    return [
        DataPoint(
            family.metric,
            point.identity,
            point.labels,
            point.value,
            min(started.get(point.identity, now), now),
            family.exemplars.get((point.identity, point.labels)) if family.exemplars else None,
        )
        for family in (*snapshot.families, *own)
        for point in family.points
    ]


def requests(points: Sequence[DataPoint]) -> Iterator[list[DataPoint]]:
    """The points of one request after the other; those of a resource, and in it those of a metric, stand together."""
    resources: dict[Identity | None, dict[Metric, list[DataPoint]]] = {}
    for point in points:
        resources.setdefault(point.identity, {}).setdefault(point.metric, []).append(point)
    ordered = [point for metrics in resources.values() for group in metrics.values() for point in group]
    for begin in range(0, len(ordered), POINTS_PER_REQUEST):
        yield ordered[begin : begin + POINTS_PER_REQUEST]


Grouped = Iterator[tuple[Identity | None, Iterator[tuple[Metric, list[DataPoint]]]]]


def grouped(request: Iterable[DataPoint]) -> Grouped:
    """The points of a request by resource, then by metric."""
    for identity, of_resource in groupby(request, key=lambda point: point.identity):
        yield identity, ((metric, list(of)) for metric, of in groupby(of_resource, key=lambda point: point.metric))


def attributes(point: DataPoint) -> dict[str, str]:
    """The five labels, except of the exporter itself, and the metric's own."""
    common = {} if point.identity is None else dict(zip(COMMON_LABELS, point.identity.values(), strict=True))
    return common | dict(zip(point.metric.labels, point.labels, strict=True))


def ids(exemplar: Exemplar) -> tuple[str, str, tuple[tuple[str, str], ...]]:
    """Its trace id and its span id, "" where it has none, for which the protocol has fields; and its other labels."""
    by_name = dict(exemplar.labels)
    trace_id, span_id = by_name.pop("trace_id", ""), by_name.pop("span_id", "")
    return trace_id, span_id, tuple(by_name.items())


def is_sum(metric: Metric) -> bool:
    """Whether a metric is a monotonic sum; an info is a gauge of 1."""
    return metric.kind is Kind.COUNTER


def explicit_counts(counts: Counts) -> list[int]:
    """Counts of the classic buckets, each without those below it; the last one is for what is above all edges."""
    cumulative = counts.cumulative()
    return list(map(operator.sub, cumulative, (0, *cumulative[:-1])))


def number(point: DataPoint) -> int | float:
    """The value as the protocol has it: seconds as double, what is counted as int64 while it fits."""
    value = point.value
    assert not isinstance(value, Histogram)  # noqa: S101 - the kind of the metric says so
    if point.metric.is_fractional or abs(value) > INT64_MAX or not float(value).is_integer():
        return float(value)
    return int(value)
