"""The exporter's metrics about itself. Carries no workload labels.

In: numbers, set from any thread. Out: Families, in the order of the catalogue.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from exporter.catalog import OWN_METRICS, Metric
from exporter.model import Family, Point


class OwnMetrics:
    """Values by metric and labels; safe to set from one thread and read from others. metrics: those of the program, in order."""

    def __init__(self, metrics: Sequence[Metric] = OWN_METRICS) -> None:
        self._metrics = metrics
        self._lock = threading.Lock()
        self._values: dict[Metric, dict[tuple[str, ...], float]] = {}

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

    def families(self) -> tuple[Family, ...]:
        """Every metric that has a series."""
        with self._lock:
            current = [(metric, dict(self._values[metric])) for metric in self._metrics if self._values.get(metric)]
        return tuple(
            Family(metric, tuple(Point(None, labels, value) for labels, value in series.items()))
            for metric, series in current
        )
