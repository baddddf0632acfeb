"""process_names: names of processes for people, and the answer to a --workload that selects none."""

from __future__ import annotations

import pytest

from exporter.history.process_names import no_match, process_name
from exporter.model import Identity


class TestProcessName:
    @pytest.mark.parametrize(
        ("identity", "tgid", "comm", "name"),
        [
            (Identity(rank="3", pod="trainer-0"), 100, "python", "rank 3 (pod trainer-0)"),
            (Identity(rank="0", container="0123456789ab"), 100, "", "rank 0 (container 0123456789ab)"),
            (Identity(rank="0"), 4027, "python", "rank 0 (pid 4027)"),
            (Identity(rank="0"), 0, "", "rank 0"),
            (None, 4027, "python", "pid 4027 (python)"),
            (None, 0, "", "a process in another pid namespace"),
        ],
    )
    def test_name(self, identity: Identity | None, tgid: int, comm: str, name: str) -> None:
        assert process_name(identity, tgid, comm) == name


class TestNoMatch:
    def test_known_processes_are_named_once(self) -> None:
        refusal = no_match("rank=7", ["rank 3", "rank 0", "rank 3"])

        assert refusal.one_line() == "--workload: no process matches 'rank=7'; there are rank 0, rank 3"

    def test_only_the_first_twelve_are_named(self) -> None:
        assert no_match("x", [f"rank {number:02}" for number in range(14)]).remedy.endswith("rank 11 and 2 more")

    def test_without_any_process_a_longer_time_is_advised(self) -> None:
        assert no_match("x", []).remedy == "no process made a traced call in this time; increase --since"
