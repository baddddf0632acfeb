"""Sixteen nodes, of which five fail, each in its own way: what a command prints about them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

import pytest

from tests.support.node_rig import (
    FAILING,
    GARBLED,
    HOLDING,
    NODES,
    REFUSING,
    SILENT,
    TRICKLING,
    NodeRig,
    answering,
    name_of,
    need_node_rig,
    node_rig,
    steps_of,
)
from tests.support.patience import PATIENCE_SECONDS

pytestmark = [pytest.mark.end_to_end, pytest.mark.acceptance]

DEADLINE: Final = "30s"
"""The answers are there within a second where nothing else runs. Those that fail would not come within minutes."""


class Printed(NamedTuple):
    exit_code: int
    document: Any


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeRig]:
    need_node_rig()
    with node_rig(tmp_path_factory.mktemp("rig")) as found:
        yield found


@pytest.fixture(scope="module")
def printed(rig: NodeRig) -> Mapping[str, Printed]:
    """By command. They run at the same time, since each waits for the deadline."""
    commands = {
        "explain": rig.command("explain", f"--nodes.deadline={DEADLINE}", "--format=json"),
        "query": rig.command(
            "query", f"--nodes.deadline={DEADLINE}", "--format=json", "select rank, steps from workloads"
        ),
    }
    with ThreadPoolExecutor(len(commands)) as pool:
        return dict(zip(commands, pool.map(_run, commands.values()), strict=True))


def _run(command: Sequence[str]) -> Printed:
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    return Printed(done.returncode, json.loads(done.stdout))


class TestExplain:
    def test_each_failure_has_its_kind(self, printed: Mapping[str, Printed]) -> None:
        """A node that sends a part of its answer is as slow as one that sends none or takes no connection."""
        found = {one["node"]: one["failure"] for one in printed["explain"].document["failed_nodes"]}

        assert printed["explain"].exit_code == 4
        assert found == {
            REFUSING: "unreachable",
            SILENT: "too_slow",
            GARBLED: "not_readable",
            TRICKLING: "too_slow",
            HOLDING: "too_slow",
        }

    def test_what_a_node_sends_does_not_reach_the_terminal(self, printed: Mapping[str, Printed]) -> None:
        (message,) = (one["message"] for one in printed["explain"].document["failed_nodes"] if one["node"] == GARBLED)

        assert message == r"response is not HTTP: it begins with b'\x00\x1b[2J'"

    def test_job_is_that_of_the_nodes_that_answer(self, printed: Mapping[str, Printed]) -> None:
        """Each of the 16 has a rank of the job, and 11 have answered."""
        (job,) = printed["explain"].document["jobs"]

        assert (job["ranks"], job["ranks_seen"]) == (16, 11)
        assert job["unseen_ranks"] == [2, 5, 8, 11, 14]

    def test_nodes_that_answer_are_in_their_order(self, printed: Mapping[str, Printed]) -> None:
        nodes = [one["node"] for one in printed["explain"].document["nodes"]]

        assert nodes == [name for name in map(name_of, range(1, NODES + 1)) if name not in FAILING]


class TestQuery:
    def test_rows_of_the_others_are_complete(self, printed: Mapping[str, Printed]) -> None:
        """Each history has one window, whose number of steps is that of its node alone."""
        found = printed["query"].document
        rows = [one for one in found if "failure" not in one]

        assert {one["node"] for one in found if "failure" in one} == {*FAILING}
        assert rows == [
            {"node": name_of(number), "rank": str(number - 1), "steps": steps_of(number)} for number in answering()
        ]
