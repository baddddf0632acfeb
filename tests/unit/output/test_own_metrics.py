"""output.own_metrics: metrics about the exporter."""

from __future__ import annotations

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from exporter import catalog
from exporter.output.negotiation import Format
from exporter.output.own_metrics import OwnMetrics


def samples(own: OwnMetrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """(name, sorted labels) -> value, of gpustall_exporter_*."""
    return {
        (one.name, tuple(sorted(one.labels.items()))): one.value
        for family in parse_text(own.render(Format.TEXT).decode())
        for one in family.samples
        if one.name.startswith("gpustall_")
    }


def filled() -> OwnMetrics:
    """One series of every metric of the catalogue."""
    own = OwnMetrics()
    for metric in catalog.OWN_METRICS:
        own.set(metric, 1, *(f"a {name}" for name in metric.labels))
    return own


class TestValues:
    """set, add and replace."""

    def test_set_gauge_is_exported_with_its_labels(self) -> None:
        """The last value counts."""
        own = OwnMetrics()
        own.set(catalog.own.MAP_ENTRIES, 5, "operations")
        own.set(catalog.own.MAP_ENTRIES, 7, "operations")

        assert samples(own) == {("gpustall_exporter_map_entries", (("map", "operations"),)): 7}

    def test_added_counter_adds_up(self) -> None:
        """From 0."""
        own = OwnMetrics()
        own.add(catalog.own.TICKS, 1)
        own.add(catalog.own.TICKS, 2)

        assert samples(own) == {("gpustall_exporter_ticks_total", ()): 3}

    def test_replaced_series_end(self) -> None:
        """A library that is detached is no longer a 1."""
        own = OwnMetrics()
        own.replace(catalog.own.ATTACHMENTS, {("runtime", "multi"): 2, ("nccl", "multi"): 1})
        own.replace(catalog.own.ATTACHMENTS, {("runtime", "multi"): 1})

        labels = (("kind", "multi"), ("library", "runtime"))
        assert samples(own) == {("gpustall_exporter_attachments", labels): 1}

    def test_replacing_keeps_no_hold_of_the_caller_s_dict(self) -> None:
        """Another thread may be rendering."""
        own = OwnMetrics()
        values: dict[tuple[str, ...], float] = {("operations",): 1.0}
        own.replace(catalog.own.MAP_ENTRIES, values)
        values["errors",] = 2.0

        assert len(samples(own)) == 1

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
        assert f'{common}="' not in filled().render(Format.TEXT).decode()

    def test_process_metrics_are_there(self) -> None:
        """Memory and CPU of the exporter."""
        text = OwnMetrics().render(Format.TEXT).decode()

        assert "\nprocess_resident_memory_bytes " in text
        assert "\nprocess_cpu_seconds_total " in text

    def test_openmetrics_has_no_end_mark_yet(self) -> None:
        """The workload's metrics follow."""
        text = filled().render(Format.OPENMETRICS).decode()

        assert "# EOF" not in text
        assert {family.name for family in parse_openmetrics(text + "# EOF\n")} >= {"gpustall_exporter_ticks"}
