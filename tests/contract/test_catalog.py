"""Names and help texts of the catalogue follow the rules of Prometheus and OpenTelemetry."""

from __future__ import annotations

import re
from types import ModuleType

import pytest

from exporter import catalog
from exporter.catalog import (
    CLUSTER_METRICS,
    COMMON_LABELS,
    METRICS,
    METRICS_OF_COLLECTOR,
    OWN_METRICS,
    WORKLOAD_METRICS,
    Kind,
    Metric,
)
from exporter.config.collectors import COLLECTORS
from tests.support.translation import prometheus_name

ALL_METRICS = METRICS + CLUSTER_METRICS
CALL_DURATIONS = [m for m in METRICS_OF_COLLECTOR["cuda"] + METRICS_OF_COLLECTOR["nccl"] if m.kind is Kind.HISTOGRAM]
OTHER_DURATIONS = [m for m in METRICS if m.kind is Kind.HISTOGRAM and m not in CALL_DURATIONS]
EVERY_METRIC = pytest.mark.parametrize("metric", ALL_METRICS, ids=lambda metric: metric.name)


OTEL_KIND = {Kind.COUNTER: "sum", Kind.GAUGE: "gauge", Kind.INFO: "gauge", Kind.HISTOGRAM: "histogram"}


class TestNames:
    """Each metric has a name in Prometheus and one in OpenTelemetry."""

    @EVERY_METRIC
    def test_prometheus_name_is_the_translated_one(self, metric: Metric) -> None:
        """A query works for scraped and for pushed metrics."""
        assert metric.name == prometheus_name(metric.otel_name, metric.unit, OTEL_KIND[metric.kind])

    def test_translation_is_the_standard_one(self) -> None:
        """Examples written by hand from the specification."""
        examples = {
            ("a.duration", "s", "histogram"): "a_duration_seconds",
            ("a.wait", "s", "exponential"): "a_wait_seconds",
            ("a.copied", "By", "sum"): "a_copied_bytes_total",
            ("a.copied_bytes", "By", "gauge"): "a_copied_bytes",
            ("a.calls", "{call}", "sum"): "a_calls_total",
            ("a.share", "1", "gauge"): "a_share_ratio",
            ("a.info", "", "gauge"): "a_info",
            ("a.clock", "Hz", "gauge"): "a_clock_hertz",
            ("a.used", "J", "sum"): "a_used_joules_total",
            ("a.throughput", "By/s", "gauge"): "a_throughput_bytes_per_second",
        }

        assert {given: prometheus_name(*given) for given in examples} == examples

    @EVERY_METRIC
    def test_unit_is_one_that_the_translation_knows(self, metric: Metric) -> None:
        """Seconds, bytes, what a GPU is measured in, an annotation, or none."""
        assert metric.unit in ("s", "By", "1", "", "By/s", "Hz", "W", "J", "Cel") or re.fullmatch(
            r"\{[a-z]+\}", metric.unit
        )

    def test_names_are_unique(self) -> None:
        """In Prometheus and in OpenTelemetry."""
        assert len({metric.name for metric in ALL_METRICS}) == len(ALL_METRICS)
        assert len({metric.otel_name for metric in ALL_METRICS}) == len(ALL_METRICS)

    def test_no_family_has_the_name_of_samples_of_another(self) -> None:
        """OpenMetrics names a family without its suffix; a histogram's samples add theirs."""
        families = [re.sub("_(total|info)$", "", metric.name) for metric in METRICS]
        samples = {
            metric.name + suffix
            for metric in METRICS
            if metric.kind is Kind.HISTOGRAM
            for suffix in ("_bucket", "_sum", "_count", "_created")
        }

        assert len(set(families)) == len(families)
        assert not samples & {metric.name for metric in METRICS}

    @EVERY_METRIC
    def test_metrics_about_the_exporter_have_their_prefix(self, metric: Metric) -> None:
        """No other metric has it."""
        is_about_it = metric in catalog.own.EXPORTER_METRICS + catalog.workload.COST_METRICS
        assert metric.name.startswith("gpustall_exporter_") == is_about_it
        assert metric.name.startswith("gpustall_")

    def test_every_metric_made_is_listed(self) -> None:
        """An unlisted metric would never be exported."""
        modules = [value for value in vars(catalog).values() if isinstance(value, ModuleType)]
        made = {value for module in modules for value in vars(module).values() if isinstance(value, Metric)}

        assert made == set(ALL_METRICS)
        assert not set(WORKLOAD_METRICS) & set(OWN_METRICS)
        assert set(WORKLOAD_METRICS) | set(OWN_METRICS) == set(METRICS)


class TestCollectors:
    """Which metrics are missing without a collector."""

    def test_every_workload_metric_belongs_to_one_collector(self) -> None:
        """Except the info and the overhead, which every process has."""
        listed = [metric for metrics in catalog.METRICS_OF_COLLECTOR.values() for metric in metrics]

        assert [*listed, catalog.workload.INFO, *catalog.workload.COST_METRICS] == list(WORKLOAD_METRICS)

    def test_collectors_are_those_that_can_be_switched_off(self) -> None:
        """They have the same names."""
        assert tuple(catalog.METRICS_OF_COLLECTOR) == COLLECTORS


class TestLabels:
    """Labels beside the five common ones."""

    def test_common_labels_are_the_five(self) -> None:
        """In this order."""
        assert COMMON_LABELS == ("node", "rank", "container", "namespace", "pod")

    @EVERY_METRIC
    def test_own_labels_collide_with_nothing(self, metric: Metric) -> None:
        """Not with the common ones, nor with those of a format or of the scraper."""
        assert not {*metric.labels} & {*COMMON_LABELS, "le", "quantile", "job", "instance"}
        assert len(set(metric.labels)) == len(metric.labels)

    @EVERY_METRIC
    def test_label_names_are_in_snake_case(self, metric: Metric) -> None:
        """Prometheus reserves names with two leading underscores."""
        assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", label) for label in metric.labels)


class TestHelp:
    """Help texts."""

    @EVERY_METRIC
    def test_help_is_a_sentence(self, metric: Metric) -> None:
        """It begins with a capital or a digit and ends with a full stop; it is one line of at most 300 characters."""
        assert re.fullmatch(r"[A-Z0-9].*\.", metric.help)
        assert "  " not in metric.help
        assert len(metric.help) <= 300

    @EVERY_METRIC
    def test_help_does_not_repeat_another(self, metric: Metric) -> None:
        """Each text is unique."""
        assert [other for other in ALL_METRICS if other.help == metric.help] == [metric]

    @pytest.mark.parametrize("metric", CALL_DURATIONS, ids=lambda metric: metric.name)
    def test_help_of_a_call_duration_says_that_it_is_host_time(self, metric: Metric) -> None:
        """A probe on an asynchronous call does not see the GPU."""
        assert "from entry to return" in metric.help
        assert re.search(r"not (its|the) time on the GPU", metric.help)

    @pytest.mark.parametrize("metric", OTHER_DURATIONS, ids=lambda metric: metric.name)
    def test_help_of_another_duration_says_when_it_begins_and_ends(self, metric: Metric) -> None:
        """From … until, to or by …."""
        assert re.search(r"\bfrom\b.*\b(until|to|by)\b", metric.help)
