"""query --nodes: rows and failures of several nodes, with real servers and TLS."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from exporter.__main__ import main
from tests.support.certificates import Certificates
from tests.support.fleet import clock, nodes_with, without_clocks
from tests.support.network_fixtures import issued, nothing_left_open, without_proxy
from tests.support.receiver import Entry, answer, refused
from tests.support.traced import only

__all__ = ["issued", "nothing_left_open", "without_proxy"]
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
PATIENCE = ("--deadline=20s", "--nodes.deadline=60s")
SELECT = "select rank, steps from steps"


def rows(*lines: str, columns: tuple[str, ...] = ("rank", "steps")) -> Entry:
    """The answer of a node."""
    end = {"rows": len(lines), "is_complete": True}
    body = "\n".join((json.dumps({"columns": columns}), *lines, json.dumps(end), ""))
    return answer(200, body.encode(), content_type="application/x-ndjson")


@contextmanager
def fleet(issued: Certificates, *scripts: Entry, has_dead_node: bool = False) -> Iterator[tuple[list[str], list[str]]]:
    """Flags for these nodes, and their names."""
    with nodes_with(issued, *([one] for one in scripts)) as (nodes, _), refused() as dead:
        names = [f"{node.host}:{node.port}" for node in nodes]
        names += [dead.removeprefix("http://")] if has_dead_node else []
        yield [f"--nodes={','.join(names)}", f"--nodes.ca={issued.authority}", *PATIENCE], names


class TestRows:
    """Rows of all nodes."""

    def test_name_of_the_node_is_the_first_column(
        self, issued: Certificates, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with fleet(issued, rows('["3",10]'), rows('["4",20]', '["5",30]')) as (flags, (first, second)):
            assert main(["query", *flags, "--format=csv", SELECT]) == 0

        assert capsys.readouterr() == (f"node,rank,steps\n{first},3,10\n{second},4,20\n{second},5,30\n", "")

    def test_every_node_gets_the_statement_and_the_span(self, issued: Certificates) -> None:
        with nodes_with(issued, [rows()]) as (nodes, servers):
            named = f"--nodes={nodes[0].host}:{nodes[0].port}"
            main(["query", named, f"--nodes.ca={issued.authority}", *PATIENCE, "--since=6h", "--resolution=1m", SELECT])
            request = only(without_clocks(only(servers)))

        assert (request.path, request.headers["Accept"]) == ("/api/v1/sql", "application/x-ndjson")
        assert json.loads(request.body) == {"statement": SELECT, "since": "6h", "resolution": "1m"}

    def test_end_of_the_span_is_the_same_moment_in_every_time_zone(self, issued: Certificates) -> None:
        with nodes_with(issued, [rows()]) as (nodes, servers):
            named = f"--nodes={nodes[0].host}:{nodes[0].port}"
            main(["query", named, f"--nodes.ca={issued.authority}", *PATIENCE, "--at=2026-01-15T15:02+01:00", SELECT])
            request = only(without_clocks(only(servers)))

        assert json.loads(request.body)["at"] == "2026-01-15T14:02:00+00:00"

    def test_merge_is_a_statement_over_the_rows_of_all(
        self, issued: Certificates, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with fleet(issued, rows('["3",10]'), rows('["3",20]')) as (flags, _):
            merge = "--merge=select rank, sum(steps) as steps, count(distinct node) as nodes from rows group by rank"
            assert main(["query", *flags, "--format=jsonl", merge, SELECT]) == 0

        assert json.loads(capsys.readouterr().out) == {"rank": "3", "steps": 30, "nodes": 2}

    def test_merge_may_refuse_what_only_the_rows_show(
        self, issued: Certificates, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with fleet(issued, rows('["3",10]')) as (flags, _):
            merge = "--merge=with recursive n(x) as (select steps from rows union all select x from n) select count(*) from n"
            assert main(["query", *flags, "--deadline=100ms", merge, SELECT]) == 2

        assert "took more than 0.1 s" in capsys.readouterr().err

    def test_clock_that_is_off_is_a_warning_on_standard_error(
        self, issued: Certificates, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with nodes_with(issued, [rows('["3",10]'), clock(3630 * 10**9)]) as ((node,), _):
            flags = (f"--nodes={node.host}:{node.port}", f"--nodes.ca={issued.authority}", *PATIENCE)
            assert main(["query", *flags, "--format=csv", SELECT]) == 0
        printed = capsys.readouterr()

        assert printed.out == f"node,rank,steps\n{node.host},3,10\n"
        assert printed.err.startswith(f"warning: the clock of {node.host} is 1 h ahead, ± ")


class TestFailures:
    """Nodes that do not answer: exit code 4."""

    def test_in_a_table_they_are_lines_on_standard_error(
        self, issued: Certificates, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with fleet(issued, rows('["3",10]'), has_dead_node=True) as (flags, (first, dead)):
            assert main(["query", *flags, "--format=csv", SELECT]) == 4

        assert capsys.readouterr() == (
            f"node,rank,steps\n{first},3,10\n",
            f"{dead}: unreachable: connection refused\n",
        )

    @pytest.mark.parametrize("form", ["json", "jsonl"])
    def test_for_programs_they_are_rows_with_a_failure(
        self, form: str, issued: Certificates, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with fleet(issued, rows('["3",10]'), has_dead_node=True) as (flags, (first, dead)):
            assert main(["query", *flags, f"--format={form}", SELECT]) == 4
        printed = capsys.readouterr()
        found = json.loads(printed.out) if form == "json" else [*map(json.loads, printed.out.splitlines())]

        assert found == [
            {"node": first, "rank": "3", "steps": 10},
            {"node": dead, "failure": "unreachable", "message": "connection refused"},
        ]
        assert printed.err == ""

    def test_merge_is_over_the_nodes_that_answered(
        self, issued: Certificates, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with fleet(issued, rows('["3",10]'), has_dead_node=True) as (flags, _):
            assert main(["query", *flags, "--format=csv", "--merge=select count(*) as n from rows", SELECT]) == 4

        assert capsys.readouterr().out == "n\n1\n"

    def test_where_all_are_required_nothing_else_is_printed(
        self, issued: Certificates, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with fleet(issued, rows('["3",10]'), has_dead_node=True) as (flags, (_, dead)):
            assert main(["query", *flags, "--require-all", "--merge=select count(*) from rows", SELECT]) == 4

        assert capsys.readouterr() == ("", f"{dead}: unreachable: connection refused\n")

    def test_without_any_answer_only_failures_are_printed(
        self, issued: Certificates, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A host with one node is its name."""
        with fleet(issued, has_dead_node=True) as (flags, _):
            assert main(["query", *flags, "--format=json", SELECT]) == 4

        assert json.loads(capsys.readouterr().out) == [
            {"node": "127.0.0.1", "failure": "unreachable", "message": "connection refused"}
        ]

    def test_node_with_other_columns_is_named(self, issued: Certificates, capsys: pytest.CaptureFixture[str]) -> None:
        with fleet(issued, rows('["3",10]'), rows('["3"]', columns=("rank",))) as (flags, (first, other)):
            assert main(["query", *flags, "--format=csv", SELECT]) == 4

        assert capsys.readouterr() == (
            f"node,rank,steps\n{first},3,10\n",
            f"{other}: other version: other columns: rank\n",
        )
