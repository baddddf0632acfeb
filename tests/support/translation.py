"""Translates a push to Prometheus by OpenTelemetry's standard rule: names and units to names, points to samples.

In: points that a receiver has got. Out: a sample's name and labels -> its value, a double as in Prometheus. It does not use the
catalogue.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

from tests.support.exposition import Scrape
from tests.support.otlp import HistogramValue, Received

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]

CLASSIC_EDGES_SECONDS = tuple(2.0**exponent for exponent in (-19, -16, -13, -10, -7, -5, -3, 0))
"""By hand, from docs/metrics.md: the classic buckets that a scrape has."""


_SPELLED = {
    "s": "seconds",
    "By": "bytes",
    "By/s": "bytes_per_second",
    "Hz": "hertz",
    "W": "watts",
    "J": "joules",
    "Cel": "celsius",
}
"""Units of UCUM that are used here -> how the Collector spells them."""


def prometheus_name(otel_name: str, unit: str, kind: str) -> str:
    """The name that an OpenTelemetry Collector gives a metric on its way to Prometheus. kind: gauge, sum or a histogram.

    Dots become underscores, the unit is spelled out unless the name ends with it, an annotation in braces is left out,
    a gauge of unit 1 is a ratio, a sum, which is monotonic here, ends in _total.
    """
    name = otel_name.replace(".", "_")
    spelled = _SPELLED.get(unit, "")
    if unit == "1" and kind == "gauge":
        spelled = "ratio"
    if spelled and not name.endswith(f"_{spelled}"):
        name += f"_{spelled}"
    if kind == "sum" and not name.endswith("_total"):
        name += "_total"
    return name


def of_points(points: Iterable[Received]) -> Samples:
    """The samples of points, one point for each series. A histogram gets the classic buckets of a scrape."""
    found: Samples = {}
    for point in points:
        name = prometheus_name(point.name, point.unit, point.kind)
        for suffix, le, value in _parts(point.value):
            key = _key(name + suffix, point.attributes | le)
            assert key not in found, f"pushed twice: {key}"
            found[key] = float(value)
    return found


def of_scrape(scrape: Scrape) -> Samples:
    """The samples of a scrape."""
    found = {_key(sample.name, sample.labels): float(sample.value) for sample in scrape.samples}
    assert len(found) == len(scrape.samples), "a sample is there twice"
    return found


def _parts(value: int | float | HistogramValue) -> Iterator[tuple[str, dict[str, str], float]]:
    if not isinstance(value, HistogramValue):
        yield "", {}, value
        return
    assert value.sum is not None
    yield "_sum", {}, value.sum
    yield "_count", {}, value.count
    for edge in (*CLASSIC_EDGES_SECONDS, math.inf):
        yield "_bucket", {"le": repr(edge)}, value.cumulative(edge)


def _key(name: str, labels: Mapping[str, str]) -> tuple[str, frozenset[tuple[str, str]]]:
    """Spells edges one way: 1 and 1.0 are the same."""
    return name, frozenset((key, repr(float(text)) if key == "le" else text) for key, text in labels.items())
