"""One form for scraped and pushed series, so that the two can be compared.

In: a scrape, or points that a Collector has received. Out: name and labels of each series -> its number, as a scrape in the text
format has them: a histogram is its classic buckets, its sum and its count.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from exporter import catalog
from exporter.catalog import METRICS, Kind, Metric
from exporter.config.collectors import HOST_COLLECTORS
from tests.support.exposition import Scrape
from tests.support.otlp import HistogramValue, Received

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]

BY_OTEL_NAME = {metric.otel_name: metric for metric in METRICS}
CLASSIC_EXPONENTS = (-19, -16, -13, -10, -7, -5, -3, 0)
"""The classic edges, in powers of 2 s; by hand, from docs/metrics.md."""


OF_THE_MACHINE = frozenset(metric for name in HOST_COLLECTORS for metric in catalog.METRICS_OF_COLLECTOR[name])

GOES_ON = OF_THE_MACHINE.union(
    {
        catalog.sched.THREAD_TIME,
        catalog.sched.LOST,
        catalog.sched.CULPRIT,
        catalog.workload.OVERHEAD,
        catalog.sched.INTERRUPTED,
    }
)
"""Metrics that change while a program rests: its threads rest in time, lost time gets its culprit up to five seconds later, what
probes cost is a mean of the last ten, and the machine does not rest. Two readings need not be the same, and are left out.
"""

SILENT = OF_THE_MACHINE.union(
    {
        catalog.sched.LOST,
        catalog.sched.CULPRIT,
        catalog.sched.WAIT_CHAIN,
        catalog.nccl.WAIT,
        catalog.sched.STEP_DURATION,
        catalog.sched.INTERRUPTED,
    },
    catalog.METRICS_OF_COLLECTOR["chains"],
    catalog.METRICS_OF_COLLECTOR["engine"],
)
"""Metrics that a program without lost time, collectives, steps and requests need not have; nor
a machine without swap, limits, connections and the like.
"""


def of_scrape(scrape: Scrape, kind: Kind, **labels: str) -> Series:
    """The catalogue's series of one kind that have the labels."""
    suffixes = ("_bucket", "_sum", "_count") if kind is Kind.HISTOGRAM else ("",)
    still = (metric for metric in METRICS if metric.kind is kind and metric not in GOES_ON)
    names = {metric.name + suffix for metric in still for suffix in suffixes}
    return {
        (sample.name, frozenset((name, _number(name, value)) for name, value in sample.labels.items())): sample.value
        for sample in scrape.samples
        if sample.name in names and labels.items() <= sample.labels.items()
    }


def of_points(points: Iterable[Received], kind: Kind, **labels: str) -> Series:
    """The series of points, one point each."""
    found: Series = {}
    for point in points:
        metric = BY_OTEL_NAME[point.name]
        if metric.kind is kind and metric not in GOES_ON and labels.items() <= point.attributes.items():
            for name, own, value in _lines(metric, point.value):
                key = name, frozenset({**point.attributes, **own}.items())
                assert key not in found, f"pushed twice: {key}"
                found[key] = value
    return found


def _lines(metric: Metric, value: int | float | HistogramValue) -> Iterator[tuple[str, Mapping[str, str], float]]:
    if not isinstance(value, HistogramValue):
        yield metric.name, {}, value
        return
    assert value.sum is not None
    yield f"{metric.name}_sum", {}, value.sum
    yield f"{metric.name}_count", {}, value.count
    for edge in (*(2.0**exponent for exponent in CLASSIC_EXPONENTS), math.inf):
        yield f"{metric.name}_bucket", {"le": repr(edge)}, value.cumulative(edge)


def _number(label: str, value: str) -> str:
    """Edges have one spelling: 1 and 1.0 are the same."""
    return repr(float(value)) if label == "le" else value


def latest(points: Iterable[Received]) -> list[Received]:
    """The newest point of each series."""
    found: dict[Any, Received] = {}
    for point in points:
        key = point.name, frozenset(point.attributes.items())
        if key not in found or found[key].time_unix_ns < point.time_unix_ns:
            found[key] = point
    return list(found.values())
