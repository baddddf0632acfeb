"""Tools about the exporter itself: whether it records, and what its metrics mean."""

from __future__ import annotations

import time
from typing import Any, Final

from exporter.catalog import METRICS
from exporter.explain.document import gap_documents
from exporter.explain.stored import explain_stored
from exporter.history.reader import opened
from exporter.history.recorded_chains import KnownState
from exporter.serve.tools.answer import NextCall, ToolAnswer
from exporter.serve.tools.parameters import Parameter
from exporter.serve.tools.tool import BOOLEAN, INTEGER, NUMBER, SINCE, STRING, Tool, ToolCall
from exporter.units import seconds


def _status(call: ToolCall) -> ToolAnswer:
    with opened(call.history, scope=call.scope) as history:
        now_unix_ns = time.time_ns()
        runs = [run.until(now_unix_ns) for run in history.runs()]
    found = explain_stored(call.history, call.seconds("since"), scope=call.scope)
    run = runs[-1] if runs else None
    return ToolAnswer(
        {
            "is_recording": found.is_live,
            "version": run.version if run else "",
            "detects_chains": run.has_chains if run else None,
            "last_written_seconds_ago": seconds(max(now_unix_ns - run.seen_unix_ns, 0)) if run else None,
            "history_began_unix_seconds": seconds(runs[0].began_unix_ns) if runs else None,
            "runs": len(runs),
            "workloads": len(found.processes),
            "open_chains": sum(chain.state is KnownState.OPEN for chain in found.chains),
        },
        "gaps",
        gap_documents(found),
        NextCall("explain", {}),
    )


STATUS: Final = Tool(
    "status",
    "Whether the exporter of this node records now, since when, how many workloads and open chains there are, and which times are"
    " missing.",
    (SINCE,),
    {
        "is_recording": BOOLEAN,
        "version": STRING,
        "detects_chains": BOOLEAN,
        "last_written_seconds_ago": NUMBER,
        "history_began_unix_seconds": NUMBER,
        "runs": INTEGER,
        "workloads": INTEGER,
        "open_chains": INTEGER,
    },
    "gaps",
    _status,
)


def _metrics_help(call: ToolCall) -> ToolAnswer:
    wanted = call.text("search").lower().split()
    found: list[dict[str, Any]] = [
        {
            "name": metric.name,
            "type": metric.kind.value,
            "unit": metric.unit,
            "labels": list(metric.labels),
            "help": metric.help,
        }
        for metric in METRICS
        if all(word in f"{metric.name} {metric.help}".lower() for word in wanted)
    ]
    return ToolAnswer({"metrics_in_all": len(METRICS)}, "metrics", found)


METRICS_HELP: Final = Tool(
    "metrics_help",
    "What the exporter's Prometheus metrics mean: type, unit, labels and help of those whose name or help has the words.",
    (Parameter("search", "words, such as lost or nccl wait; empty for all"),),
    {"metrics_in_all": INTEGER},
    "metrics",
    _metrics_help,
)
