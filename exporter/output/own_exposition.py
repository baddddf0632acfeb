"""The exposition of the exporter's own metrics, through prometheus-client, which adds process_* of this process.

In: OwnMetrics. Out: the bytes to put before the workload metrics.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric as ClientFamily
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from exporter.catalog import Kind
from exporter.model import Family, Histogram
from exporter.output import protobuf
from exporter.output.negotiation import Format
from exporter.own_metrics.store import OwnMetrics

_OPENMETRICS_END = b"# EOF\n"


class OwnExposition:
    """Safe to render from any thread."""

    def __init__(self, own: OwnMetrics) -> None:
        self._own = own
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def collect(self) -> Iterator[ClientFamily]:
        """The interface of a Collector of prometheus-client."""
        return map(_client_family, self._own.families())

    def render(self, fmt: Format) -> bytes:
        """The exposition, without the `# EOF` that ends OpenMetrics."""
        if fmt is Format.PROTOBUF:
            return b"".join(map(_protobuf_family, self._registry.collect()))
        generate = generate_openmetrics if fmt is Format.OPENMETRICS else generate_latest
        body: bytes = generate(self._registry)
        return body.removesuffix(_OPENMETRICS_END)


def _client_family(family: Family) -> ClientFamily:
    metric = family.metric
    if metric.kind is Kind.INFO:
        info = InfoMetricFamily(metric.name.removesuffix("_info"), metric.help)
        for point in family.points:
            info.add_metric((), dict(zip(metric.labels, point.labels, strict=True)))
        return info
    family_type = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
    found = family_type(metric.name, metric.help, labels=metric.labels)
    for point in family.points:
        assert not isinstance(point.value, Histogram)  # noqa: S101 - the exporter has none about itself
        found.add_metric(point.labels, point.value)
    return found


def _protobuf_family(client_family: ClientFamily) -> bytes:
    """One family of the registry, all of whose samples have one name: counters, gauges and infos."""
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
