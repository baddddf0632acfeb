"""Draws a board as SVG, for the documents: an approximation of what Grafana shows.

In: a Board, a Prometheus server with data. Out: SVG. Places, titles, queries, units and the colours of severities are those of
the board.
"""

from __future__ import annotations

import itertools
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import NamedTuple

from dashboards import data
from dashboards.boards import Board
from dashboards.data import Bucket, Series, Span
from dashboards.panels import COLUMNS, SEVERITIES, Json, Panel, Query

COLUMN, LINE = 50, 30
"""Pixels of Grafana's grid."""
GAP, PADDING, HEADING = 6, 10, 26
COLOURS = (
    *("#5794f2", "#73bf69", "#ff9830", "#f2495c", "#b877d9", "#fade2a", "#8ab8ff", "#37872d", "#fa6400", "#c4162a"),
    *("#7c2ea3", "#e0b400", "#1f60c4", "#96d98d", "#ffb357", "#ff7383", "#ca95e5", "#a352cc", "#19730e", "#c0d8ff"),
)
TEXT, FAINT, BORDER, GROUND, PAPER = "#24292e", "#6e7681", "#d8dee4", "#f4f5f5", "#ffffff"
_LEVELS = dict(zip(SEVERITIES, ("#e8eaed", "#73bf69", "#f2cc0c", "#ff9830", "#e02f44"), strict=True))
_FONT = "font-family='Inter, Helvetica, Arial, sans-serif'"
_FACTORS = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
_SMALL_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


class Box(NamedTuple):
    """Pixels."""

    x: float
    y: float
    width: float
    height: float


def draw(board: Board, url: str, span: Span) -> str:
    """The whole board, with only the headings of collapsed rows. Raises OSError."""
    document = board.document()
    shown = iter([panel for row in board.rows if not row.is_collapsed for panel in row.panels])
    boxes = [(one, _box(one)) for one in document["panels"]]
    height = max(box.y + box.height for _, box in boxes) + 12
    parts = [f"<text x='12' y='28' font-size='18' font-weight='600' fill='{TEXT}'>{escape(board.title)}</text>"]
    note = f"drawn from measured data, {time.strftime('%Y-%m-%d', time.gmtime(span.end))}"
    parts.append(_text(COLUMNS * COLUMN - 12, 28, note, size=12, fill=FAINT, anchor="end"))
    for one, box in boxes:
        if one["type"] == "row":
            title, fill = (f"▸ {one['title']}", FAINT) if one["collapsed"] else (one["title"], TEXT)
            parts.append(_text(box.x + 8, box.y + 20, title, size=14, weight=600, fill=fill))
            continue
        parts.append(_panel(next(shown), box, url, span))
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {COLUMNS * COLUMN} {height:g}' {_FONT}>"
        f"<rect width='100%' height='100%' fill='{GROUND}'/>{''.join(parts)}</svg>\n"
    )


def _box(panel: Json) -> Box:
    at = panel["gridPos"]
    return Box(at["x"] * COLUMN + GAP / 2, at["y"] * LINE + 42, at["w"] * COLUMN - GAP, at["h"] * LINE - GAP)


def _panel(panel: Panel, box: Box, url: str, span: Span) -> str:
    inner = Box(
        box.x + PADDING,
        box.y + HEADING,
        box.width - 2 * PADDING,
        box.height - HEADING - PADDING,
    )
    content = _DRAWN[panel.kind](panel, inner, url, span)
    frame = f"<rect x='{box.x}' y='{box.y}' width='{box.width}' height='{box.height}' rx='3' fill='{PAPER}' stroke='{BORDER}'/>"
    return frame + _text(box.x + PADDING, box.y + 18, panel.title, size=13, weight=600) + content


# ---- single values


def _stat(panel: Panel, box: Box, url: str, span: Span) -> str:
    found = data.over(url, panel.queries[0], span)
    points = [point for series in found[:1] for point in series.points]
    if not points:
        return _nothing(panel, box)
    value = points[-1][1]
    colour = _threshold(panel, value)
    top = max((value for _, value in points), default=0.0) or 1.0
    spark = _path(
        [(when, value) for when, value in points], span, (0.0, top), Box(box.x, box.y + 34, box.width, box.height - 34)
    )
    line = f"<path d='{spark}' fill='none' stroke='{colour}' stroke-opacity='.35' stroke-width='1.5'/>"
    shown = SEVERITIES[int(value)] if "mappings" in panel.defaults else _value(value, panel.unit)
    size = _fitting(shown, box.width, 28)
    return line + _text(box.x + box.width / 2, box.y + 40, shown, size=size, weight=600, fill=colour, anchor="middle")


def _nothing(panel: Panel, box: Box) -> str:
    """The panel's text instead of no data."""
    middle = (box.x + box.width / 2, box.y + box.height / 2)
    said = str(panel.defaults["noValue"])
    return _text(*middle, said, size=_fitting(said, box.width, 14), fill=FAINT, anchor="middle")


def _fitting(text: str, width: float, most: int) -> int:
    """The size of letters at which a text is no wider than this."""
    return max(min(most, int(width / (0.65 * max(len(text), 1)))), 7)


def _threshold(panel: Panel, value: float) -> str:
    steps = panel.defaults["thresholds"]["steps"]
    reached = [step["color"] for step in steps if step["value"] is None or value >= step["value"]]
    return {"text": TEXT, "green": "#37872d", "yellow": "#c8a200", "orange": "#e36f00", "red": "#c4162a"}[reached[-1]]


def _bars(panel: Panel, box: Box, url: str, span: Span) -> str:
    found = data.at_the_end(url, panel.queries[0], span)
    if not found:
        return _nothing(panel, box)
    room = int(box.height // 24)
    top = max((series.last for series in found), default=0.0) or 1.0
    parts = []
    for place, series in enumerate(found[:room]):
        y = box.y + place * 24
        width = (box.width - 260) * max(series.last, 0.0) / top
        parts.append(_text(box.x, y + 15, _cut(_legend(panel.queries[0], series), 28), size=12))
        parts.append(
            f"<rect x='{box.x + 190}' y='{y + 3}' width='{max(width, 1):.1f}' height='16' fill='{COLOURS[2]}'/>"
        )
        parts.append(_text(box.x + box.width, y + 15, _value(series.last, panel.unit), size=12, anchor="end"))
    return "".join(parts)


# ---- time series


def _graph(panel: Panel, box: Box, url: str, span: Span) -> str:
    named = [(_legend(query, series), series) for query in panel.queries for series in data.over(url, query, span)]
    named.sort(key=lambda one: -sum(value for _, value in one[1].points))
    is_stacked = panel.defaults["custom"]["stacking"]["mode"] == "normal"
    legend_lines = min(len(named), 6)
    plot = Box(box.x + 48, box.y + 4, box.width - 52, box.height - 26 - 15 * ((legend_lines + 1) // 2))
    bands = list(_bands([series for _, series in named], span)) if is_stacked else []
    heights = (
        [value for band in bands for _, _, value in band]
        if is_stacked
        else [value for _, series in named for _, value in series.points if math.isfinite(value)]
    )
    top = _round_up(max([*heights, panel.defaults.get("max", 0.0)], default=0.0))
    parts = [_axes(plot, top, panel.unit, span)]
    if not named:
        parts.append(_nothing(panel, plot))
    for place, (_, series) in enumerate(named):
        colour = COLOURS[place % len(COLOURS)]
        if is_stacked:
            parts.append(_band(bands[place], span, top, plot, colour))
        else:
            path = _path(series.points, span, (0.0, top), plot)
            parts.append(f"<path d='{path}' fill='none' stroke='{colour}' stroke-width='1.5'/>")
    parts += _legends(named[:6], Box(box.x, plot.y + plot.height + 22, box.width, 0), panel.unit)
    return "".join(parts)


def _bands(series: Sequence[Series], span: Span) -> Iterator[list[tuple[float, float, float]]]:
    """(when, from, to) of each series on top of those before it."""
    steps = [span.begin + place * span.step for place in range(round((span.end - span.begin) / span.step) + 1)]
    below = [0.0] * len(steps)
    for one in series:
        known = {round((when - span.begin) / span.step): value for when, value in one.points if math.isfinite(value)}
        above = [low + known.get(place, 0.0) for place, low in enumerate(below)]
        yield list(zip(steps, below, above, strict=True))
        below = above


def _band(band: list[tuple[float, float, float]], span: Span, top: float, plot: Box, colour: str) -> str:
    over = [_at(when, high, span, (0.0, top), plot) for when, _, high in band]
    under = [_at(when, low, span, (0.0, top), plot) for when, low, _ in reversed(band)]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in [*over, *under])
    return f"<polygon points='{points}' fill='{colour}' fill-opacity='.75'/>"


def _axes(plot: Box, top: float, unit: str, span: Span) -> str:
    parts = []
    unit = "short" if unit.startswith("suffix:") else unit  # the legend has the word
    for part in (0.0, 0.5, 1.0):
        y = plot.y + plot.height * (1 - part)
        parts.append(f"<line x1='{plot.x}' x2='{plot.x + plot.width}' y1='{y:.1f}' y2='{y:.1f}' stroke='{BORDER}'/>")
        parts.append(_text(plot.x - 6, y + 4, _value(top * part, unit), size=10, fill=FAINT, anchor="end"))
    return "".join(parts) + _times(plot, span)


def _times(plot: Box, span: Span) -> str:
    parts = []
    for part in (0.0, 0.25, 0.5, 0.75, 1.0):
        when = time.strftime("%H:%M:%S", time.gmtime(span.begin + part * (span.end - span.begin)))
        anchor = {0.0: "start", 1.0: "end"}.get(part, "middle")
        place = (plot.x + part * plot.width, plot.y + plot.height + 12)
        parts.append(_text(*place, when, size=10, fill=FAINT, anchor=anchor))
    return "".join(parts)


def _legends(named: Iterable[tuple[str, Series]], box: Box, unit: str) -> Iterator[str]:
    for place, (name, series) in enumerate(named):
        x, y = box.x + (place % 2) * box.width / 2, box.y + (place // 2) * 15
        values = [value for _, value in series.points if math.isfinite(value)]
        mean = _value(sum(values) / len(values), unit) if values else ""
        yield f"<rect x='{x}' y='{y}' width='12' height='4' fill='{COLOURS[place % len(COLOURS)]}'/>"
        yield _text(x + 18, y + 6, _cut(name, 44), size=11)
        yield _text(x + box.width / 2 - 10, y + 6, mean, size=11, fill=FAINT, anchor="end")


def _severities(panel: Panel, box: Box, url: str, span: Span) -> str:
    found = data.over(url, panel.queries[0], span)
    if not found:
        return _nothing(panel, box)
    lane = min((box.height - 20) / max(len(found), 1), 34)
    plot = Box(box.x + 300, box.y, box.width - 304, box.height - 18)
    width = plot.width * span.step / (span.end - span.begin) + 0.5
    parts = []
    for place, series in enumerate(found):
        y = plot.y + place * lane
        parts.append(_text(box.x, y + lane / 2 + 4, _cut(_legend(panel.queries[0], series), 48), size=12))
        for when, value in series.points:
            x, _ = _at(when, 0, span, (0.0, 1.0), plot)
            colour = _LEVELS[SEVERITIES[int(value)]]
            parts.append(
                f"<rect x='{x:.1f}' y='{y + 3:.1f}' width='{width:.1f}' height='{lane - 6:.1f}' fill='{colour}'/>"
            )
    return "".join(parts) + _times(plot, span)


def _heatmap(panel: Panel, box: Box, url: str, span: Span) -> str:
    plot = Box(box.x + 48, box.y + 4, box.width - 52, box.height - 22)
    cells = list(_cells(data.over(url, panel.queries[0], span)))
    if not cells:
        return _nothing(panel, plot)
    low = math.log(min(bucket.low or bucket.high / 1.09 for _, bucket in cells))
    high = math.log(max(bucket.high for _, bucket in cells))
    most = max(bucket.times for _, bucket in cells)
    width = plot.width * span.step / (span.end - span.begin) + 0.5
    parts = []
    for when, bucket in cells:
        x, top = _at(when, math.log(bucket.high), span, (low, high), plot)
        _, bottom = _at(when, math.log(bucket.low or bucket.high / 1.09), span, (low, high), plot)
        shade = 0.12 + 0.88 * math.sqrt(bucket.times / most)
        parts.append(
            f"<rect x='{x:.1f}' y='{top:.1f}' width='{width:.1f}' height='{bottom - top:.1f}'"
            f" fill='#d9480f' fill-opacity='{shade:.2f}'/>"
        )
    for part in (0.0, 0.5, 1.0):
        label = _value(math.exp(low + part * (high - low)), panel.unit)
        parts.append(_text(plot.x - 6, plot.y + plot.height * (1 - part) + 4, label, size=10, fill=FAINT, anchor="end"))
    return "".join(parts) + _times(plot, span)


def _cells(found: Sequence[Series]) -> Iterator[tuple[float, Bucket]]:
    """Cells of native histograms."""
    for series in found:
        for when, buckets in series.histograms:
            yield from ((when, bucket) for bucket in buckets if bucket.times > 0)


# ---- tables


def _table(panel: Panel, box: Box, url: str, span: Span) -> str:
    sources = next(one for one in panel.transformations if one["id"] == "organize")["options"]["renameByName"]
    units = {one["matcher"]["options"]: {p["id"]: p["value"] for p in one["properties"]} for one in panel.overrides}
    rows = _joined(panel.queries, url, span)
    if not rows:
        return _nothing(panel, box)
    key, is_descending = panel.options["sortBy"][0]["displayName"], panel.options["sortBy"][0]["desc"]
    source = next(source for source, title in sources.items() if title == key)
    rows.sort(key=lambda row: _sortable(row.get(source, "")), reverse=is_descending)
    widths = _widths(sources.values(), units, box.width)
    lefts = [box.x + left for left in itertools.accumulate(widths, initial=0.0)]
    parts = [
        _text(left, box.y + 14, _cut(title, int(width // 7)), size=11, weight=600, fill=FAINT)
        for left, width, title in zip(lefts, widths, sources.values(), strict=False)
    ]
    for line, row in enumerate(rows[: int((box.height - 22) // 22)]):
        y = box.y + 22 + line * 22
        parts.append(f"<line x1='{box.x}' x2='{box.x + box.width}' y1='{y}' y2='{y}' stroke='{BORDER}'/>")
        for place, (source, title) in enumerate(sources.items()):
            cell = row.get(source, "")
            properties = units.get(title, {})
            x, width = lefts[place], widths[place]
            if "mappings" in properties and isinstance(cell, float):
                name = SEVERITIES[int(cell)]
                parts.append(f"<rect x='{x}' y='{y + 2}' width='{width - 8:.1f}' height='18' fill='{_LEVELS[name]}'/>")
                cell = name
            text = _value(cell, properties.get("unit", "short")) if isinstance(cell, float) else cell
            parts.append(_text(x + 3, y + 15, _cut(text, int(width // 7)), size=12))
    return "".join(parts)


def _widths(titles: Iterable[str], properties: Mapping[str, Json], width: float) -> list[float]:
    """Widths of columns: those that are fixed, and equal shares of the rest."""
    fixed = [float(properties.get(title, {}).get("custom.width", 0)) for title in titles]
    share = (width - sum(fixed)) / max(fixed.count(0.0), 1)
    return [one or share for one in fixed]


def _joined(queries: Sequence[Query], url: str, span: Span) -> list[dict[str, str | float]]:
    """Rows of all queries, joined by labels."""
    rows: dict[frozenset[tuple[str, str]], dict[str, str | float]] = {}
    for place, query in enumerate(queries):
        name = "Value" if len(queries) == 1 else f"Value #{chr(ord('A') + place)}"
        for series in data.at_the_end(url, query, span):
            labels = {key: value for key, value in series.labels.items() if key != "__name__"}
            rows.setdefault(frozenset(labels.items()), dict(labels))[name] = series.last
    return list(rows.values())


def _sortable(cell: str | float) -> tuple[float, str]:
    if isinstance(cell, float):
        return cell, ""
    return (float(cell), "") if cell.isdigit() else (math.inf, cell)


# ---- text and numbers


def _legend(query: Query, series: Series) -> str:
    """The legend with {{label}} replaced; an empty label gives its name, as in Grafana."""
    text = re.sub(r"{{(\w+)}}", lambda found: series.labels.get(found[1]) or found[1], query.legend)
    return text or ", ".join(value for value in series.labels.values() if value) or "all"


def _value(value: float, unit: str) -> str:
    """Formatted as in Grafana: 0.42 of percentunit is 42 %."""
    if not math.isfinite(value):
        return "none"
    if unit == "percentunit":
        return f"{value * 100:.3g} %"
    if unit == "currencyUSD":
        return f"${value:.2f}"
    if unit.startswith("suffix:"):
        return f"{value:.3g} {unit.removeprefix('suffix:')}"
    if unit == "s":
        factor, name = next(((f, n) for f, n in _SMALL_SECONDS if abs(value) >= f), (1.0, "s"))
        return f"{value / factor:.3g} {name}"
    suffix = {"bytes": "B", "Bps": "B/s", "ops": "/s", "cps": "/s", "pps": "/s"}.get(unit, "")
    factor, name = next(((f, n) for f, n in _FACTORS if abs(value) >= f), (1.0, ""))
    return f"{value / factor:.3g} {name}{suffix}".strip()


def _round_up(value: float) -> float:
    """1, 2 or 5 times a power of ten."""
    if value <= 0 or not math.isfinite(value):
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1.0, 2.0, 5.0, 10.0) if step * power >= value)


def _cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else f"{text[: characters - 1]}…"


def _at(when: float, value: float, span: Span, scale: tuple[float, float], plot: Box) -> tuple[float, float]:
    low, high = scale
    x = plot.x + plot.width * (when - span.begin) / (span.end - span.begin)
    return x, plot.y + plot.height * (1 - (value - low) / ((high - low) or 1.0))


def _path(points: Sequence[tuple[float, float]], span: Span, scale: tuple[float, float], plot: Box) -> str:
    """The line has gaps where points are missing."""
    parts = []
    before = -math.inf
    for when, value in points:
        if not math.isfinite(value):
            continue
        x, y = _at(when, value, span, scale, plot)
        parts.append(f"{'L' if when - before <= 2 * span.step else 'M'}{x:.1f} {y:.1f}")
        before = when
    return "".join(parts)


def _text(
    x: float, y: float, text: str, *, size: int, weight: int = 400, fill: str = TEXT, anchor: str = "start"
) -> str:
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' font-size='{size}' font-weight='{weight}' fill='{fill}' text-anchor='{anchor}'>"
        f"{escape(text)}</text>"
    )


_DRAWN: dict[str, Callable[[Panel, Box, str, Span], str]] = {
    "stat": _stat,
    "timeseries": _graph,
    "bargauge": _bars,
    "state-timeline": _severities,
    "heatmap": _heatmap,
    "table": _table,
}
