"""host.tenant_reads: a process that does not answer delays the tick once."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from exporter.errors import NoAnswer
from exporter.host.processes import Processes
from exporter.host.reader import TenantReader
from exporter.host.tenant_reads import TenantReads
from tests.support.patience import PATIENCE_SECONDS
from tests.unit.host.process_tree import process

OWNERS = {7: "victim", **dict.fromkeys(range(8, 13), "hostile")}


@pytest.fixture
def unanswered() -> list[bool]:
    """One for each read that was given up."""
    return []


@pytest.fixture
def reads(tmp_path: Path, unanswered: list[bool]) -> Iterator[TenantReads]:
    """The environments of processes 8, 10, 11 and 12 do not answer."""
    for tgid in OWNERS:
        process(tmp_path, tgid, cmdline=b"python\0", maps=b"")
        (tmp_path / str(tgid) / "environ").write_bytes(b"RANK=3\0")
    reads = TenantReads(HangingReader(tmp_path), OWNERS.__getitem__, lambda: unanswered.append(True))
    yield reads
    reads.close()


class HangingReader(TenantReader):
    """Processes 8, 10, 11 and 12 do not answer; it does not wait for them."""

    def __init__(self, proc: Path) -> None:
        super().__init__(Processes(proc), PATIENCE_SECONDS)

    def environment(
        self, tgid: int, names: Collection[str], *, with_copy: bool = True, expected: Collection[str] = ()
    ) -> dict[str, str]:
        if tgid in (8, 10, 11, 12):
            raise NoAnswer("no answer within 0.25 s")
        return super().environment(tgid, names, with_copy=with_copy, expected=expected)


class SlowReader(TenantReader):
    """Every environment takes a tenth of a second; it notes which copies it was to look for."""

    def __init__(self, proc: Path) -> None:
        super().__init__(Processes(proc), PATIENCE_SECONDS)
        self.now = 0.0
        self.copies: list[tuple[int, bool]] = []

    def environment(
        self, tgid: int, names: Collection[str], *, with_copy: bool = True, expected: Collection[str] = ()
    ) -> dict[str, str]:
        self.now += 0.1
        self.copies.append((tgid, with_copy))
        return {}


class TestCopies:
    def test_owner_that_takes_long_gets_none_looked_for(self, tmp_path: Path) -> None:
        """After half a second; others do. It gets a twentieth of a second for each that passes."""
        reader = SlowReader(tmp_path)
        reads = TenantReads(reader, OWNERS.__getitem__, lambda: None, lambda: reader.now)
        for tgid in (8, 9, 10, 11, 12, 8, 7):
            reads.environment(tgid, ["RANK"])
        reader.now += 10
        reads.environment(9, ["RANK"])

        assert [with_copy for _, with_copy in reader.copies] == [True] * 5 + [False, True, True]


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

    def test_other_processes_of_its_owner_are_read_until_three_do_not_answer(
        self, reads: TenantReads, unanswered: list[bool]
    ) -> None:
        reads.environment(8, ["RANK"])
        after_one = reads.environment(9, ["RANK"])
        for tgid in (10, 11):
            reads.environment(tgid, ["RANK"])

        assert (after_one, reads.environment(9, ["RANK"])) == ({"RANK": "3"}, {})
        assert reads.environment(12, ["RANK"]) == {}
        assert len(unanswered) == 3
