"""export --nodes: the timelines and the failures of several nodes, with real servers and TLS."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from exporter.__main__ import main
from exporter.timeline import perfetto
from exporter.timeline.item import Slice, Track
from tests.support.certificates import Certificates
from tests.support.fleet import clock, nodes_with, without_clocks
from tests.support.network_fixtures import issued, nothing_left_open, without_proxy
from tests.support.receiver import Entry, answer, refused
from tests.support.traced import only

__all__ = ["issued", "nothing_left_open", "without_proxy"]
MEDIA_TYPE = "application/vnd.perfetto.trace"
RANK = Track(2, "rank 3", Track(1, "node", is_process=True), is_process=True)


def timeline(name: str) -> Entry:
    """The answer of a node: a slice of this name."""
    body = b"".join(perfetto.encoded([Slice(RANK, "chain", name, 1000, 2000, {})]))
    return answer(200, body, content_type=MEDIA_TYPE)


@contextmanager
def fleet(issued: Certificates, *scripts: Entry, has_dead_node: bool = False) -> Iterator[tuple[list[str], list[str]]]:
    """Flags for these nodes, and their names."""
    with nodes_with(issued, *([one] for one in scripts)) as (nodes, _), refused() as dead:
        names = [f"{node.host}:{node.port}" for node in nodes]
        names += [dead.removeprefix("http://")] if has_dead_node else []
        yield [f"--nodes={','.join(names)}", f"--nodes.ca={issued.authority}", "--nodes.deadline=60s"], names


class TestTimeline:
    def test_nodes_are_processes_of_one_document(
        self, issued: Certificates, capsysbinary: pytest.CaptureFixture[bytes]
    ) -> None:
        with fleet(issued, timeline("steal"), timeline("irq")) as (flags, names):
            assert main(["export", *flags, "--format=chrome", "--output=-"]) == 0
        events = json.loads(capsysbinary.readouterr().out)["traceEvents"]
        process_of = {one["pid"]: one["args"]["name"] for one in events if one["name"] == "process_name"}

        assert {one["name"]: process_of[one["pid"]] for one in events if one["ph"] == "X"} == {
            "steal": f"node {names[0]} (clock offset unknown), rank 3",
            "irq": f"node {names[1]} (clock offset unknown), rank 3",
        }

    def test_trace_for_perfetto_has_the_names_of_the_nodes(
        self, issued: Certificates, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "t.pftrace"
        with fleet(issued, timeline("steal"), timeline("irq")) as (flags, names):
            assert main(["export", *flags, f"--output={path}"]) == 0

        assert capsys.readouterr().out.startswith(f"wrote {path}, ")
        assert all(f"node {name}".encode() in path.read_bytes() for name in names)

    def test_every_node_gets_the_span_and_the_workload(self, issued: Certificates, tmp_path: Path) -> None:
        with nodes_with(issued, [timeline("steal")]) as (nodes, servers):
            named = f"--nodes={nodes[0].host}:{nodes[0].port}"
            chosen = ("--since=90s", "--workload=rank=3", f"--output={tmp_path / 't'}")
            main(["export", named, f"--nodes.ca={issued.authority}", "--nodes.deadline=60s", *chosen])

            assert only(without_clocks(only(servers))).path == "/api/v1/timeline?since=90s&workload=rank%3D3"

    def test_folder_gets_a_file_of_each_node(
        self, issued: Certificates, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with fleet(issued, timeline("steal"), timeline("irq")) as (flags, names):
            assert main(["export", *flags, f"--output={tmp_path}"]) == 0
        files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

        assert {name: [what for what in (b"steal", b"irq") if what in body] for name, body in files.items()} == {
            f"{names[0].replace(':', '_')}.pftrace": [b"steal"],
            f"{names[1].replace(':', '_')}.pftrace": [b"irq"],
        }
        assert capsys.readouterr().out.count("wrote ") == 2


class TestClocks:
    def test_offset_stands_in_the_name_of_the_group(
        self, issued: Certificates, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """An hour ahead: that is a warning, too, and no time is corrected by it."""
        path = tmp_path / "t.json"
        with nodes_with(issued, [timeline("steal"), clock(3600 * 10**9)]) as (nodes, _):
            named = f"--nodes={nodes[0].host}:{nodes[0].port}"
            flags = (f"--nodes.ca={issued.authority}", "--nodes.deadline=60s", "--format=chrome", f"--output={path}")
            assert main(["export", named, *flags]) == 0
        events = json.loads(path.read_text())["traceEvents"]

        (group,) = [one["args"]["name"] for one in events if one["name"] == "process_name"]

        assert re.fullmatch(r"node 127\.0\.0\.1 \(clock .* ahead, ± .*\), rank 3", group)
        assert [one["ts"] for one in events if one["ph"] == "X"] == [1]
        assert capsys.readouterr().err.startswith("warning: the clock of 127.0.0.1 is ")


class TestFailures:
    def test_timeline_has_the_nodes_that_answered(
        self, issued: Certificates, capsysbinary: pytest.CaptureFixture[bytes]
    ) -> None:
        """A dead one, and one that sends a page."""
        page = answer(200, b"<html>", content_type=MEDIA_TYPE)
        with fleet(issued, timeline("steal"), page, has_dead_node=True) as (flags, names):
            assert main(["export", *flags, "--output=-"]) == 4
        printed = capsysbinary.readouterr()

        assert b"steal" in printed.out
        lines = sorted(printed.err.decode().splitlines())
        assert lines == sorted(
            [
                f"{names[2]}: unreachable: connection refused",
                f"{names[1]}: not readable: not a Perfetto trace: a field of a type that there is none of",
            ]
        )

    def test_nothing_is_written_where_all_are_required(
        self, issued: Certificates, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "t.pftrace"
        with fleet(issued, timeline("steal"), has_dead_node=True) as (flags, _):
            assert main(["export", *flags, "--require-all", f"--output={path}"]) == 4

        assert not path.exists()
        assert capsys.readouterr().err.endswith(": unreachable: connection refused\n")

    def test_node_without_a_traced_call_is_named_and_is_no_failure(
        self, issued: Certificates, capsysbinary: pytest.CaptureFixture[bytes]
    ) -> None:
        silent = answer(200, b"", content_type=MEDIA_TYPE)
        with fleet(issued, timeline("steal"), silent) as (flags, names):
            assert main(["export", *flags, "--output=-"]) == 0

        assert capsysbinary.readouterr().err.decode() == (f"{names[1]}: no process made a traced call in this time\n")

    def test_without_any_traced_call_there_is_no_file(
        self, issued: Certificates, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "t.pftrace"
        with fleet(issued, answer(200, b"", content_type=MEDIA_TYPE)) as (flags, _):
            assert main(["export", *flags, f"--output={path}"]) == 3

        assert not path.exists()
        assert "no process made a traced call on these nodes" in capsys.readouterr().err


class TestCombinations:
    @pytest.mark.parametrize("flag", ["recording", "history.path"])
    def test_files_of_one_node_are_refused(self, flag: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["export", "--nodes=gpu1", f"--{flag}=f"]) == 2
        assert f"--{flag} cannot be combined with --nodes" in capsys.readouterr().err
