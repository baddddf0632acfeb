"""A board: its question, its variables, its rows of panels, and links to the other boards.

In: Rows. Out: the JSON document of a dashboard, which Grafana can be provisioned with.
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dashboards.panels import COLUMNS, DATASOURCE, Json, Panel

TAG = "gpu-stall-exporter"
SCHEMA_VERSION = 39

_EXPORTER_MATCHERS = 'job=~"$job", instance=~"$instance", cluster=~"$cluster"'
_OF_WORKLOADS = ("node", "namespace", "pod", "container", "rank")
"""Variables of boards about workloads, each with the values that those before it leave."""
_WORKLOAD_MATCHERS = ", ".join((_EXPORTER_MATCHERS, *(f'{name}=~"${name}"' for name in _OF_WORKLOADS)))

_CONTAINER_MATCHERS = _WORKLOAD_MATCHERS.replace('rank=~"$rank"', 'rank=""')
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


def container_series(metric: str, *matchers: str) -> str:
    """Selector of a metric about containers, which have no rank."""
    return f"{metric}{{{', '.join((_CONTAINER_MATCHERS, *matchers))}}}"


def node_series(metric: str, *matchers: str) -> str:
    """Selector of a metric about disks, GPUs or the machine, for the chosen nodes."""
    return f"{metric}{{{', '.join((_NODE_MATCHERS, *matchers))}}}"


def or_zero(expression: str, whenever: str) -> str:
    """0 instead of no data if `whenever` has data: a counter of events that never happened has no series."""
    return f"{expression} or 0 * count({whenever})"


def or_none(expression: str, whenever: str, *labels: str) -> str:
    """0 of `none` instead of no data if `whenever` has data: for rare events, whose labels are unknown before.

    The label of the result is the given one; of several it is `series`, with their values.
    """
    label = labels[0]
    if len(labels) > 1:
        label = "series"
        joined = ", ".join(f'"{one}"' for one in labels)
        expression = f'label_join({expression}, "{label}", " ", {joined})'
    return f'{expression} or label_replace(0 * count({whenever}), "{label}", "none", "", "")'


WORKLOAD = "cluster, node, namespace, pod, container, rank"
"""Labels of a workload: three jobs on a node have a rank 0 each."""


def named(expression: str) -> str:
    """The series with the label `workload`: pod, container and rank as far as they are known, `job_4711/rank 0`."""
    named = f'label_replace({expression}, "workload", "rank $1", "rank", "(.+)")'
    named = f'label_join({named}, "workload", "/", "pod", "container", "workload")'
    named = f'label_replace({named}, "workload", "$1/$2", "workload", "(.+)//(.+)")'
    named = f'label_replace({named}, "workload", "$1", "workload", "/*(.*?)/*")'
    return f'label_replace({named}, "workload", "process", "workload", "")'


ON_NODE = "{{workload}} on {{node}}"
"""Legend of a series of named()."""


_IN_INTERVAL = "[$__rate_interval]"


def processes(by: str = "") -> str:
    """How many processes there were, as a mean of the rate interval. by: labels of workloads; without, one number.

    The rate of a counter includes a process that has ended since, and one that came lately for a part of the interval; so
    does this number, which it can be divided by.
    """
    samples = f"count_over_time({workload_series('gpustall_workload_info')}{_IN_INTERVAL})"
    scrapes = f"count_over_time({exporter_series('gpustall_exporter_tracked_processes')}{_IN_INTERVAL})"
    return f"sum{_grouped(by)} ({samples} / on (cluster, job, instance) group_left () {scrapes})"


def lost_share(by: str = "") -> str:
    """Share of the time of the processes in which the GPU waited for the host.

    At most 1: a scrape has the time of its start, and a busy node reads the counters up to a second later, so that a rate may be
    larger than what it measures.
    """
    lost = f"sum{_grouped(by)} (rate({workload_series('gpustall_lost_seconds_total')}{_IN_INTERVAL}))"
    return f"clamp_max({lost} / {processes(by)}, 1)"


def lost_gpus(by: str = "") -> str:
    """The same as a number of GPUs."""
    return f"{lost_share(by)} * {processes(by)}"


def _grouped(by: str) -> str:
    return f" by ({by})" if by else ""


def up(*matchers: str) -> str:
    """`up` of the targets of exporters.

    All jobs chosen are all jobs of the server. So only those count that had an exporter in the time range.
    """
    exporters = f"present_over_time({exporter_series('gpustall_exporter_build_info')}[$__range])"
    return f"({exporter_series('up', *matchers)} and on (cluster, job) {exporters})"


def gone() -> str:
    """Exporters that were scraped in the time range and are no longer targets."""
    targets = "cluster, job, instance"
    exporters = f"present_over_time({exporter_series('gpustall_exporter_build_info')}[$__range])"
    return f"(group by ({targets}) ({exporters}) unless on ({targets}) {exporter_series('up')})"


def mean_of(series: Callable[..., str], metric: str, *by: str, matchers: tuple[str, ...] = ()) -> str:
    """Mean of a classic histogram, exact whatever its edges are, or of a native one. series: selects from a metric."""
    total, count = (
        f"{_summed(by)} (rate({series(f'{metric}_{one}', *matchers)}{_IN_INTERVAL}))" for one in ("sum", "count")
    )
    native = f"{_summed(by)} (rate({series(metric, *matchers)}{_IN_INTERVAL}))"
    return f"{total} / ({count} > 0) or histogram_sum({native}) / histogram_count({native})"


def quantile_of(
    quantile: float, series: Callable[..., str], metric: str, *by: str, matchers: tuple[str, ...] = ()
) -> str:
    """Quantile of a native histogram.

    The edges of a classic one are a factor of 4 to 8 apart: its quantiles may be wrong by as much, and may not move at all.
    """
    return f"histogram_quantile({quantile}, {_summed(by)} (rate({series(metric, *matchers)}{_IN_INTERVAL})))"


NEEDS_NATIVE = "needs native histograms"
WITH_QUANTILES = " The mean is exact; quantiles need native histograms (docs/scraping.md)."


def _summed(by: tuple[str, ...]) -> str:
    return f"sum{_grouped(', '.join(by))}"


def link_to_workload(*columns: str) -> str:
    """From a row of a table to the board Workload. columns: titles of those with variables of that board."""
    variables = "".join(f"&var-{title.lower()}=${{__data.fields.{title}}}" for title in columns)
    return f"/d/gpustall-workload?${{__url_time_range}}&${{datasource:queryparam}}{variables}"


def counted(series: str, span: str = "$__range") -> str:
    """How many events a counter of rare events has counted in a span: a whole number for each series.

    A series appears with its first event and so has no increase(), which guesses beyond the first and the last sample besides.
    So this takes the difference between now and the beginning of the span, at which a new series was 0. Only where the
    exporter was restarted within the span it is increase().
    """
    now, before = f"max_over_time({series}[{span}])", f"{series} offset {span}"
    over_restarts = f"round(increase({series}[{span}])) and resets({series}[{span}]) > 0"
    return f"({over_restarts} or {now} - {before} >= 0 or {now})"


@dataclass(frozen=True)
class Row:
    """Panels under one heading. is_collapsed: queried only after it is opened."""

    title: str
    panels: tuple[Panel, ...]
    is_collapsed: bool = False


@dataclass(frozen=True)
class Board:
    """uid: never changes, so that links stay valid. question: what the board answers. is_of_workloads: it has variables for node,
    pod, container and rank.
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
            "links": [_BOARDS, _RUNBOOK],
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
        yield _variable("job", "Scrape job", exporters, _SOME)
        yield _variable("instance", "Instance", f'{exporters}{{job=~"$job"}}', _SOME)
        yield _variable("cluster", "Cluster", f'{exporters}{{job=~"$job", instance=~"$instance"}}', _ANY)
        if not self.is_of_workloads:
            return
        known = _EXPORTER_MATCHERS
        for name in _OF_WORKLOADS:
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


_BOARDS: Json = {
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
_URLS = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
RUNBOOK: str = f"{_URLS['Documentation']}/alerts/runbook.md"
_RUNBOOK: Json = _BOARDS | {
    "type": "link",
    "title": "Runbook",
    "tags": [],
    "asDropdown": False,
    "includeVars": False,
    "keepTime": False,
    "targetBlank": True,
    "icon": "doc",
    "tooltip": "What each cause and each alert means, and what to do",
    "url": RUNBOOK,
}
_CHAINS = {
    "name": "Causal chains",
    "datasource": DATASOURCE,
    "enable": True,
    "hide": False,
    "iconColor": "red",
    "expr": named(f"{workload_series('gpustall_chain_active')} == 1"),
    "step": "15s",
    "titleFormat": "{{cause}}",
    "textFormat": ON_NODE,
    "tagKeys": "cause,effect",
    "useValueForTime": "",
}
