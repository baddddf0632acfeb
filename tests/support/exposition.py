"""A scrape, parsed by prometheus-client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from prometheus_client import parser as text_parser
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import parser as openmetrics_parser

COMMON_LABELS = {"node", "rank", "container", "namespace", "pod"}
# Names of workload metrics begin so, and those about the exporter itself do not.
WORKLOAD_PREFIXES = ("gpustall_cuda_", "gpustall_nccl_", "gpustall_workload_")


class Sample(NamedTuple):
    """One line."""

    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True)
class Scrape:
    """All lines of one response, in its order. types: by metric family."""

    samples: tuple[Sample, ...]
    types: Mapping[str, str]

    def matching(self, name: str, **labels: str) -> list[Sample]:
        """Samples of a name whose labels are as given; others may have any value."""
        return [s for s in self.samples if s.name == name and labels.items() <= s.labels.items()]

    def total(self, name: str, **labels: str) -> float:
        """The sum of the matching samples, 0 for none."""
        return sum(sample.value for sample in self.matching(name, **labels))

    def by(self, label: str, name: str, **labels: str) -> dict[str, float]:
        """Value of a label -> sum of the matching samples that have it."""
        found: dict[str, float] = {}
        for sample in self.matching(name, **labels):
            found[sample.labels[label]] = found.get(sample.labels[label], 0) + sample.value
        return found

    def workload(self) -> list[Sample]:
        """Everything but the exporter's own metrics."""
        return [sample for sample in self.samples if sample.name.startswith(WORKLOAD_PREFIXES)]

    def losses(self) -> dict[str, float]:
        """`program reason` -> records that the kernel programs dropped, without zeros."""
        return {
            f"{sample.labels['program']} {sample.labels['reason']}": sample.value
            for sample in self.matching("gpustall_exporter_losses_total")
            if sample.value and sample.labels["program"] != "mapping_watch"  # the walk makes up for those
        }

    def cumulative(self, **labels: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        """Every matching sample of the workload that must never go back: counters, and all parts of histograms."""
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for sample in self.workload()
            if sample.name.endswith(("_total", "_bucket", "_count", "_sum")) and labels.items() <= sample.labels.items()
        }


def of_text(body: str) -> Scrape:
    """A body in Prometheus's text format 0.0.4."""
    return _scrape(text_parser.text_string_to_metric_families(body))


def of_openmetrics(body: str) -> Scrape:
    """A body in OpenMetrics 1.0.0; the parser is strict."""
    return _scrape(openmetrics_parser.text_string_to_metric_families(body))


def _scrape(families: Iterable[Metric]) -> Scrape:
    families = list(families)
    return Scrape(
        tuple(Sample(s.name, s.labels, s.value) for family in families for s in family.samples),
        {family.name: family.type for family in families},
    )
