"""A board as a whole: its question, its variables, its rows of panels, and where else one may look.

In: Rows. Out: the JSON document of a dashboard, which Grafana can be provisioned with.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from dashboards.panels import COLUMNS, DATASOURCE, Json, Panel

TAG = "gpu-stall-exporter"
SCHEMA_VERSION = 39

_OF_EXPORTERS = 'job=~"$job", instance=~"$instance", cluster=~"$cluster"'
_OF_WORKLOADS = f'{_OF_EXPORTERS}, node=~"$node", namespace=~"$namespace", pod=~"$pod", rank=~"$rank"'

_OF_PLACES = f'{_OF_EXPORTERS}, node=~"$node"'

_ANY = ".*"  # also of what has no such label
_SOME = ".+"
_NUMERICALLY = 3  # how the values of a variable are sorted, upwards
_ALPHABETICALLY = 1


def of_exporters(metric: str, *matchers: str) -> str:
    """A metric about the exporter, of the instances that are chosen."""
    return f"{metric}{{{', '.join((_OF_EXPORTERS, *matchers))}}}"


def of_workloads(metric: str, *matchers: str) -> str:
    """A metric about traced processes, of those that are chosen."""
    return f"{metric}{{{', '.join((_OF_WORKLOADS, *matchers))}}}"


def of_places(metric: str, *matchers: str) -> str:
    """A metric about containers, devices or the machine, of the nodes that are chosen: it has no rank."""
    return f"{metric}{{{', '.join((_OF_PLACES, *matchers))}}}"


def or_zero(expression: str, whenever: str) -> str:
    """0 instead of nothing, where there is something else: what never happened has no series."""
    return f"{expression} or 0 * count({whenever})"


def or_none(expression: str, whenever: str, *labels: str) -> str:
    """0 of `none` instead of nothing, where there is something else: what has labels only when it happens, and seldom does."""
    nothing = f"0 * count({whenever})"
    for label in labels:
        nothing = f'label_replace({nothing}, "{label}", "none", "", "")'
    return f"{expression} or {nothing}"


@dataclass(frozen=True)
class Row:
    """Panels under one heading. is_collapsed: asked for only when somebody opens it."""

    title: str
    panels: tuple[Panel, ...]
    is_collapsed: bool = False


@dataclass(frozen=True)
class Board:
    """uid: for ever the same, so that links to it last. question: what it answers, and for whom. is_of_workloads: it can be told
    which node, pod and rank.
    """

    uid: str
    title: str
    question: str
    rows: tuple[Row, ...]
    is_of_workloads: bool = True
    since: str = "now-1h"

    def document(self) -> Json:
        """As Grafana reads it."""
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
        """Those of all rows."""
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
            if row.is_collapsed:  # takes the room of its heading
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
        known = _OF_EXPORTERS
        for name in ("node", "namespace", "pod", "rank"):
            order = _NUMERICALLY if name == "rank" else _ALPHABETICALLY
            yield _variable(name, name.capitalize(), f"gpustall_workload_info{{{known}}}", _ANY, order)
            known += f', {name}=~"${name}"'


def _placed(panels: tuple[Panel, ...], y: int, numbers: Iterator[int]) -> tuple[list[Json], int]:
    """From left to right, and below when a line is full. Returns them, and where the next row begins."""
    placed = []
    x = height = 0
    for panel in panels:
        if x + panel.width > COLUMNS:
            x, y, height = 0, y + height, 0
        placed.append(panel.document(next(numbers), x, y))
        x, height = x + panel.width, max(height, panel.height)
    return placed, y + height


def _variable(name: str, label: str, metric: str, all_value: str, order: int = _ALPHABETICALLY) -> Json:
    """The values of a label of a metric, all of them unless some are chosen."""
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
    "expr": f"{of_workloads('gpustall_chain_active')} == 1",
    "step": "15s",
    "titleFormat": "{{cause}}",
    "textFormat": "rank {{rank}} on {{node}}",
    "tagKeys": "cause,effect",
    "useValueForTime": "",
}
