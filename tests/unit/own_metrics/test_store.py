"""own_metrics.store: values of the exporter's metrics about itself."""

from __future__ import annotations

from exporter import catalog
from exporter.catalog import Metric
from exporter.own_metrics.store import OwnMetrics


def series(own: OwnMetrics) -> dict[tuple[Metric, tuple[str, ...]], object]:
    """(metric, labels) -> value."""
    return {(family.metric, point.labels): point.value for family in own.families() for point in family.points}


class TestValues:
    """set, add and replace."""

    def test_last_value_that_was_set_counts(self) -> None:
        """A gauge says how it is now."""
        own = OwnMetrics()
        own.set(catalog.own.MAP_ENTRIES, 5, "operations")
        own.set(catalog.own.MAP_ENTRIES, 7, "operations")

        assert series(own) == {(catalog.own.MAP_ENTRIES, ("operations",)): 7}

    def test_added_counter_adds_up(self) -> None:
        """From 0."""
        own = OwnMetrics()
        own.add(catalog.own.TICKS, 1)
        own.add(catalog.own.TICKS, 2)

        assert series(own) == {(catalog.own.TICKS, ()): 3}

    def test_replaced_series_end(self) -> None:
        """A library that is detached is no longer a 1."""
        own = OwnMetrics()
        own.replace(catalog.own.ATTACHMENTS, {("runtime", "multi"): 2, ("nccl", "multi"): 1})
        own.replace(catalog.own.ATTACHMENTS, {("runtime", "multi"): 1})

        assert series(own) == {(catalog.own.ATTACHMENTS, ("runtime", "multi")): 1}

    def test_replacing_keeps_no_hold_of_the_caller_s_dict(self) -> None:
        """Another thread may be rendering."""
        own = OwnMetrics()
        values: dict[tuple[str, ...], float] = {("operations",): 1.0}
        own.replace(catalog.own.MAP_ENTRIES, values)
        values["errors",] = 2.0

        assert series(own) == {(catalog.own.MAP_ENTRIES, ("operations",)): 1}


class TestFamilies:
    """What the outputs read."""

    def test_metric_without_series_is_left_out(self) -> None:
        """Also when its series have ended."""
        own = OwnMetrics()
        own.replace(catalog.own.ATTACHMENTS, {})

        assert own.families() == ()

    def test_families_are_in_the_order_of_the_catalogue(self) -> None:
        """And not in that of setting them."""
        own = OwnMetrics()
        own.add(catalog.own.TICKS, 1)
        own.set(catalog.own.PROBES_ENABLED, 1)

        assert [family.metric for family in own.families()] == [catalog.own.PROBES_ENABLED, catalog.own.TICKS]
