"""output.own_exposition: the exporter's metrics about itself, as they are scraped."""

from __future__ import annotations

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from exporter import catalog
from exporter.output.negotiation import Format
from exporter.output.own_exposition import OwnExposition
from exporter.own_metrics.store import OwnMetrics


def samples(own: OwnMetrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """(name, sorted labels) -> value, of gpustall_exporter_*."""
    return {
        (one.name, tuple(sorted(one.labels.items()))): one.value
        for family in parse_text(OwnExposition(own).render(Format.TEXT).decode())
        for one in family.samples
        if one.name.startswith("gpustall_")
    }


def filled() -> OwnMetrics:
    """One series of every metric of the catalogue."""
    own = OwnMetrics()
    for metric in catalog.OWN_METRICS:
        own.set(metric, 1, *(f"a {name}" for name in metric.labels))
    return own


class TestSeries:
    """Names, labels and values."""

    def test_metric_without_series_is_not_exported(self) -> None:
        assert samples(OwnMetrics()) == {}

    def test_info_has_its_labels_and_is_1(self) -> None:
        """gpustall_exporter_build_info."""
        own = OwnMetrics()
        own.set(catalog.own.BUILD_INFO, 1, "0.1", "3.11", "1.1", "6.18", "multi")

        ((name, labels),) = samples(own)
        assert (name, dict(labels)["kernel"], samples(own)[name, labels]) == ("gpustall_exporter_build_info", "6.18", 1)


class TestFormats:
    """Both expositions."""

    def test_every_metric_of_the_catalogue_can_be_exported(self) -> None:
        """Under its name, with its labels."""
        found = {name: tuple(sorted(key for key, _ in labels)) for name, labels in samples(filled())}

        assert found == {metric.name: tuple(sorted(metric.labels)) for metric in catalog.OWN_METRICS}

    @pytest.mark.parametrize("common", catalog.COMMON_LABELS)
    def test_no_metric_carries_workload_labels(self, common: str) -> None:
        """The scraper adds the labels of the exporter's pod."""
        assert f'{common}="' not in OwnExposition(filled()).render(Format.TEXT).decode()

    def test_process_metrics_are_there(self) -> None:
        """Memory and CPU of the exporter."""
        text = OwnExposition(OwnMetrics()).render(Format.TEXT).decode()

        assert "\nprocess_resident_memory_bytes " in text
        assert "\nprocess_cpu_seconds_total " in text

    def test_openmetrics_has_no_end_mark_yet(self) -> None:
        """The workload's metrics follow."""
        text = OwnExposition(filled()).render(Format.OPENMETRICS).decode()

        assert "# EOF" not in text
        assert {family.name for family in parse_openmetrics(text + "# EOF\n")} >= {"gpustall_exporter_ticks"}
