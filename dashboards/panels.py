"""Panels of a Grafana board. What all panels have in common is decided here.

In: titles, queries, units. Out: JSON for Grafana 10 and later (schema version 39).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

NO_DATA = "no data in this time range"
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
COLUMNS = 24
"""Columns of Grafana's grid."""

GPUS, CPUS, THREADS, TASKS = (f"suffix:{one}" for one in ("GPUs", "CPUs", "threads", "tasks"))
"""Units of Grafana that print the word after the number."""

SEVERITIES = ("none", "low", "medium", "high", "critical")
SEVERITY_COLOURS = ("transparent", "green", "yellow", "orange", "red")


@dataclass(frozen=True)
class Query:
    """expr: PromQL. legend: the name of a series, with {{label}} in it."""

    expr: str
    legend: str = ""


@dataclass(frozen=True)
class Panel:
    """One panel. width: in COLUMNS. height: in rows of 30 pixels. options, defaults: specific to its kind."""

    kind: str
    title: str
    description: str
    queries: tuple[Query, ...]
    unit: str
    width: int
    height: int
    options: Json
    defaults: Json = field(default_factory=dict)
    overrides: tuple[Json, ...] = ()
    transformations: tuple[Json, ...] = ()
    is_instant: bool = False
    form: str = "time_series"

    def document(self, number: int, x: int, y: int) -> Json:
        """The JSON of the panel at this position of the grid."""
        found: Json = {
            "id": number,
            "type": self.kind,
            "title": self.title,
            "description": self.description,
            "datasource": DATASOURCE,
            "gridPos": {"x": x, "y": y, "w": self.width, "h": self.height},
            "fieldConfig": {"defaults": {"unit": self.unit, **self.defaults}, "overrides": list(self.overrides)},
            "options": self.options,
            "targets": [self._target(place, query) for place, query in enumerate(self.queries)],
        }
        if self.transformations:
            found["transformations"] = list(self.transformations)
        return found

    def _target(self, place: int, query: Query) -> Json:
        return {
            "refId": chr(ord("A") + place),
            "datasource": DATASOURCE,
            "editorMode": "code",
            "expr": query.expr,
            "legendFormat": query.legend or "__auto",
            "format": self.form,
            "instant": self.is_instant,
            "range": not self.is_instant,
        }


def _reduced() -> Json:
    return {"calcs": ["lastNotNull"], "fields": "", "values": False}


def _steps(*steps: tuple[float | None, str]) -> Json:
    """Thresholds: the colour from a value on; None for the first."""
    return {"mode": "absolute", "steps": [{"value": value, "color": colour} for value, colour in steps]}


def _severity() -> Json:
    """Names and colours of the severities 0 to 4."""
    names = {
        str(level): {"text": name, "color": SEVERITY_COLOURS[level], "index": level}
        for level, name in enumerate(SEVERITIES)
    }
    return {"mappings": [{"type": "value", "options": names}], "noValue": "none"}


def stat(
    title: str,
    description: str,
    expr: str,
    unit: str = "short",
    *,
    width: int = 4,
    decimals: int | None = None,
    thresholds: Sequence[tuple[float | None, str]] = ((None, "text"),),
    is_severity: bool = False,
    is_instant: bool = False,
    no_value: str = "none",
) -> Panel:
    """One number, with its history in the background.

    thresholds: colours from a value on. is_severity: shown as a word. is_instant: without the history, for queries that read all
    of the time range at each point. no_value: shown instead of no data.
    """
    options = {
        "reduceOptions": _reduced(),
        "colorMode": "value",
        "graphMode": "area",
        "justifyMode": "auto",
        "orientation": "auto",
        "percentChangeColorMode": "standard",
        "showPercentChange": False,
        "textMode": "auto",
        "wideLayout": True,
    }
    defaults: Json = {"thresholds": _steps(*thresholds), "color": {"mode": "thresholds"}, "noValue": no_value}
    if decimals is not None:
        defaults["decimals"] = decimals
    if is_severity:
        defaults |= _severity()
    return Panel(
        *("stat", title, description, (Query(expr),), unit, width, 4, options, defaults), is_instant=is_instant
    )


def graph(
    title: str,
    description: str,
    *queries: Query,
    unit: str = "short",
    is_stacked: bool = False,
    width: int = 12,
    height: int = 9,
    max_value: float | None = None,
    limit: float | None = None,
    no_value: str = NO_DATA,
) -> Panel:
    """Time series. is_stacked: the series are parts of a whole, which is the upper edge.

    limit: from which an alert fires, a dashed line. no_value: shown instead of no data.
    """
    options = {
        "legend": {"displayMode": "table", "placement": "bottom", "showLegend": True, "calcs": ["mean", "max"]},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    custom = {
        "drawStyle": "line",
        "lineInterpolation": "linear",
        "lineWidth": 1,
        "fillOpacity": 70 if is_stacked else 8,
        "showPoints": "never",
        "spanNulls": False,
        "stacking": {"mode": "normal" if is_stacked else "none", "group": "A"},
    }
    defaults: Json = {"custom": custom, "min": 0, "color": {"mode": "palette-classic-by-name"}}
    defaults["noValue"] = no_value
    if max_value is not None:
        defaults["max"] = max_value
    if limit is not None:
        custom["thresholdsStyle"] = {"mode": "dashed"}
        defaults["thresholds"] = _steps((None, "transparent"), (limit, "red"))
    return Panel("timeseries", title, description, queries, unit, width, height, options, defaults)


@dataclass(frozen=True)
class Column:
    """Column of a table. source: the label, or `Value #A` for the first query. is_severity: shown as a word.

    width: in pixels, 0 for a share of what is left. link_title: what the link of its cells leads to.
    """

    source: str
    title: str
    unit: str = ""
    is_number: bool = False
    is_severity: bool = False
    link: str = ""
    link_title: str = ""
    width: int = 0


def table(
    title: str,
    description: str,
    queries: Sequence[Query],
    columns: Sequence[Column],
    *,
    sort: tuple[str, bool],
    width: int = 24,
    height: int = 9,
    no_value: str = NO_DATA,
) -> Panel:
    """A row for each combination of labels, joined over the queries. sort: a column's title, and whether it is descending."""
    options = {
        "showHeader": True,
        "cellHeight": "sm",
        "frameIndex": 0,
        "sortBy": [{"displayName": sort[0], "desc": sort[1]}],
    }
    named = [column.source for column in columns]
    numbers = [{"targetField": one.source, "destinationType": "number"} for one in columns if one.is_number]
    transformations: list[Json] = [
        {"id": "merge", "options": {}},
        {"id": "filterFieldsByName", "options": {"include": {"names": named}}},
    ]
    if numbers:
        transformations.append({"id": "convertFieldType", "options": {"fields": {}, "conversions": numbers}})
    transformations.append(
        {
            "id": "organize",
            "options": {
                "excludeByName": {},
                "indexByName": {one.source: place for place, one in enumerate(columns)},
                "renameByName": {one.source: one.title for one in columns},
            },
        }
    )
    custom = {"align": "auto", "cellOptions": {"type": "auto"}, "inspect": False, "filterable": True}
    defaults = {"custom": custom, "noValue": no_value}
    return Panel(
        *("table", title, description, tuple(queries), "none", width, height, options, defaults),
        overrides=tuple(
            _override(column) for column in columns if column.unit or column.is_severity or column.link or column.width
        ),
        transformations=tuple(transformations),
        is_instant=True,
        form="table",
    )


def _override(column: Column) -> Json:
    properties: list[Json] = []
    if column.unit:
        properties.append({"id": "unit", "value": column.unit})
    if column.is_severity:
        properties.append({"id": "mappings", "value": _severity()["mappings"]})
        properties.append({"id": "custom.cellOptions", "value": {"type": "color-background", "mode": "basic"}})
    if column.link:
        link = {"title": column.link_title, "url": column.link}
        properties.append({"id": "links", "value": [link]})
    if column.width:
        properties.append({"id": "custom.width", "value": column.width})
    return {"matcher": {"id": "byName", "options": column.title}, "properties": properties}


def heatmap(title: str, description: str, expr: str, *, unit: str = "s", width: int = 12, no_value: str) -> Panel:
    """Durations over time, from a native histogram: the edges of a classic one are too far apart to show a change."""
    options = {
        "calculate": False,
        "cellGap": 1,
        "cellValues": {},
        "color": {
            "mode": "scheme",
            "scheme": "Oranges",
            "scale": "exponential",
            "exponent": 0.5,
            "fill": "dark-orange",
            "reverse": False,
            "steps": 64,
        },
        "exemplars": {"color": "rgba(255,0,255,0.7)"},
        "filterValues": {"le": 1e-9},
        "legend": {"show": True},
        "rowsFrame": {"layout": "auto"},
        "showValue": "never",
        "tooltip": {"mode": "single", "showColorScale": False, "yHistogram": True},
        "yAxis": {"axisPlacement": "left", "reverse": False, "unit": unit},
    }
    return Panel(
        *("heatmap", title, description, (Query(expr),), unit, width, 9, options, {"noValue": no_value}),
        form="heatmap",
    )


def bars(
    title: str,
    description: str,
    query: Query,
    unit: str,
    *,
    width: int = 12,
    height: int = 9,
    no_value: str = NO_DATA,
) -> Panel:
    """The present values side by side, largest first as the query sorts them."""
    options = {
        "displayMode": "gradient",
        "orientation": "horizontal",
        "reduceOptions": _reduced(),
        "showUnfilled": True,
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": False, "calcs": []},
        "valueMode": "color",
        "namePlacement": "auto",
        "sizing": "auto",
        "minVizHeight": 16,
        "minVizWidth": 8,
        "maxVizHeight": 300,
    }
    defaults = {"color": {"mode": "continuous-GrYlRd"}, "min": 0, "noValue": no_value}
    return Panel(
        *("bargauge", title, description, (query,), unit, width, height, options, defaults),
        is_instant=True,
    )


def severities(title: str, description: str, query: Query, *, width: int = 24, height: int = 9) -> Panel:
    """Severity over time: a lane for each series."""
    options = {
        "alignValue": "left",
        "mergeValues": True,
        "rowHeight": 0.85,
        "showValue": "auto",
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": False, "calcs": []},
        "tooltip": {"mode": "single", "sort": "none"},
    }
    defaults = {
        "custom": {"fillOpacity": 80, "lineWidth": 0},
        "color": {"mode": "thresholds"},
        "thresholds": _steps((None, "transparent"), (1, "green"), (2, "yellow"), (3, "orange"), (4, "red")),
        **_severity(),
        "noValue": "no chain was open",
    }
    return Panel("state-timeline", title, description, (query,), "none", width, height, options, defaults)
