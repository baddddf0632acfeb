"""host.tenant_reads: a process that does not answer delays the tick once."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.host.processes import Processes
from exporter.host.reader import TenantReader
from exporter.host.tenant_reads import TenantReads
from tests.unit.host.process_tree import process

OWNERS = {7: "victim", **dict.fromkeys(range(8, 13), "hostile")}
PATIENCE_SECONDS = 1.0


@pytest.fixture
def unanswered() -> list[bool]:
    """One for each read that was given up."""
    return []


@pytest.fixture
def reads(tmp_path: Path, unanswered: list[bool]) -> Iterator[TenantReads]:
    """The environments of processes 8, 10, 11 and 12 do not answer."""
    for tgid in OWNERS:
        process(tmp_path, tgid, cmdline=b"python\0", maps=b"")
    for tgid in (7, 9):
        (tmp_path / str(tgid) / "environ").write_bytes(b"RANK=3\0")
    for tgid in (8, 10, 11, 12):
        os.mkfifo(tmp_path / str(tgid) / "environ")
    reader = TenantReader(Processes(tmp_path), PATIENCE_SECONDS)
    reads = TenantReads(reader, OWNERS.__getitem__, lambda: unanswered.append(True))
    yield reads
    reads.close()


class TestReads:
    def test_everything_is_read(self, reads: TenantReads) -> None:
        assert reads.environment(7, ["RANK"]) == {"RANK": "3"}
        assert reads.programs(7)[0].arguments == ("python",)
        assert reads.mapped_libraries(7) == frozenset()

    def test_what_does_not_answer_is_empty_and_counted(self, reads: TenantReads, unanswered: list[bool]) -> None:
        assert (reads.environment(8, ["RANK"]), unanswered) == ({}, [True])

    def test_other_owners_are_read_afterwards(self, reads: TenantReads) -> None:
        reads.environment(8, ["RANK"])

        assert reads.environment(7, ["RANK"]) == {"RANK": "3"}

    def test_other_processes_of_its_owner_are_read_until_three_do_not_answer(self, reads: TenantReads) -> None:
        reads.environment(8, ["RANK"])
        after_one = reads.environment(9, ["RANK"])
        for tgid in (10, 11):
            reads.environment(tgid, ["RANK"])
        started_at = time.monotonic()

        assert (after_one, reads.environment(9, ["RANK"])) == ({"RANK": "3"}, {})
        assert reads.environment(12, ["RANK"]) == {}
        assert time.monotonic() - started_at < PATIENCE_SECONDS
