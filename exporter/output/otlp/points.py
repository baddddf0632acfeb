"""A Snapshot in OpenTelemetry's data model: data points of resources, which json_body and protobuf_body encode.

In: a Snapshot and the exporter's own families. Out: DataPoints in the order in which they are written, split into requests.
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
"""Values of the protocol's enum AggregationTemporality."""

POINTS_PER_REQUEST = (
    1000  # about 1 MB of JSON: below the limits of receivers, and small beside the rest of this process
)
INT64_MAX = 2**63 - 1

# OpenTelemetry numbers an exponential bucket by its lower edge, Prometheus by its upper one.
FIRST_INDEX = (units.UNIT_EXPONENT << units.SCALE) - 1

# The namespace that the semantic conventions give for a service.instance.id of version 5.
_INSTANCE_NAMESPACE = uuid.UUID("4d63009a-8d0f-11ee-aad7-4c796ed8e320")
_OF_ONE_POD = re.compile(
    r"(k8s\.(pod|namespace|container|deployment|replicaset|replicationcontroller|statefulset|daemonset|job|cronjob)"
    r"|container|process|openshift\.deploymentconfig|docker|faas)\."
)
"""Attributes that describe one process, its container or its pod. The downward API gives the exporter those of its own."""
_CONTAINER_ID = re.compile(r"[0-9a-f]{12}")


class DataPoint(NamedTuple):
    """One series at one time. start_unix_ns: when a counter or a histogram began to count. exemplar: of a counter."""

    metric: Metric
    identity: Identity | None
    labels: tuple[str, ...]
    value: int | float | Histogram
    start_unix_ns: int
    exemplar: Exemplar | None = None


@dataclass(frozen=True, slots=True)
class Form:
    """The form of numbers for a receiver. with_explicit_buckets: those of /metrics instead of the exponential ones."""

    is_delta: bool
    with_explicit_buckets: bool


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of all metrics and chains. attributes: of --otlp.resource-attributes.

    Those about a pod are for the exporter's own resource; the others, such as the cluster, for every resource.
    """

    node: str
    service_name: str
    attributes: tuple[tuple[str, str], ...] = ()

    def resource(self, identity: Identity | None) -> dict[str, str]:
        """The attributes of one container's rank; None: those of the exporter."""
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
        given = {key: value for key, value in self.attributes if identity is None or not _OF_ONE_POD.match(key)}
        return {encodable(key): encodable(value) for key, value in (given | own).items()}

    def _instance_id(self, identity: Identity | None) -> str:
        """Always the same for the same labels; no label holds the separator, which is not printable."""
        name = f"exporter\n{self.node}" if identity is None else "\n".join(identity.values())
        return str(uuid.uuid5(_INSTANCE_NAMESPACE, encodable(name)))


def encodable(text: str) -> str:
    """Text that UTF-8 can hold: lone surrogates, which os.environ has for bytes that are not UTF-8, become `?`."""
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


def requests(points: Sequence[DataPoint], points_per_request: int = POINTS_PER_REQUEST) -> Iterator[list[DataPoint]]:
    """Split the points into requests, ordered by resource, then by metric."""
    resources: dict[Identity | None, dict[Metric, list[DataPoint]]] = {}
    for point in points:
        resources.setdefault(point.identity, {}).setdefault(point.metric, []).append(point)
    ordered = [point for metrics in resources.values() for group in metrics.values() for point in group]
    for begin in range(0, len(ordered), points_per_request):
        yield ordered[begin : begin + points_per_request]


Grouped = Iterator[tuple[Identity | None, Iterator[tuple[Metric, list[DataPoint]]]]]


def grouped(request: Iterable[DataPoint]) -> Grouped:
    """Group the points of a request by resource, then by metric."""
    for identity, of_resource in groupby(request, key=lambda point: point.identity):
        yield identity, ((metric, list(of)) for metric, of in groupby(of_resource, key=lambda point: point.metric))


def attributes(point: DataPoint) -> dict[str, str]:
    """The five labels, which the exporter's own metrics lack, and the metric's own labels."""
    common = {} if point.identity is None else dict(zip(COMMON_LABELS, point.identity.values(), strict=True))
    return common | dict(zip(point.metric.labels, point.labels, strict=True))


def trace_ids_and_labels(exemplar: Exemplar) -> tuple[str, str, tuple[tuple[str, str], ...]]:
    """The trace id and the span id, "" where it has none, for which the protocol has fields; and the other labels."""
    by_name = dict(exemplar.labels)
    trace_id, span_id = by_name.pop("trace_id", ""), by_name.pop("span_id", "")
    return trace_id, span_id, tuple(by_name.items())


def is_sum(metric: Metric) -> bool:
    """Whether a metric is a monotonic sum; an info is a gauge of 1."""
    return metric.kind is Kind.COUNTER


def explicit_counts(counts: Counts) -> list[int]:
    """The count of each classic bucket, not cumulative; the last one is for values above all edges."""
    cumulative = counts.cumulative()
    return list(map(operator.sub, cumulative, (0, *cumulative[:-1])))


def number(point: DataPoint) -> int | float:
    """Seconds as double, counts as int64 while they fit."""
    value = point.value
    assert not isinstance(value, Histogram)  # noqa: S101 - by the kind of the metric
    if point.metric.is_fractional or abs(value) > INT64_MAX or not float(value).is_integer():
        return float(value)
    return int(value)
