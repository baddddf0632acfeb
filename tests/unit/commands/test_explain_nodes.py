"""explain --nodes: the verdict about a job and the failures of several nodes, with real servers and TLS."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from exporter.__main__ import main
from exporter.fleet.rank_report import NodeReport
from tests.support.certificates import Certificates
from tests.support.fleet import clock, nodes_with, without_clocks
from tests.support.network_fixtures import issued, nothing_left_open, without_proxy
from tests.support.rank_reports import a_node, a_rank
from tests.support.receiver import Entry, answer, refused
from tests.support.traced import only
from tests.unit.fleet.test_job_verdict import late, victims

__all__ = ["issued", "nothing_left_open", "without_proxy"]
FIRST, SECOND = a_node(*victims(0, 1)), a_node(*victims(2), late(3))


def ranks(report: NodeReport) -> Entry:
    """The answer of a node."""
    return answer(200, json.dumps(report.to_document()).encode(), content_type="application/json")


@contextmanager
def fleet(issued: Certificates, *scripts: Entry, has_dead_node: bool = False) -> Iterator[tuple[list[str], list[str]]]:
    """Flags for these nodes, and their names."""
    with nodes_with(issued, *([one] for one in scripts)) as (nodes, _), refused() as dead:
        names = [f"{node.host}:{node.port}" for node in nodes]
        names += [dead.removeprefix("http://")] if has_dead_node else []
        yield [f"--nodes={','.join(names)}", f"--nodes.ca={issued.authority}", "--nodes.deadline=60s"], names


class TestVerdict:
    def test_late_rank_of_the_job_is_named_with_its_node(
        self, issued: Certificates, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with fleet(issued, ranks(FIRST), ranks(SECOND)) as (flags, (_, second)):
            assert main(["explain", *flags]) == 0

        first, *others = capsys.readouterr().out.splitlines()
        assert (
            first == f"job of 4 ranks on 2 nodes (communicator 0000000000000abc): rank 3 on {second} is late for 1 min"
        )
        assert "  line       step (train.py:142)" in others

    def test_every_node_gets_the_span(self, issued: Certificates) -> None:
        with nodes_with(issued, [ranks(FIRST)]) as (nodes, servers):
            named = f"--nodes={nodes[0].host}:{nodes[0].port}"
            main(["explain", named, f"--nodes.ca={issued.authority}", "--nodes.deadline=60s", "--since=90s"])

            assert only(without_clocks(only(servers))).path == "/api/v1/ranks?since=90s"

    def test_cost_is_that_of_the_price(
        self, issued: Certificates, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """80 GPU-seconds at 9 USD per hour."""
        (tmp_path / "rates.toml").write_text("[usd_per_hour]\ndefault = 9.0\n")
        with fleet(issued, ranks(FIRST), ranks(SECOND)) as (flags, _):
            main(["explain", *flags, f"--rates={tmp_path / 'rates.toml'}", "--format=json"])

        (job,) = json.loads(capsys.readouterr().out)["jobs"]
        assert (job["kind"], round(job["lost_usd"], 2)) == ("slow_rank", 0.2)


class TestClocks:
    def test_clock_that_is_off_is_a_warning(self, issued: Certificates, capsys: pytest.CaptureFixture[str]) -> None:
        """That of the second node is 3,630 s behind, which changes nothing in the verdict."""
        with nodes_with(issued, [ranks(FIRST), clock()], [ranks(SECOND), clock(-3630 * 10**9)]) as (nodes, _):
            named = ",".join(f"{one.host}:{one.port}" for one in nodes)
            assert main(["explain", f"--nodes={named}", f"--nodes.ca={issued.authority}", "--nodes.deadline=60s"]) == 0

        printed = capsys.readouterr().out
        assert f"rank 3 on 127.0.0.1:{nodes[1].port} is late for 1 min" in printed
        assert f"clocks:\n  the clock of 127.0.0.1:{nodes[1].port} is 1 h behind, ± " in printed
        assert "clock offset unknown" not in printed


class TestFailures:
    def test_node_that_is_dead_and_one_that_is_hostile_fail_alone(
        self, issued: Certificates, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """One sends a rank of the cause `magic`."""
        hostile = a_node(a_rank()).to_document() | {"ranks": [{"chains": [{"cause": "magic"}]}]}
        garbage = answer(200, json.dumps(hostile).encode(), content_type="application/json")
        with fleet(issued, ranks(FIRST), ranks(SECOND), garbage, has_dead_node=True) as (flags, names):
            assert main(["explain", *flags]) == 4

        printed = capsys.readouterr().out
        assert f"rank 3 on {names[1]} is late" in printed
        assert "2 of 4 nodes failed:" in printed
        assert f"  {names[2]}: not readable: identity is missing" in printed
        assert f"  {names[3]}: unreachable: " in printed

    def test_failures_alone_are_printed_where_all_are_required(
        self, issued: Certificates, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with fleet(issued, ranks(FIRST), has_dead_node=True) as (flags, _):
            assert main(["explain", *flags, "--require-all", "--format=json"]) == 4

        found = json.loads(capsys.readouterr().out)
        assert (found["jobs"], found["nodes"], len(found["failed_nodes"])) == ([], [], 1)


class TestCombinations:
    @pytest.mark.parametrize(
        "flag", ["--at=10m", "--compare=10m", "--workload=rank=3", "--per-process", "--recording=f", "--confirm=1234"]
    )
    def test_flags_about_one_node_are_refused(self, flag: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["explain", "--nodes=gpu1", flag]) == 2
        assert "cannot be combined with --nodes" in capsys.readouterr().err

    def test_variable_that_names_the_nodes_is_named(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """No flag on the command line is the reason."""
        monkeypatch.setenv("GPUSTALL_NODES", "gpu1")
        assert main(["explain", "--at=10m"]) == 2

        assert (
            "--at cannot be combined with environment variable GPUSTALL_NODES; unset GPUSTALL_NODES, or use it on the"
            " node itself" in capsys.readouterr().err
        )

    def test_prices_are_for_nodes(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["explain", "--rates=rates.toml"]) == 2
        assert "--rates without --nodes" in capsys.readouterr().err
