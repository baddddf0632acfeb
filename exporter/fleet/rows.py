"""The rows of a statement on many nodes: the request, what a node answers to it, and all of them with the node's name first.

In: answers of `POST /api/v1/sql` as lines of JSON, from nodes that are not trusted. Out: columns and lines of JSON that hold one
array each, of as many values as there are columns: text, numbers and null.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from exporter.errors import BadInput
from exporter.fleet.asking import ALL_BYTES_MAX, NodeAnswer, ask, known_clocks
from exporter.fleet.clock_offset import ClockOffset
from exporter.fleet.exchange import NodeRequest
from exporter.fleet.failure import NodeFailure, NodeFailureKind, NodeUnusable
from exporter.fleet.target import FleetTarget
from exporter.http_client.deadline import Deadline
from exporter.text import untrusted
from exporter.text.untrusted import Untrusted

ROWS_MAX: Final = 50_000
"""As many as `serve` sends."""
BODY_BYTES_MAX: Final = 9 << 20
"""8 MiB of rows, the lines before and after them, and the last piece."""
NODE, NODE_LABEL = "node", "node_label"
"""The first column, and what a column `node` of the statement is called: the label in the history of that node."""

_COLUMNS_MAX: Final = 64
_INTEGER_MAX: Final = 1 << 63
_LINES_BETWEEN_LOOKS: Final = 4096
_SHORT_BYTES: Final = 32 << 10
"""A longer line may hold a million empty arrays, and is looked at before it is decoded."""


class NodeRows(NamedTuple):
    """lines: a row each, as a JSON array."""

    columns: tuple[str, ...]
    lines: Sequence[bytes]


class GatheredRows(NamedTuple):
    """columns, lines: with the name of the node first. columns: () if no node has answered. clocks: by node, where known."""

    columns: tuple[str, ...]
    lines: list[bytes]
    failures: list[NodeFailure]
    clocks: Mapping[str, ClockOffset] = MappingProxyType({})


def rows_of_nodes(
    target: FleetTarget, arguments: Mapping[str, str], known: Sequence[str], all_bytes_max: int = ALL_BYTES_MAX
) -> GatheredRows:
    """What a statement returns on each. arguments: of the tool query_sql. all_bytes_max: of all answers. Raises as gathered()."""
    asked = target.asked(rows_request(arguments))._replace(
        bytes_max=BODY_BYTES_MAX, all_bytes_max=all_bytes_max, compares_clocks=True
    )
    return gathered(ask(target.nodes, asked, rows_reader(target.deadline)), known)


def rows_request(arguments: Mapping[str, str]) -> NodeRequest:
    """arguments: of the tool query_sql."""
    return NodeRequest("/api/v1/sql", "application/x-ndjson", json.dumps(arguments).encode())


def rows_reader(deadline: Deadline) -> Callable[[bytearray], NodeRows]:
    """A function that reads an answer. It raises Untrusted and NodeUnusable, also at the deadline."""

    def read(body: bytearray) -> NodeRows:
        if body.count(b"\n") > ROWS_MAX + 2:
            raise Untrusted(f"more than {ROWS_MAX:,} rows")
        first, *lines = bytes(body).split(b"\n")
        if len(lines) < 2 or lines.pop():
            raise Untrusted("the answer ends early")
        columns = _columns(first)
        last = untrusted.mapping(untrusted.small_json_value(lines.pop()))
        _check_end(last, len(lines))
        for at, line in enumerate(lines):
            if at % _LINES_BETWEEN_LOOKS == 0 and deadline.clock() >= deadline.at:
                raise NodeUnusable(NodeFailureKind.TOO_SLOW, deadline.missed)
            _check_row(line, len(columns))
        return NodeRows(columns, lines)

    return read


def gathered(results: Sequence[NodeAnswer[NodeRows] | NodeFailure], known: Sequence[str]) -> GatheredRows:
    """Rows of the nodes that have the same columns; others are of another version.

    known: columns as this version has them; they decide if two sets of columns are equally frequent. Raises BadInput if there are
    a column `node` and another one that has the name it gets.
    """
    counts = Counter(one.document.columns for one in results if isinstance(one, NodeAnswer))
    if not counts:
        return GatheredRows((), [], [one for one in results if isinstance(one, NodeFailure)])
    columns = max(counts, key=lambda one: (counts[one], one == tuple(known)))
    lines: list[bytes] = []
    failures: list[NodeFailure] = []
    for one in results:
        if isinstance(one, NodeFailure):
            failures.append(one)
        elif one.document.columns != columns:
            other = ", ".join(one.document.columns)
            failures.append(NodeUnusable(NodeFailureKind.OTHER_VERSION, f"other columns: {other}").of(one.node))
        else:
            prefix = f"[{json.dumps(one.node.name)},".encode()
            lines += [prefix + line[1:] for line in one.document.lines]
    return GatheredRows(with_node(columns), lines, failures, known_clocks(results))


def with_node(columns: Sequence[str]) -> tuple[str, ...]:
    """The columns of all nodes together. Raises BadInput if two have one name."""
    found = (NODE, *(NODE_LABEL if one.lower() == NODE else one for one in columns))
    if len({one.lower() for one in found}) < len(found):
        raise BadInput("two columns have one name", remedy="name them with AS")
    return found


def _columns(line: bytes) -> tuple[str, ...]:
    document = untrusted.mapping(untrusted.small_json_value(line))
    names = untrusted.sequence(untrusted.member(document, "columns"), _COLUMNS_MAX)
    if not names:
        raise Untrusted("no columns")
    return tuple(map(untrusted.text, names))


def _check_end(last: Mapping[str, Any], rows: int) -> None:
    if untrusted.count(untrusted.member(last, "rows")) != rows:
        raise Untrusted("the answer has not as many rows as its last line says")
    if not untrusted.switch(untrusted.member(last, "is_complete")):
        raise NodeUnusable(
            NodeFailureKind.TOO_LARGE, f"more than {ROWS_MAX:,} rows or 8 MiB; add a WHERE, a GROUP BY or a LIMIT"
        )


def _check_row(line: bytes, columns: int) -> None:
    """The name of the node is put behind the bracket: it must be the first byte."""
    is_short = len(line) <= _SHORT_BYTES
    row = untrusted.small_json_value(line) if is_short else untrusted.json_value(line, len(line), 2 * _COLUMNS_MAX)
    if not line.startswith(b"[") or len(row) != columns or not all(map(_is_value, row)):
        raise Untrusted(f"a row is not {columns} values")


def _is_value(value: Any) -> bool:
    match value:
        case bool():
            return False
        case int():
            return -_INTEGER_MAX <= value < _INTEGER_MAX
        case float():
            return math.isfinite(value)
    return value is None or isinstance(value, str)
