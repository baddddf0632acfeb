"""top --nodes: the workloads and the failures of several nodes, with real servers and TLS."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from exporter.__main__ import main
from tests.support.certificates import Certificates
from tests.support.fleet import document, nodes_with
from tests.support.network_fixtures import issued, nothing_left_open, without_proxy
from tests.support.receiver import Entry, refused
from tests.support.traced import only
from tests.unit.fleet.test_node_view import a_process, an_explanation

__all__ = ["issued", "nothing_left_open", "without_proxy"]


def explanation(rank: str) -> Entry:
    """The answer of a node."""
    return document(json.dumps(an_explanation(processes=[a_process(rank=rank)], chains=[])))


@contextmanager
def fleet(issued: Certificates, *scripts: Entry, has_dead_node: bool = False) -> Iterator[tuple[list[str], list[str]]]:
    """Flags for these nodes, and their names."""
    with nodes_with(issued, *([one] for one in scripts)) as (nodes, _), refused() as dead:
        names = [f"{node.host}:{node.port}" for node in nodes]
        names += [dead.removeprefix("http://")] if has_dead_node else []
        yield [f"--nodes={','.join(names)}", f"--nodes.ca={issued.authority}", "--nodes.deadline=60s", "--once"], names


def printed(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


class TestOnce:
    def test_table_has_a_column_with_the_node(
        self, issued: Certificates, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("COLUMNS", "120")
        with fleet(issued, explanation("3"), explanation("4")) as (flags, names):
            assert main(["top", *flags, "--sort=rank"]) == 0
        lines = capsys.readouterr().out.splitlines()
        heading = next(number for number, line in enumerate(lines) if line.startswith("RANK"))

        assert "2 nodes" in lines[0]
        assert lines[heading].split()[:2] == ["RANK", "NODE"]
        assert [line.split()[:2] for line in lines[heading + 1 : heading + 3]] == [["3", names[0]], ["4", names[1]]]

    def test_document_has_the_workloads_of_all(self, issued: Certificates, capsys: pytest.CaptureFixture[str]) -> None:
        with fleet(issued, explanation("3"), explanation("4")) as (flags, names):
            assert main(["top", *flags, "--format=json"]) == 0

        assert {one["identity"]["node"] for one in printed(capsys)["workloads"]} == set(names)

    def test_node_that_failed_is_a_line(self, issued: Certificates, capsys: pytest.CaptureFixture[str]) -> None:
        with fleet(issued, explanation("3"), has_dead_node=True) as (flags, names):
            assert main(["top", *flags]) == 4

        assert f"{names[1]}: unreachable: connection refused" in capsys.readouterr().out.splitlines()

    def test_node_that_failed_is_a_row_for_programs(
        self, issued: Certificates, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with fleet(issued, explanation("3"), has_dead_node=True) as (flags, names):
            assert main(["top", *flags, "--format=json"]) == 4

        assert printed(capsys)["failed_nodes"] == [
            {"node": names[1], "failure": "unreachable", "message": "connection refused"}
        ]

    def test_failures_alone_where_all_are_required(
        self, issued: Certificates, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with fleet(issued, explanation("3"), has_dead_node=True) as (flags, _):
            assert main(["top", *flags, "--format=json", "--require-all"]) == 4
        found = printed(capsys)

        assert (found["workloads"], len(found["failed_nodes"])) == ([], 1)

    def test_every_node_gets_the_span(self, issued: Certificates) -> None:
        with nodes_with(issued, [explanation("3")]) as (nodes, servers):
            named = f"--nodes={nodes[0].host}:{nodes[0].port}"
            main(["top", named, f"--nodes.ca={issued.authority}", "--nodes.deadline=60s", "--once"])

            assert only(only(servers).requests).path == "/api/v1/explain?since=30s"


class TestCombinations:
    def test_metrics_of_one_exporter_are_refused(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["top", "--nodes=gpu1", "--url=gpu1:10478"]) == 2
        assert "--url cannot be combined with --nodes" in capsys.readouterr().err

    def test_interval_is_read_as_without_nodes(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["top", "--nodes=gpu1", "--interval=100ms"]) == 2
        assert "--interval: invalid value '100ms'" in capsys.readouterr().err
