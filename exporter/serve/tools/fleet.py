"""The tool that asks other nodes: the verdict about each job, or rows of a statement on all of them.

In: a call and the fleet flags of this server. Out: answers and failures of nodes, as items of one answer. Nodes see the token of
this server, and not that of who asks it: the tool is for readers without limits alone, which the registry sees to.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

from exporter.config.fleet_flags import FleetFlags
from exporter.errors import BadInput
from exporter.fleet.asking import ask
from exporter.fleet.clock_offset import ClockOffset
from exporter.fleet.clock_warnings import clock_warnings
from exporter.fleet.exchange import NodeRequest
from exporter.fleet.failure import NodeFailure
from exporter.fleet.fleet_document import document
from exporter.fleet.fleet_explanation import FleetExplanation, explained_fleet
from exporter.fleet.node_ranks import RANKS_PATH
from exporter.fleet.rank_report import decoded
from exporter.fleet.rows import GatheredRows, rows_of_nodes, with_node
from exporter.investigate.guard import ROWS_MAX, too_many_rows
from exporter.investigate.query import columns_of
from exporter.investigate.result import Result
from exporter.investigate.row_table import result_over
from exporter.serve.tools.answer import NextCall, ToolAnswer
from exporter.serve.tools.fleet_nodes import nodes_of
from exporter.serve.tools.parameters import Parameter
from exporter.serve.tools.tables import DEADLINE_SECONDS, QUERY_SQL, wanted_by, within_limit
from exporter.serve.tools.tool import INTEGER, SINCE, STRING, Tool, ToolCall

_ALL_BYTES_MAX: Final = 16 << 20
"""From all nodes together: one answer has 8 KiB, and the process of a call has 256 MiB."""
_STATEMENT, _QUERY, _, _, _RESOLUTION = QUERY_SQL.parameters


def _fleet(call: ToolCall) -> ToolAnswer:
    assert call.fleet is not None  # noqa: S101 - the registry has no such tool otherwise
    if call.text("statement") or call.text("name"):
        return _rows(call, call.fleet)
    for name in ("merge", "resolution"):
        if call.text(name):
            raise BadInput(f"{name}: want a statement or the name of a query with it")
    since_seconds = call.seconds("since")
    found = nodes_of(call.fleet, os.environ, call.text("nodes"))
    request = found.asked(NodeRequest(f"{RANKS_PATH}?{urlencode({SINCE.name: call.text('since')})}"))
    answers = ask(found.nodes, request._replace(all_bytes_max=_ALL_BYTES_MAX, compares_clocks=True), decoded)
    return _verdicts(explained_fleet(answers, since_seconds), len(found.nodes))


def _verdicts(found: FleetExplanation, asked: int) -> ToolAnswer:
    """Jobs that are slow, failures, clocks that are off, other jobs, and a line about each node."""
    report = document(found)
    wrong = len(found.wrong)
    jobs = [{"type": "job", **_known(one)} for one in report["jobs"]]
    nodes = [{"type": "node", "node": one["node"], "summary": one["summary"]} for one in report["nodes"]]
    late = next((one for job in found.wrong for one in job.late if one.node), None)
    following = NextCall("fleet", {"nodes": late.node, "name": "worst-chains"}) if late else None
    what = f"{wrong} of {len(jobs)} jobs slow, ambiguous or standing still" if jobs else "no job"
    items = [*jobs[:wrong], *_failed(found.failures), *_warnings(found.clocks), *jobs[wrong:], *nodes]
    return ToolAnswer(_facts(what, asked, found.failures), FLEET.listed, items, following)


def _rows(call: ToolCall, flags: FleetFlags) -> ToolAnswer:
    statement, resolution, named = wanted_by(call)
    merge = call.text("merge")
    with within_limit():
        known = columns_of(statement, DEADLINE_SECONDS)
        columns = with_node(known)
        if merge:
            result_over(columns, (), merge, DEADLINE_SECONDS)
    call.seconds("since")
    asked = nodes_of(flags, os.environ, call.text("nodes"))
    arguments = {"statement": statement, "since": call.text("since"), "resolution": resolution}
    gathered = rows_of_nodes(asked, arguments, known, _ALL_BYTES_MAX)
    result = _merged(gathered, merge)
    items = [*_failed(gathered.failures), *_warnings(gathered.clocks), *_objects(result)]
    following = NextCall("fleet", {"name": named.next_name}) if named else None
    facts = _facts(f"{len(result.lines)} rows", len(asked.nodes), gathered.failures)
    return ToolAnswer(facts, FLEET.listed, items, following)


def _merged(gathered: GatheredRows, merge: str) -> Result:
    result = Result(gathered.columns, gathered.lines)
    if merge and gathered.columns:
        with within_limit():
            return result_over(gathered.columns, result.rows(), merge, DEADLINE_SECONDS)
    if len(gathered.lines) > ROWS_MAX:
        raise too_many_rows()
    return result


def _objects(result: Result) -> Iterator[dict[str, Any]]:
    if len(set(result.columns)) < len(result.columns):
        raise BadInput("two columns have one name", remedy="name them with AS")
    return (dict(zip(result.columns, row, strict=True)) for row in result.rows())


def _facts(what: str, asked: int, failures: Sequence[NodeFailure]) -> dict[str, Any]:
    missing = f"; {len(failures)} of {asked} nodes failed, and nothing is known of them" if failures else ""
    return {"summary": f"{what}{missing}", "nodes_asked": asked, "nodes_failed": len(failures)}


def _failed(failures: Sequence[NodeFailure]) -> list[dict[str, str]]:
    return [{"type": "failure", **one.document()} for one in failures]


def _warnings(clocks: Mapping[str, ClockOffset]) -> list[dict[str, str]]:
    return [{"type": "warning", "message": one} for one in clock_warnings(clocks)]


def _known(job: Mapping[str, Any]) -> dict[str, Any]:
    """Without what is empty or not known: a model pays for each field."""
    return {name: value for name, value in job.items() if value not in (None, "", [])}


FLEET: Final = Tool(
    "fleet",
    "Other nodes, all at once: without a statement which rank on which node makes each job slow or hang; else the rows of the"
    " statement on each node, with `node` first. A node that does not answer is an item with a `failure`.",
    (
        Parameter("nodes", "names of nodes to ask, such as gpu[01-16]; empty for all"),
        _STATEMENT._replace(meaning="one SELECT for each node"),
        _QUERY,
        Parameter("merge", "one SELECT over the table `rows` of what all nodes return"),
        SINCE,
        _RESOLUTION,
    ),
    {"summary": STRING, "nodes_asked": INTEGER, "nodes_failed": INTEGER},
    "items",
    _fleet,
    is_about_fleet=True,
)
