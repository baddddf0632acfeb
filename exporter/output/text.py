"""Renders a Snapshot in the text formats of Prometheus: 0.0.4 and OpenMetrics 1.0.

Written by hand because it is the hot path of a scrape: 10,000 samples take 2 ms here and 57 through a prometheus-client
Collector (docs/measurements.md). tests/unit/output/test_text.py reads the result back with prometheus-client's own parsers.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from exporter import units
from exporter.catalog import COMMON_LABELS, Kind, Metric
from exporter.model import Exemplar, Family, Histogram, Identity, Point, Snapshot
from exporter.output.negotiation import Format

_LE = tuple(f"{edge:g}" if edge >= 1 else repr(edge) for edge in units.CLASSIC_EDGES_SECONDS)
_OPENMETRICS_LE = tuple(repr(edge) for edge in units.CLASSIC_EDGES_SECONDS)
_PIECE = 256
_LABELS_MARK = "\0"  # no label value holds it: they are printable


def escape_label(value: str) -> str:
    r"""A label value between quotes. Before: C:\a"b. After: C:\\a\"b (a newline would become \n)."""
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def escape_help(text: str, fmt: Format) -> str:
    r"""A help text; OpenMetrics escapes quotes as well."""
    escaped = text.replace("\\", r"\\").replace("\n", r"\n")
    return escaped.replace('"', r"\"") if fmt is Format.OPENMETRICS else escaped


def render(snapshot: Snapshot, fmt: Format) -> Iterator[str]:
    """The exposition in pieces of at most _PIECE series, without the `# EOF` that ends OpenMetrics."""
    common: dict[Identity | None, str] = {}
    for family in snapshot.families:
        lines = _family(family, fmt, common)
        while piece := "".join(islice(lines, _PIECE)):
            yield piece


def _family(family: Family, fmt: Format, common: dict[Identity | None, str]) -> Iterator[str]:
    metric = family.metric
    yield _head(metric, fmt)
    if metric.kind is Kind.HISTOGRAM:
        with_exemplars = fmt is Format.OPENMETRICS  # the older format would take them for a malformed number
        template = _histogram_template(metric.name, _OPENMETRICS_LE if with_exemplars else _LE)
        for point in family.points:
            yield _histogram(template, _label_pairs(metric, point, common), point, with_exemplars=with_exemplars)
        return
    exemplars = family.exemplars if fmt is Format.OPENMETRICS else {}
    for point in family.points:
        line = f"{metric.name}{{{_label_pairs(metric, point, common)}}} {point.value}\n"
        if exemplars and (exemplar := exemplars.get((point.identity, point.labels))):
            line = f"{line[:-1]} # {_exemplar(exemplar)}\n"
        yield line


def _head(metric: Metric, fmt: Format) -> str:
    """HELP and TYPE. OpenMetrics names a counter's and an info's family without the suffix, and knows the type info."""
    name, kind = metric.name, metric.kind.value
    if fmt is Format.OPENMETRICS:
        name = name.removesuffix("_total") if metric.kind is Kind.COUNTER else name
        name = name.removesuffix("_info") if metric.kind is Kind.INFO else name
    elif metric.kind is Kind.INFO:
        kind = "gauge"
    return f"# HELP {name} {escape_help(metric.help, fmt)}\n# TYPE {name} {kind}\n"


def _label_pairs(metric: Metric, point: Point, common: dict[Identity | None, str]) -> str:
    pairs = common.get(point.identity)
    if pairs is None:
        assert point.identity is not None  # noqa: S101 - the exporter's own metrics are rendered by prometheus-client
        pairs = _pairs(COMMON_LABELS, point.identity.values())
        common[point.identity] = pairs
    if not metric.labels:
        return pairs
    return f"{pairs},{_pairs(metric.labels, point.labels)}"


def _pairs(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    return ",".join(f'{name}="{escape_label(value)}"' for name, value in zip(names, values, strict=True))


def _histogram_template(name: str, edges: tuple[str, ...]) -> str:
    """One %-template for all series of a family; the mark stands where a series' labels go."""
    buckets = "".join(f'{name}_bucket{{{_LABELS_MARK},le="{edge}"}} %d\n' for edge in (*edges, "+Inf"))
    return f"{buckets}{name}_sum{{{_LABELS_MARK}}} %r\n{name}_count{{{_LABELS_MARK}}} %d\n"


def _histogram(template: str, labels: str, point: Point, *, with_exemplars: bool) -> str:
    histogram = point.value
    assert isinstance(histogram, Histogram)  # noqa: S101 - by the kind of the metric
    cumulative = histogram.counts.cumulative()
    text = (template % (*cumulative, histogram.sum_seconds, cumulative[-1])).replace(_LABELS_MARK, labels)
    if with_exemplars and histogram.exemplar:
        lines = text.splitlines(keepends=True)
        bucket = units.classic_bucket(histogram.exemplar.seconds)
        lines[bucket] = f"{lines[bucket][:-1]} # {_exemplar(histogram.exemplar)}\n"
        return "".join(lines)
    return text


def _exemplar(exemplar: Exemplar) -> str:
    """`{pid="4026",tid="4031"} 0.25 1790000000.125`, the time in seconds to the millisecond."""
    pairs = ",".join(f'{name}="{escape_label(value)}"' for name, value in exemplar.labels)
    return f"{{{pairs}}} {exemplar.seconds!r} {exemplar.at_unix_ns / units.NANOSECONDS:.3f}"
