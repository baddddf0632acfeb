"""Tools that read tables: one for SQL of the caller, and those for calls and stacks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from exporter.errors import BadInput
from exporter.history.selection import Selection
from exporter.investigate.mistakes import StatementTooSlow
from exporter.investigate.named import QUERY_OF, NamedQuery
from exporter.investigate.query import query
from exporter.investigate.result import Result
from exporter.investigate.schema import schema_lines
from exporter.investigate.tables import QuerySpan
from exporter.model import Identity
from exporter.serve.tools.answer import NextCall, ToolAnswer
from exporter.serve.tools.parameters import Parameter
from exporter.serve.tools.tool import AT, INTEGER, SINCE, WORKLOAD, Tool, ToolCall
from exporter.units import NANOSECONDS

DEADLINE_SECONDS: Final = 2.0
_ID_CHARACTERS_MIN: Final = 4

_OPERATIONS: Final = """\
select node, rank, container, namespace, pod, pid, api, operation, calls, errors, timed_seconds, mean_seconds, p50_seconds,
    p99_seconds
from operations order by operations.timed_seconds desc"""
_CALL_SITES: Final = """\
select node, rank, container, namespace, pod, pid, operation, slow_calls, slow_seconds, place, frames
from call_sites order by call_sites.slow_seconds desc"""
_STACKS: Final = """\
select chain_id, node, rank, container, namespace, pod, pid, cause, at_unix_seconds, line
from stacks order by at_unix_seconds desc, chain_id, line_number"""
_LABELS: Final = ("node", "rank", "container", "namespace", "pod")


def result_of(call: ToolCall, statement: str, resolution: str = "", *, may_be_cut: bool = False) -> Result:
    """The result of a statement over the span of a call. Raises BadInput and NotPossibleHere."""
    at_unix_ns = call.at_unix_ns()
    until_unix_ns = time.time_ns() if at_unix_ns is None else at_unix_ns
    resolution_ns = None
    if resolution:
        named = call._replace(arguments={**call.arguments, "resolution": resolution})
        resolution_ns = int(named.seconds("resolution") * NANOSECONDS)
    span = QuerySpan(call.since_unix_ns(), until_unix_ns, resolution_ns, is_past=at_unix_ns is not None)
    with within_limit():
        return query(call.history, statement, span, DEADLINE_SECONDS, scope=call.scope, may_be_cut=may_be_cut)


@contextmanager
def within_limit() -> Iterator[None]:
    """For statements of a call. A client cannot make the limit larger, as the remedy of the command says."""
    try:
        yield
    except StatementTooSlow as error:
        raise StatementTooSlow(str(error), remedy="add a WHERE, or use a smaller since") from None


def rows_of(call: ToolCall, statement: str, resolution: str = "") -> list[dict[str, Any]]:
    """Its rows by name of the column. Raises as result_of()."""
    result = result_of(call, statement, resolution)
    if len(set(result.columns)) < len(result.columns):
        raise BadInput("two columns have one name", remedy="name them with AS")
    return [dict(zip(result.columns, row, strict=True)) for row in result.rows()]


def of_workload(rows: list[dict[str, Any]], text: str) -> list[dict[str, Any]]:
    """Rows of the selected workloads, without labels that are empty."""
    selection = Selection.of(text)
    found = [one for one in rows if selection.matches(Identity(*(one[name] for name in _LABELS)), one["pid"])]
    return [{name: value for name, value in one.items() if value != ""} for one in found]


def _operations(call: ToolCall) -> ToolAnswer:
    rows = of_workload(rows_of(call, _OPERATIONS), call.text("workload"))
    return ToolAnswer({"calls": sum(one["calls"] for one in rows)}, "operations", rows, NextCall("stacks", {}))


OPERATIONS: Final = Tool(
    "operations",
    "In which CUDA and NCCL calls the time was spent, for each workload: number, errors, total, mean, median, slowest percent.",
    (SINCE, WORKLOAD, AT),
    {"calls": INTEGER},
    "operations",
    _operations,
)


def _stacks(call: ToolCall) -> ToolAnswer:
    chain_id = call.text("chain_id")
    if chain_id and len(chain_id) < _ID_CHARACTERS_MIN:
        raise BadInput(f"chain_id: want at least {_ID_CHARACTERS_MIN} characters")
    lines = of_workload(rows_of(call, _STACKS), call.text("workload"))
    if chain_id:
        lines = [one for one in lines if one["chain_id"].startswith(chain_id)]
    sites = [] if chain_id else of_workload(rows_of(call, _CALL_SITES), call.text("workload"))
    items = [{"kind": "slow_calls", **one} for one in sites] + [{"kind": "evidence", **one} for one in lines]
    return ToolAnswer({"slow_call_sites": len(sites), "evidence_lines": len(lines)}, "stacks", items)


STACKS: Final = Tool(
    "stacks",
    "Which lines of Python made slow calls, and where threads stood in chains: slow_calls by line, and evidence, which has"
    " stacks of stuck threads.",
    (SINCE, WORKLOAD, AT, Parameter("chain_id", "only the evidence of this chain: first characters of its id")),
    {"slow_call_sites": INTEGER, "evidence_lines": INTEGER},
    "stacks",
    _stacks,
)


class WantedRows(NamedTuple):
    """named: the query whose statement it is, if it is one of --list. resolution: "" for the whole span."""

    statement: str
    resolution: str
    named: NamedQuery | None


def wanted_by(call: ToolCall) -> WantedRows:
    """What a call of query_sql is about. Raises BadInput."""
    statement, name = call.text("statement"), call.text("name")
    if bool(statement) == bool(name):
        raise BadInput(
            "want a statement, or the name of a query, and not both", remedy="the tool's description has the names"
        )
    named = QUERY_OF.get(name)
    resolution = call.text("resolution") or (named.resolution if named else "")
    return WantedRows(named.statement if named else statement, resolution, named)


def _query_sql(call: ToolCall) -> ToolAnswer:
    statement, resolution, named = wanted_by(call)
    rows = rows_of(call, statement, resolution)
    following = NextCall("query_sql", {"name": named.next_name}) if named else None
    return ToolAnswer({"row_count": len(rows)}, "rows", rows, following)


QUERY_SQL: Final = Tool(
    "query_sql",
    "One SELECT of SQLite's SQL over the history, or a named query. It can only read, within two seconds. The resource"
    " schema://history has the views and their columns.",
    (
        Parameter("statement", "one SELECT"),
        Parameter("name", "a named query", choices=("", *QUERY_OF)),
        SINCE._replace(default="1h"),
        AT,
        Parameter("resolution", "length of the intervals that are summed up; empty for the whole span"),
    ),
    {"row_count": INTEGER},
    "rows",
    _query_sql,
)

SCHEMA_TEXT: Final = "\n".join(schema_lines())
"""Views and columns, for people and models."""
