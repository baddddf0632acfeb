"""A board: its question, its variables, its rows of panels, and links to the other boards.

In: Rows. Out: the JSON document of a dashboard, which Grafana can be provisioned with.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from dashboards.panels import COLUMNS, DATASOURCE, Json, Panel

TAG = "gpu-stall-exporter"
SCHEMA_VERSION = 39

_EXPORTER_MATCHERS = 'job=~"$job", instance=~"$instance", cluster=~"$cluster"'
_WORKLOAD_MATCHERS = f'{_EXPORTER_MATCHERS}, node=~"$node", namespace=~"$namespace", pod=~"$pod", rank=~"$rank"'

_NODE_MATCHERS = f'{_EXPORTER_MATCHERS}, node=~"$node"'

_ANY = ".*"  # matches series without the label as well
_SOME = ".+"
_NUMERICALLY = 3  # how the values of a variable are sorted, upwards
_ALPHABETICALLY = 1


def exporter_series(metric: str, *matchers: str) -> str:
    """Selector of a metric about the exporter, for the chosen instances."""
    return f"{metric}{{{', '.join((_EXPORTER_MATCHERS, *matchers))}}}"


def workload_series(metric: str, *matchers: str) -> str:
    """Selector of a metric about traced processes, for the chosen ones."""
    return f"{metric}{{{', '.join((_WORKLOAD_MATCHERS, *matchers))}}}"


def node_series(metric: str, *matchers: str) -> str:
    """Selector of a metric about containers, disks, GPUs or the machine, which has no rank, for the chosen nodes."""
    return f"{metric}{{{', '.join((_NODE_MATCHERS, *matchers))}}}"


def or_zero(expression: str, whenever: str) -> str:
    """0 instead of no data if `whenever` has data: a counter of events that never happened has no series."""
    return f"{expression} or 0 * count({whenever})"


def or_none(expression: str, whenever: str, *labels: str) -> str:
    """0 with labels `none` instead of no data if `whenever` has data: for rare events, whose labels are unknown before."""
    nothing = f"0 * count({whenever})"
    for label in labels:
        nothing = f'label_replace({nothing}, "{label}", "none", "", "")'
    return f"{expression} or {nothing}"


@dataclass(frozen=True)
class Row:
    """Panels under one heading. is_collapsed: queried only after it is opened."""

    title: str
    panels: tuple[Panel, ...]
    is_collapsed: bool = False


@dataclass(frozen=True)
class Board:
    """uid: never changes, so that links stay valid. question: what the board answers. is_of_workloads: it has variables for node,
    pod and rank.
    """

    uid: str
    title: str
    question: str
    rows: tuple[Row, ...]
    is_of_workloads: bool = True
    since: str = "now-1h"

    def document(self) -> Json:
        """The JSON document for Grafana."""
        return {
            "uid": self.uid,
            "title": self.title,
            "description": self.question,
            "tags": [TAG],
            "schemaVersion": SCHEMA_VERSION,
            "version": 1,
            "editable": False,
            "graphTooltip": 1,
            "refresh": "30s",
            "time": {"from": self.since, "to": "now"},
            "timezone": "browser",
            "links": [_LINK],
            "templating": {"list": list(self._variables())},
            "annotations": {"list": [_CHAINS] if self.is_of_workloads else []},
            "panels": list(self._panels()),
        }

    def panels(self) -> Iterator[Panel]:
        """The panels of all rows."""
        return itertools.chain.from_iterable(row.panels for row in self.rows)

    def _panels(self) -> Iterator[Json]:
        numbers = itertools.count(1)
        y = 0
        for row in self.rows:
            heading: Json = {
                "id": next(numbers),
                "type": "row",
                "title": row.title,
                "collapsed": row.is_collapsed,
                "gridPos": {"x": 0, "y": y, "w": COLUMNS, "h": 1},
                "panels": [],
            }
            y += 1
            placed, end = _placed(row.panels, y, numbers)
            if row.is_collapsed:  # takes only the line of its heading
                heading["panels"] = placed
            yield heading
            if not row.is_collapsed:
                yield from placed
                y = end

    def _variables(self) -> Iterator[Json]:
        yield {
            "name": "datasource",
            "label": "Data source",
            "type": "datasource",
            "query": "prometheus",
            "current": {"selected": False, "text": "default", "value": "default"},
            "hide": 0,
            "includeAll": False,
            "multi": False,
            "options": [],
            "refresh": 1,
            "regex": "",
            "skipUrlSync": False,
        }
        exporters = "gpustall_exporter_build_info"
        yield _variable("job", "Job", exporters, _SOME)
        yield _variable("instance", "Instance", f'{exporters}{{job=~"$job"}}', _SOME)
        yield _variable("cluster", "Cluster", f'{exporters}{{job=~"$job", instance=~"$instance"}}', _ANY)
        if not self.is_of_workloads:
            return
        known = _EXPORTER_MATCHERS
        for name in ("node", "namespace", "pod", "rank"):
            order = _NUMERICALLY if name == "rank" else _ALPHABETICALLY
            yield _variable(name, name.capitalize(), f"gpustall_workload_info{{{known}}}", _ANY, order)
            known += f', {name}=~"${name}"'


def _placed(panels: tuple[Panel, ...], y: int, numbers: Iterator[int]) -> tuple[list[Json], int]:
    """Panels from left to right, and below if a line is full; and the line at which the next row begins."""
    placed = []
    x = height = 0
    for panel in panels:
        if x + panel.width > COLUMNS:
            x, y, height = 0, y + height, 0
        placed.append(panel.document(next(numbers), x, y))
        x, height = x + panel.width, max(height, panel.height)
    return placed, y + height


def _variable(name: str, label: str, metric: str, all_value: str, order: int = _ALPHABETICALLY) -> Json:
    """A variable with the values of a label of a metric; all are selected by default."""
    query = f"label_values({metric}, {name})"
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": query, "refId": f"Variable{name.capitalize()}"},
        "allValue": all_value,
        "includeAll": True,
        "multi": True,
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        "hide": 0,
        "options": [],
        "refresh": 2,  # when the time range changes: jobs come and go
        "regex": "",
        "skipUrlSync": False,
        "sort": order,
    }


_LINK = {
    "type": "dashboards",
    "title": "GPU stalls",
    "tags": [TAG],
    "asDropdown": True,
    "includeVars": True,
    "keepTime": True,
    "targetBlank": False,
    "icon": "external link",
    "tooltip": "",
    "url": "",
}
_CHAINS = {
    "name": "Causal chains",
    "datasource": DATASOURCE,
    "enable": True,
    "hide": False,
    "iconColor": "red",
    "expr": f"{workload_series('gpustall_chain_active')} == 1",
    "step": "15s",
    "titleFormat": "{{cause}}",
    "textFormat": "rank {{rank}} on {{node}}",
    "tagKeys": "cause,effect",
    "useValueForTime": "",
}
