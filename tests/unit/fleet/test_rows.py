"""fleet.rows: what a node answers, and rows of all nodes."""

from __future__ import annotations

import pytest

from exporter.errors import BadInput
from exporter.fleet.asking import NodeAnswer
from exporter.fleet.failure import NodeFailure, NodeFailureKind, NodeUnusable
from exporter.fleet.node import Node
from exporter.fleet.rows import ROWS_MAX, NodeRows, gathered, rows_reader, rows_request, with_node
from exporter.http_client.deadline import Deadline
from exporter.text.untrusted import Untrusted
from tests.support.patience import PATIENCE_SECONDS

HEAD = b'{"columns": ["rank", "steps"]}\n'
END = b'{"rows": 1, "is_complete": true}\n'
WANTED = ("rank", "steps")


def read(body: bytes) -> NodeRows:
    return rows_reader(Deadline.after(PATIENCE_SECONDS))(bytearray(body))


def answer(name: str, columns: tuple[str, ...], *lines: bytes) -> NodeAnswer[NodeRows]:
    return NodeAnswer(Node(name, name), NodeRows(columns, lines), 0.1)


class TestRequest:
    def test_is_a_post_that_accepts_lines(self) -> None:
        request = rows_request({"statement": "select 1"})

        assert (request.method, request.target, request.body) == (
            "POST",
            "/api/v1/sql",
            b'{"statement": "select 1"}',
        )
        assert request.headers["Accept"] == "application/x-ndjson"


class TestReader:
    """Answers of nodes that are not trusted."""

    def test_values_of_every_kind(self) -> None:
        assert read(HEAD + b'["3",1742]\n' + END) == NodeRows(WANTED, [b'["3",1742]'])
        assert read(HEAD + b"[null,-1.5]\n" + END).lines == [b"[null,-1.5]"]

    def test_no_rows(self) -> None:
        assert read(HEAD + b'{"rows": 0, "is_complete": true}\n') == NodeRows(WANTED, [])

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"\n",
            HEAD,
            HEAD + b'["3",1]\n',
            HEAD + b'["3",1]\n' + END[:-2],
            b'{"columns": []}\n[]\n' + END,
            b'{"columns": "rank"}\n["3"]\n' + END,
            b'[]\n["3"]\n' + END,
            HEAD + b'["3",1]\n["4",1]\n' + END,
            HEAD + b'["3"]\n' + END,
            HEAD + b'["3",1,2]\n' + END,
            HEAD + b'["3",[1]]\n' + END,
            HEAD + b'["3",true]\n' + END,
            HEAD + b'["3",1e999]\n' + END,
            HEAD + b'["3",NaN]\n' + END,
            HEAD + b'["3",9223372036854775808]\n' + END,
            HEAD + b' ["3",1]\n' + END,
            HEAD + b'"3"\n' + END,
            HEAD + b'["3",1],["4"\n' + END,
            HEAD + b'["\xff",1]\n' + END,
            HEAD + b"[" + b"[]," * 20_000 + b"[]]\n" + END,
            HEAD + b"[" * 100_000 + b"\n" + END,
            b"\n" * (ROWS_MAX + 3),
        ],
    )
    def test_anything_else_is_not_readable(self, body: bytes) -> None:
        with pytest.raises(Untrusted):
            read(body)

    def test_rows_that_were_left_out_are_a_failure(self) -> None:
        """An aggregate over some of the rows is wrong."""
        with pytest.raises(NodeUnusable, match="more than 50,000 rows or 8 MiB; add a WHERE") as raised:
            read(HEAD + b'["3",1]\n{"rows": 1, "is_complete": false}\n')
        assert raised.value.kind is NodeFailureKind.TOO_LARGE

    def test_reading_ends_at_the_deadline(self) -> None:
        over = Deadline(0.0, "no complete answer within 1 s")
        with pytest.raises(NodeUnusable, match="no complete answer within 1 s") as raised:
            rows_reader(over)(bytearray(HEAD + b'["3",1]\n' + END))
        assert raised.value.kind is NodeFailureKind.TOO_SLOW


class TestGathered:
    """All nodes."""

    def test_name_of_the_node_comes_first(self) -> None:
        found = gathered([answer("a", WANTED, b'["3",1]'), answer("b", WANTED, b'["4",2]', b'["5",3]')], WANTED)

        assert found.columns == ("node", "rank", "steps")
        assert found.lines == [b'["a","3",1]', b'["b","4",2]', b'["b","5",3]']
        assert found.failures == []

    def test_failures_stand_beside_the_rows(self) -> None:
        failure = NodeFailure(Node("b", "b"), NodeFailureKind.UNREACHABLE, "connection refused")
        found = gathered([failure, answer("a", WANTED, b'["3",1]')], WANTED)

        assert (found.lines, found.failures) == ([b'["a","3",1]'], [failure])

    def test_node_with_other_columns_is_of_another_version(self) -> None:
        found = gathered([answer("a", WANTED), answer("b", ("rank",), b'["4"]'), answer("c", WANTED)], ("x",))

        assert found.lines == []
        assert found.failures == [
            NodeFailure(Node("b", "b"), NodeFailureKind.OTHER_VERSION, "other columns: rank"),
        ]

    def test_columns_of_this_version_decide_between_two(self) -> None:
        found = gathered([answer("a", ("rank",), b'["3"]'), answer("b", WANTED, b'["4",1]')], WANTED)

        assert found.lines == [b'["b","4",1]']
        assert [one.node.name for one in found.failures] == ["a"]

    def test_without_any_answer_there_are_no_columns(self) -> None:
        failure = NodeFailure(Node("b", "b"), NodeFailureKind.UNREACHABLE, "connection refused")

        assert gathered([failure], WANTED) == ((), [], [failure], {})


class TestColumns:
    def test_own_column_node_is_the_label_of_the_node(self) -> None:
        assert with_node(("node", "rank")) == ("node", "node_label", "rank")

    @pytest.mark.parametrize("columns", [("rank", "rank"), ("a", "A"), ("node", "node_label")])
    def test_two_columns_of_one_name_are_refused(self, columns: tuple[str, ...]) -> None:
        with pytest.raises(BadInput, match="two columns have one name"):
            with_node(columns)
