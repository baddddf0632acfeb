"""The exporter's metrics about itself, through prometheus-client: what the daemon reports, and process_* of this process.

In: numbers set by the daemon. Out: an exposition to put before the workload metrics. Carries no workload labels.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric as ClientFamily
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from exporter.catalog import OWN_METRICS, Kind, Metric
from exporter.model import Family, Point
from exporter.output.negotiation import Format

_OPENMETRICS_END = b"# EOF\n"


class OwnMetrics:
    """Values by metric and labels; safe to set from one thread and render from others."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[Metric, dict[tuple[str, ...], float]] = {}
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def set(self, metric: Metric, value: float, *labels: str) -> None:
        """Set one series."""
        with self._lock:
            self._values.setdefault(metric, {})[labels] = value

    def replace(self, metric: Metric, values: dict[tuple[str, ...], float]) -> None:
        """Set every series of a metric at once; those not named end."""
        with self._lock:
            self._values[metric] = dict(values)

    def add(self, metric: Metric, amount: float, *labels: str) -> None:
        """Add to one counter."""
        with self._lock:
            series = self._values.setdefault(metric, {})
            series[labels] = series.get(labels, 0) + amount

    def collect(self) -> Iterator[ClientFamily]:
        """The interface of a Collector of prometheus-client."""
        return (_family(metric, series) for metric, series in self._current())

    def families(self) -> tuple[Family, ...]:
        """The metrics as Families, without process_*, which prometheus-client adds."""
        return tuple(
            Family(metric, tuple(Point(None, labels, value) for labels, value in series.items()))
            for metric, series in self._current()
        )

    def _current(self) -> list[tuple[Metric, dict[tuple[str, ...], float]]]:
        """Every metric that has a series, in catalogue order."""
        with self._lock:
            return [(metric, dict(self._values[metric])) for metric in OWN_METRICS if self._values.get(metric)]

    def render(self, fmt: Format) -> bytes:
        """The exposition, without the `# EOF` that ends OpenMetrics."""
        if fmt is Format.PROTOBUF:
            return b"".join(map(_protobuf_family, self._registry.collect()))
        generate = generate_openmetrics if fmt is Format.OPENMETRICS else generate_latest
        body: bytes = generate(self._registry)
        return body.removesuffix(_OPENMETRICS_END)


def _family(metric: Metric, series: dict[tuple[str, ...], float]) -> ClientFamily:
    if metric.kind is Kind.INFO:
        info = InfoMetricFamily(metric.name.removesuffix("_info"), metric.help)
        for labels in series:
            info.add_metric((), dict(zip(metric.labels, labels, strict=True)))
        return info
    family_type = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
    family = family_type(metric.name, metric.help, labels=metric.labels)
    for labels, value in series.items():
        family.add_metric(labels, value)
    return family


def _protobuf_family(client_family: ClientFamily) -> bytes:
    """One family of the registry, all of whose samples have one name: counters, gauges and infos."""
    from exporter.output import protobuf  # noqa: PLC0415 - 1 MiB, for clients of protobuf only

    type_number = protobuf.COUNTER if client_family.type == "counter" else protobuf.GAUGE
    metrics = [
        protobuf.metric(
            protobuf.label_pairs(tuple(sample.labels), tuple(sample.labels.values())),
            protobuf.number(type_number, sample.value),
        )
        for sample in client_family.samples
    ]
    name = client_family.samples[0].name if client_family.samples else client_family.name
    return protobuf.family(name, client_family.documentation, type_number, metrics)
