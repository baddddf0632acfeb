"""A metric: name, type, unit, labels and help.

Prometheus and OpenTelemetry have a name each: `otel_name` plus `unit` translates to `name` by the standard rule (dots to
underscores, the unit spelled out, `_total` on counters).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

COMMON_LABELS = ("node", "rank", "container", "namespace", "pod")
"""Labels of every workload metric, written also if empty. The exporter's own metrics have none of them."""


class Kind(enum.StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. name: as in a query, `_total` included. unit: UCUM, as OpenTelemetry writes it; "" for none."""

    name: str
    otel_name: str
    unit: str
    kind: Kind
    labels: tuple[str, ...]
    help: str

    @property
    def is_fractional(self) -> bool:
        """Whether its totals are integers in billionths of its unit, such as nanoseconds or nanowatts."""
        return self.unit in ("s", "1", "W", "J")
