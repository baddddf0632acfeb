"""keeper: a capsule of each chain, in a directory that stays small."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from exporter.chains.chain import Change, End, Transition
from exporter.chains.event import ChainEvent
from exporter.chains.remedies import ProcessContext
from exporter.clock import Moment
from exporter.recording import writer as capsule_keeper
from exporter.recording.file import RecordedProcess, read
from exporter.recording.ring import RowRing
from exporter.recording.writer import AFTER_SECONDS, RecordingWriter
from tests.support.chains import SECOND, a_chain

UNIX_NS = 1_800_000_000 * SECOND


class Bench:
    """A keeper, tick by tick of a second."""

    def __init__(self, directory: Path) -> None:
        self.keeper = RecordingWriter(directory, "gpu7", RowRing(), lambda: {1: RecordedProcess(None, 100)})
        self.now = Moment(100 * SECOND, UNIX_NS)

    def pass_seconds(self, seconds: int) -> None:
        """As many ticks."""
        for _ in range(seconds):
            self.now = Moment(self.now.monotonic_ns + SECOND, self.now.unix_ns + SECOND)
            self.keeper.tick(self.now)

    def say(self, chain_id: str = "1" * 32, change: Change = Change.OPENED) -> None:
        """Of a chain."""
        chain = a_chain(id=chain_id)
        transition = Transition(change, chain) if change is not Change.RESOLVED else chain.resolved(1, End.RECOVERED)
        self.keeper.on_chain_event(ChainEvent.from_transition(transition, None, ProcessContext(100), self.now))

    def close(self) -> None:
        """The exporter stops."""
        self.keeper.close(self.now)


class TestKeeper:
    """Of chains that open."""

    def test_capsule_is_written_behind_the_opening(self, tmp_path: Path) -> None:
        """With the seconds before and after it, and what was said meanwhile."""
        bench = Bench(tmp_path / "new" / "capsules")
        bench.pass_seconds(20)
        bench.say()
        bench.pass_seconds(5)
        bench.say(change=Change.ESCALATED)
        bench.pass_seconds(AFTER_SECONDS)
        bench.close()
        (path,) = (tmp_path / "new" / "capsules").iterdir()
        found = read(path)

        assert path.name == f"{'1' * 32}.capsule"
        assert [report.change for report in found.reports] == [Change.OPENED, Change.ESCALATED]
        assert len(list(found.ticks())) == 20 + 1 + AFTER_SECONDS
        assert found.processes == {1: RecordedProcess(None, 100)}

    def test_chains_of_one_moment_share_a_capsule(self, tmp_path: Path) -> None:
        """It has the name of the first."""
        bench = Bench(tmp_path)
        bench.pass_seconds(1)
        bench.say("1" * 32)
        bench.pass_seconds(3)
        bench.say("2" * 32)
        bench.pass_seconds(AFTER_SECONDS)
        bench.close()

        assert [one.name for one in tmp_path.iterdir()] == [f"{'1' * 32}.capsule"]
        assert len(read(tmp_path / f"{'1' * 32}.capsule").reports) == 2

    def test_end_of_an_old_chain_is_no_reason_for_one(self, tmp_path: Path) -> None:
        """Nor that it becomes worse: its capsule has been written."""
        bench = Bench(tmp_path)
        bench.say(change=Change.ESCALATED)
        bench.say(change=Change.RESOLVED)
        bench.pass_seconds(2 * AFTER_SECONDS)
        bench.close()

        assert list(tmp_path.iterdir()) == []

    def test_stop_leaves_nothing_behind(self, tmp_path: Path) -> None:
        """What was due later is written at once."""
        bench = Bench(tmp_path)
        bench.pass_seconds(1)
        bench.say()
        bench.pass_seconds(1)
        bench.close()

        assert len(list(tmp_path.iterdir())) == 1

    def test_oldest_go_when_there_are_too_many(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Files that are no capsules stay."""
        monkeypatch.setattr(capsule_keeper, "MAX_FILES", 2)
        for age, name in enumerate(("c.capsule", "b.capsule", "a.capsule", "notes.txt")):
            (tmp_path / name).touch()
            os.utime(tmp_path / name, (1000 + age, 1000 + age))
        bench = Bench(tmp_path)
        bench.pass_seconds(1)
        bench.say()
        bench.pass_seconds(1)
        bench.close()

        assert {one.name for one in tmp_path.iterdir()} == {"a.capsule", "notes.txt", f"{'1' * 32}.capsule"}

    def test_directory_that_cannot_be_is_told_once(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        """The exporter goes on."""
        (tmp_path / "file").touch()
        bench = Bench(tmp_path / "file" / "capsules")
        bench.pass_seconds(1)
        for _ in range(2):
            bench.say()
            bench.pass_seconds(AFTER_SECONDS + 1)
        bench.close()

        assert [record.getMessage().split(":")[0] for record in caplog.records] == ["no capsules are kept"]
