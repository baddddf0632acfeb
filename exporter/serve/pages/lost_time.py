"""Lost GPU time over a span, by cause, as a chart: from the view `lost`, as query_sql reads it.

In: a call, and how much there is to read. Out: a chart, or the reason why there is none.
"""

from __future__ import annotations

import math
from typing import Any, Final

from exporter.explain.explanation import Explanation
from exporter.serve.pages.charts import ChartSpan, legend, stacked
from exporter.serve.pages.markup import Markup, element, joined
from exporter.serve.tools.tables import of_workload, rows_of
from exporter.serve.tools.tool import ToolCall
from exporter.units import NANOSECONDS

WINDOWS_MAX: Final = 20_000
"""They take half a second to add up; a first view takes no more than one."""

_INTERVALS: Final = 60
_WINDOW_SECONDS: Final = 10
_OF_ALL: Final = """\
select ended_unix_seconds, cause, sum(lost_seconds) as lost_seconds, max(recorded_seconds) as recorded_seconds
from lost group by ended_unix_seconds, cause"""
_OF_EACH: Final = """\
select node, rank, container, namespace, pod, pid, ended_unix_seconds, cause, lost_seconds, recorded_seconds from lost"""


def lost_time_chart(call: ToolCall, of: Explanation, windows_max: int = WINDOWS_MAX) -> Markup:
    """call: with the span, and a workload or none. of: everything in the span."""
    windows = sum(one.covered_ns for one in of.processes) // (_WINDOW_SECONDS * NANOSECONDS)
    if windows > windows_max:
        reason = f"Not drawn: the span has {windows:,} windows, which takes too long. Choose a smaller time span."
        return element("p", reason, class_="empty")
    interval_seconds = max((of.now_unix_ns - of.since_unix_ns) // (_INTERVALS * NANOSECONDS), _WINDOW_SECONDS)
    workload = call.text("workload")
    rows = rows_of(call, _OF_EACH if workload else _OF_ALL, f"{interval_seconds}s")
    columns = _columns(of_workload(rows, workload) if workload else rows, interval_seconds)
    if not columns:
        return element("p", "No GPU time was lost in this time span.", class_="empty")
    causes = list(dict.fromkeys(cause for _, lost in columns for cause in lost))
    span = ChartSpan(of.since_unix_ns, of.now_unix_ns)
    return joined((stacked(columns, span, interval_seconds * NANOSECONDS), legend(causes)))


def _columns(rows: list[dict[str, Any]], interval_seconds: int) -> list[tuple[int, dict[str, float]]]:
    """Begin of each interval, and what was lost to each cause in a second of it, of all workloads.

    An interval is divided by the time that was recorded in it: the first and the last one are shorter.
    """
    lost: dict[int, dict[str, float]] = {}
    recorded: dict[int, float] = {}
    for one in rows:
        # As in the view: a window belongs to the interval in which it ends.
        interval = math.ceil(one["ended_unix_seconds"] / interval_seconds) - 1
        of_interval = lost.setdefault(interval, {})
        of_interval[one["cause"]] = of_interval.get(one["cause"], 0.0) + one["lost_seconds"]
        recorded[interval] = max(recorded.get(interval, 0.0), one["recorded_seconds"])
    return [
        (
            interval * interval_seconds * NANOSECONDS,
            {cause: lost_s / recorded[interval] for cause, lost_s in causes.items()},
        )
        for interval, causes in sorted(lost.items())
        if recorded[interval]
    ]
