"""What a metric is: name, type, unit, labels and help.

A name serves two worlds: `otel_name` plus `unit` translates to `name` by the standard rule (dots to underscores, the unit
spelled out, `_total` on counters).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

COMMON_LABELS = ("node", "rank", "container", "namespace", "pod")
"""On every workload metric, always written, empty included. The exporter's own metrics carry none of them."""


class Kind(enum.StrEnum):
    """Prometheus type."""

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
        """Whether its totals are billionths of its unit: nanoseconds, shares, nanowatts and nanojoules."""
        return self.unit in ("s", "1", "W", "J")
