"""writer: a recording of each chain, in a directory of bounded size."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from exporter.causes import Cause
from exporter.chains.chain import Change, End, Transition
from exporter.chains.event import ChainEvent
from exporter.chains.remedies import ProcessContext
from exporter.clock import Moment
from exporter.recording import writer as recording_writer
from exporter.recording.file import RecordedProcess, read
from exporter.recording.ring import RowRing
from exporter.recording.writer import AFTER_SECONDS, RecordingWriter
from tests.support.chains import SECOND, a_chain

UNIX_NS = 1_800_000_000 * SECOND


class Bench:
    """A writer with one tick per second."""

    def __init__(self, directory: Path) -> None:
        self.writer = RecordingWriter(directory, "gpu7", RowRing(), lambda: {1: RecordedProcess(None, 100)})
        self.now = Moment(100 * SECOND, UNIX_NS)

    def pass_seconds(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now = Moment(self.now.monotonic_ns + SECOND, self.now.unix_ns + SECOND)
            self.writer.tick(self.now)

    def send(
        self, chain_id: str = "1" * 32, change: Change = Change.OPENED, cause: Cause = Cause.CPU_CONTENTION
    ) -> None:
        chain = a_chain(id=chain_id, cause=cause)
        transition = Transition(change, chain) if change is not Change.RESOLVED else chain.resolved(1, End.RECOVERED)
        self.writer.on_chain_event(ChainEvent.from_transition(transition, None, ProcessContext(100), self.now))

    def close(self) -> None:
        self.writer.close(self.now)


class TestWriter:
    def test_recording_is_written_some_seconds_after_the_opening(self, tmp_path: Path) -> None:
        """With the seconds before and after it, and the events until then."""
        bench = Bench(tmp_path / "new" / "capsules")
        bench.pass_seconds(20)
        bench.send()
        bench.pass_seconds(5)
        bench.send(change=Change.ESCALATED)
        bench.pass_seconds(AFTER_SECONDS)
        bench.close()
        (path,) = (tmp_path / "new" / "capsules").iterdir()
        found = read(path)

        assert path.name == f"{'1' * 32}.capsule"
        assert [event.change for event in found.events] == [Change.OPENED, Change.ESCALATED]
        assert len(list(found.ticks())) == 20 + 1 + AFTER_SECONDS
        assert found.processes == {1: RecordedProcess(None, 100)}

    def test_chains_that_open_together_share_a_recording(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """It has the id of the first; the log has both."""
        caplog.set_level("INFO")
        bench = Bench(tmp_path)
        bench.pass_seconds(1)
        bench.send("1" * 32)
        bench.pass_seconds(3)
        bench.send("2" * 32)
        bench.pass_seconds(AFTER_SECONDS)
        bench.close()

        assert [one.name for one in tmp_path.iterdir()] == [f"{'1' * 32}.capsule"]
        assert len(read(tmp_path / f"{'1' * 32}.capsule").events) == 2
        assert f"chain {'1' * 32}, {'2' * 32} recorded to " in caplog.text

    def test_lasting_change_writes_no_recording(self, tmp_path: Path) -> None:
        """Its onset was more than a minute ago."""
        bench = Bench(tmp_path)
        bench.pass_seconds(1)
        bench.send(cause=Cause.CHANGED)
        bench.pass_seconds(2 * AFTER_SECONDS)
        bench.close()

        assert list(tmp_path.iterdir()) == []

    def test_escalation_and_end_of_an_old_chain_write_no_recording(self, tmp_path: Path) -> None:
        """Its recording has been written."""
        bench = Bench(tmp_path)
        bench.send(change=Change.ESCALATED)
        bench.send(change=Change.RESOLVED)
        bench.pass_seconds(2 * AFTER_SECONDS)
        bench.close()

        assert list(tmp_path.iterdir()) == []

    def test_stop_writes_a_recording_that_is_due_later(self, tmp_path: Path) -> None:
        bench = Bench(tmp_path)
        bench.pass_seconds(1)
        bench.send()
        bench.pass_seconds(1)
        bench.close()

        assert len(list(tmp_path.iterdir())) == 1

    def test_oldest_are_deleted_when_there_are_too_many(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Other files stay."""
        monkeypatch.setattr(recording_writer, "MAX_FILES", 2)
        for age, name in enumerate(("c.capsule", "b.capsule", "a.capsule", "notes.txt")):
            (tmp_path / name).touch()
            os.utime(tmp_path / name, (1000 + age, 1000 + age))
        bench = Bench(tmp_path)
        bench.pass_seconds(1)
        bench.send()
        bench.pass_seconds(1)
        bench.close()

        assert {one.name for one in tmp_path.iterdir()} == {"a.capsule", "notes.txt", f"{'1' * 32}.capsule"}

    def test_directory_that_cannot_be_created_is_logged_once(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        (tmp_path / "file").touch()
        bench = Bench(tmp_path / "file" / "capsules")
        bench.pass_seconds(1)
        for _ in range(2):
            bench.send()
            bench.pass_seconds(AFTER_SECONDS + 1)
        bench.close()

        assert [record.getMessage().split(":")[0] for record in caplog.records] == ["cannot write recordings"]
