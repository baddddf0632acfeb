"""file: a capsule on the disk, and what is no capsule."""

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
from exporter.recording import file as capsule_file
from exporter.recording.codec import Tick
from exporter.recording.file import RecordedProcess, Recording, read, write
from tests.support.chains import SECOND, a_chain

NOW = Moment(monotonic_ns=11 * SECOND, unix_ns=1_800_000_000 * SECOND)
RANK = Identity(node="gpu7", rank="3")
TICK = Tick(5, {"blame": {b"\0\0\0\1": b"\x01"}}, is_whole=True)
REPORT = ChainEvent.from_transition(Transition(Change.OPENED, a_chain()), RANK, ProcessContext(100), NOW)
PROCESSES = {7: RecordedProcess(RANK, 100, "/docker/abc", "0-3"), 8: RecordedProcess(None, 0)}


def a_capsule(*packed: bytes) -> Recording:
    """With one tick, or these."""
    return Recording("1.0", "gpu7", NOW, PROCESSES, (REPORT,), packed or (zlib.compress(TICK.encoded()),))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Of a capsule."""
    found = tmp_path / "one.capsule"
    write(a_capsule(), found)
    return found


class TestFile:
    """As it was written."""

    def test_it_comes_back(self, path: Path) -> None:
        """With its ticks."""
        found = read(path)

        assert found == a_capsule()
        assert list(found.ticks()) == [TICK]

    def test_it_is_not_for_everybody(self, path: Path) -> None:
        """Names of programs stand in it."""
        assert stat.S_IMODE(path.stat().st_mode) & 0o137 == 0

    def test_nothing_is_left_of_one_that_cannot_be_written(self, tmp_path: Path) -> None:
        """No half of it under any name."""
        (tmp_path / "taken.capsule").mkdir()

        with pytest.raises(OSError, match="directory"):
            write(a_capsule(), tmp_path / "taken.capsule")
        assert [one.name for one in tmp_path.iterdir()] == ["taken.capsule"]


class TestRefusal:
    """One line that says why."""

    def test_no_such_file(self, tmp_path: Path) -> None:
        """With its name."""
        with pytest.raises(BadInput, match=r"cannot read .*none: No such file"):
            read(tmp_path / "none")

    def test_something_else(self, tmp_path: Path) -> None:
        """Whatever it is."""
        (tmp_path / "x").write_bytes(b"hello\n")

        with pytest.raises(BadInput, match="is no capsule"):
            read(tmp_path / "x")

    def test_cut(self, path: Path) -> None:
        """By one byte."""
        path.write_bytes(path.read_bytes()[:-1])

        with pytest.raises(BadInput, match=r"was cut: it has \d+ of \d+ bytes"):
            read(path)

    def test_edited(self, path: Path) -> None:
        """Somebody else is to blame."""
        path.write_bytes(path.read_bytes().replace(b"stress-ng", b"innocents"))

        with pytest.raises(BadInput, match="was edited or damaged"):
            read(path)

    def test_later_format(self, path: Path) -> None:
        """Nothing is guessed of it."""
        path.write_bytes(path.read_bytes().replace(b"capsule 1 ", b"capsule 2 ", 1))

        with pytest.raises(BadInput, match="format 2, and this program knows 1 only"):
            read(path)

    def test_rows_of_other_programs(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """With the version that can read it."""
        monkeypatch.setattr(capsule_file, "LAYOUT", (1, 2, 3))

        with pytest.raises(BadInput, match=r"other kernel programs: it was made by version 1\.0"):
            read(path)

    def test_too_large(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """It is not read to its end."""
        monkeypatch.setattr(capsule_file, "MAX_BYTES", 100)

        with pytest.raises(BadInput, match="is no capsule: it has more than"):
            read(path)

    @pytest.mark.parametrize("packed", [b"no zlib", zlib.compress(TICK.encoded())[:-1], zlib.compress(b"no tick")])
    def test_tick_that_is_none(self, packed: bytes) -> None:
        """The checksum is right: it was written so."""
        with pytest.raises(ValueError, match="tick"):
            list(a_capsule(packed).ticks())
