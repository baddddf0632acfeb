"""Answers without the bound that a model needs: a timeline, an explanation, rows of a statement, and ranks, each in full.

In: a checked call. Out: frames of the body. They pass what every call passes: the gate, the scope of the token, and a process of
bounded time and memory.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from exporter.explain.document import document
from exporter.fleet.node_ranks import RANKS_PATH, node_report
from exporter.history.selection import Selection
from exporter.investigate.result import Result
from exporter.serve.tools import answer
from exporter.serve.tools.explanations import EXPLAIN, explained
from exporter.serve.tools.parameters import Parameter, checked
from exporter.serve.tools.tables import QUERY_SQL, result_of, wanted_by
from exporter.serve.tools.timeline import PATH as TIMELINE_PATH
from exporter.serve.tools.timeline import TIMELINE
from exporter.serve.tools.tool import AT, SINCE, WORKLOAD, ToolCall
from exporter.timeline import perfetto
from exporter.timeline.source import stored
from exporter.timeline.timeline import Timeline

EXPLAIN_PATH: Final = "/api/v1/explain"
SQL_PATH: Final = "/api/v1/sql"

_FRAME_BYTES: Final = 32 << 10


class Bulk(NamedTuple):
    """name: of the tool that answers the same in brief, if there is one; also in the audit. headers: of the response."""

    name: str
    path: str
    purpose: str
    parameters: Sequence[Parameter]
    media_type: str
    frames: Callable[[ToolCall], Iterator[bytes]]
    headers: tuple[tuple[str, str], ...] = ()

    def checked(self, arguments: Any) -> dict[str, Any]:
        """Raises BadInput."""
        return checked(self.parameters, arguments)


def _timeline(call: ToolCall) -> Iterator[bytes]:
    with stored(call.history, call.seconds("since"), at_unix_ns=call.at_unix_ns(), scope=call.scope) as source:
        yield from perfetto.encoded(Timeline(source, Selection.of(call.text("workload"))).items())


def _explanation(call: ToolCall) -> Iterator[bytes]:
    yield answer.encoded(document(explained(call, with_operations=True)))


def _ranks(call: ToolCall) -> Iterator[bytes]:
    yield answer.encoded(node_report(call.history, call.seconds("since"), call.scope).to_document())


def _rows(call: ToolCall) -> Iterator[bytes]:
    statement, resolution, _ = wanted_by(call)
    return row_lines(result_of(call, statement, resolution, may_be_cut=True))


def row_lines(result: Result) -> Iterator[bytes]:
    """Lines of JSON: an object with the columns, an array for each row, and an object that says whether these are all."""
    frame = [json.dumps({"columns": result.columns}).encode()]
    size_bytes = 0
    for line in result.lines:
        frame.append(_without_infinity(line))
        size_bytes += len(line)
        if size_bytes >= _FRAME_BYTES:
            yield b"\n".join((*frame, b""))
            frame, size_bytes = [], 0
    frame.append(json.dumps({"rows": len(result.lines), "is_complete": result.is_complete}).encode())
    yield b"\n".join((*frame, b""))


def _without_infinity(line: bytes) -> bytes:
    """JSON has no infinity: it is null."""
    return answer.encoded(json.loads(line)) if b"Infinity" in line else line


TIMELINE_BYTES: Final = Bulk(
    TIMELINE.name,
    TIMELINE_PATH,
    "The timeline as a Perfetto trace.",
    TIMELINE.parameters,
    "application/vnd.perfetto.trace",
    _timeline,
    (("content-disposition", 'attachment; filename="timeline.pftrace"'),),
)
EXPLANATION: Final = Bulk(
    EXPLAIN.name,
    EXPLAIN_PATH,
    "All of the explanation: the document of `explain --format=json`.",
    (SINCE, WORKLOAD, AT),
    "application/json",
    _explanation,
)
SQL_ROWS: Final = Bulk(
    QUERY_SQL.name,
    SQL_PATH,
    "All rows of a statement, as lines of JSON.",
    QUERY_SQL.parameters,
    "application/x-ndjson",
    _rows,
)
RANKS: Final = Bulk(
    "ranks",
    RANKS_PATH,
    "Each rank of this node: communicators, steps, waits, lost time and chains, for the verdict about a job. Times are ages.",
    (SINCE,),
    "application/json",
    _ranks,
)
BULK_OF: Final = {one.name: one for one in (TIMELINE_BYTES, EXPLANATION, SQL_ROWS, RANKS)}
