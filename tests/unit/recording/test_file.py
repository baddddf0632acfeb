"""file: recordings as files, and files that are refused."""

from __future__ import annotations

import stat
import zlib
from pathlib import Path

import pytest

from exporter.chains.chain import Change, Transition
from exporter.chains.event import ChainEvent
from exporter.chains.remedies import ProcessContext
from exporter.clock import Moment
from exporter.errors import BadInput
from exporter.model import Identity
from exporter.recording import file as recording_file
from exporter.recording.codec import Tick
from exporter.recording.file import RecordedProcess, Recording, read, write
from tests.support.chains import SECOND, a_chain
from tests.support.history import a_call_site

NOW = Moment(monotonic_ns=11 * SECOND, unix_ns=1_800_000_000 * SECOND)
RANK = Identity(node="gpu7", rank="3")
TICK = Tick(5, {"blame": {b"\0\0\0\1": b"\x01"}}, is_whole=True)
EVENT = ChainEvent.from_transition(Transition(Change.OPENED, a_chain()), RANK, ProcessContext(100), NOW)
PROCESSES = {7: RecordedProcess(RANK, 100, "/docker/abc", "0-3", (a_call_site(),)), 8: RecordedProcess(None, 0)}


def a_recording(*compressed: bytes) -> Recording:
    """With these ticks, or one."""
    return Recording("1.0", "gpu7", NOW, PROCESSES, (EVENT,), compressed or (zlib.compress(TICK.encoded()),))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with a recording."""
    found = tmp_path / "one.capsule"
    write(a_recording(), found)
    return found


class TestFile:
    def test_reading_gives_the_same_recording(self, path: Path) -> None:
        found = read(path)

        assert found == a_recording()
        assert list(found.ticks()) == [TICK]

    def test_other_users_may_not_read_it(self, path: Path) -> None:
        """It has names of programs."""
        assert stat.S_IMODE(path.stat().st_mode) & 0o137 == 0

    def test_failed_write_leaves_no_file(self, tmp_path: Path) -> None:
        (tmp_path / "taken.capsule").mkdir()

        with pytest.raises(OSError, match="directory"):
            write(a_recording(), tmp_path / "taken.capsule")
        assert [one.name for one in tmp_path.iterdir()] == ["taken.capsule"]


class TestRefusal:
    def test_missing_file(self, tmp_path: Path) -> None:
        with pytest.raises(BadInput, match=r"cannot read .*none: No such file"):
            read(tmp_path / "none")

    def test_other_file(self, tmp_path: Path) -> None:
        (tmp_path / "x").write_bytes(b"hello\n")

        with pytest.raises(BadInput, match="is not a recording"):
            read(tmp_path / "x")

    def test_truncated_by_one_byte(self, path: Path) -> None:
        path.write_bytes(path.read_bytes()[:-1])

        with pytest.raises(BadInput, match=r"is truncated: it has \d+ of \d+ bytes"):
            read(path)

    def test_edited(self, path: Path) -> None:
        path.write_bytes(path.read_bytes().replace(b"stress-ng", b"innocents"))

        with pytest.raises(BadInput, match="was edited or damaged"):
            read(path)

    def test_later_format(self, path: Path) -> None:
        path.write_bytes(path.read_bytes().replace(b"capsule 1 ", b"capsule 2 ", 1))

        with pytest.raises(BadInput, match="format 2: this version reads format 1 only"):
            read(path)

    def test_rows_of_other_kernel_programs(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The message has the version that can read it."""
        monkeypatch.setattr(recording_file, "LAYOUT", (1, 2, 3))

        with pytest.raises(BadInput, match=r"recorded by version 1\.0, whose kernel programs"):
            read(path)

    def test_too_large(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(recording_file, "MAX_BYTES", 100)

        with pytest.raises(BadInput, match="is not a recording: it has more than"):
            read(path)

    @pytest.mark.parametrize("compressed", [b"no zlib", zlib.compress(TICK.encoded())[:-1], zlib.compress(b"no tick")])
    def test_invalid_tick(self, compressed: bytes) -> None:
        """The checksum matches."""
        with pytest.raises(ValueError, match="tick"):
            list(a_recording(compressed).ticks())
