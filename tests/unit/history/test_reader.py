"""history.reader: files that cannot be read, and copies for readers without write permission."""

from __future__ import annotations

import sqlite3
import tempfile
from pathlib import Path

import pytest

from exporter.errors import NotPossibleHere
from exporter.history.file_guard import claim
from exporter.history.reader import opened
from exporter.history.store import SCHEMA_VERSION, Store
from tests.support.history import NOON, SECOND, an_event, resolved


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A history with one open chain and one resolved one, whose exporter was killed."""
    path = tmp_path / "state" / "history.sqlite"
    file = claim(path)
    store = Store(file, 4 << 20, began_unix_ns=NOON, version="1.0", has_chains=True)
    over = an_event(chain_id="2" * 32)
    store.write([an_event(), over, resolved(over, 5)], [], NOON + 10 * SECOND)
    store.close()
    file.release()
    return path


def error_of(path: Path) -> str:
    with pytest.raises(NotPossibleHere) as raised, opened(path):
        pass
    return raised.value.one_line()


class TestEvents:
    def test_resolved_chain_without_a_recent_event_is_left_out(self, path: Path) -> None:
        """The open one is not, however old."""
        with opened(path) as history:
            assert [one.event.chain_id[0] for one in history.events(NOON + 100 * SECOND)] == ["1"]
            assert len(history.events(NOON)) == 3

    def test_history_is_read_while_it_is_written(self, path: Path) -> None:
        """The write-ahead log has rows that are not in the file yet."""
        file = claim(path)
        store = Store(file, 4 << 20, began_unix_ns=NOON, version="1.0", has_chains=True)
        store.write([an_event(chain_id="3" * 32)], [], NOON)
        with opened(path) as history:
            found = [one.event.chain_id[0] for one in history.events(NOON)]
        store.close()
        file.release()

        assert found == ["1", "2", "2", "3"]


class TestWithoutTemporaryFolder:
    """No folder for temporary files can be written."""

    @pytest.fixture(autouse=True)
    def _nowhere(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tempfile, "tempdir", "/proc/nowhere")

    def test_history_is_read_where_it_lies(self, path: Path) -> None:
        with opened(path) as history:
            assert len(history.events(NOON)) == 3

    def test_copy_that_cannot_be_made_is_one_line(self, path: Path) -> None:
        """It is needed where another user may replace the file."""
        path.parent.chmod(0o777)

        assert error_of(path) == (
            "no folder for temporary files: No such file or directory; set TMPDIR to a folder that can be written"
        )


class TestErrors:
    def test_missing_file(self, tmp_path: Path) -> None:
        assert error_of(tmp_path / "none").startswith(f"no history at {tmp_path}/none; start `gpu-stall-exporter run`")

    def test_empty_file(self, tmp_path: Path) -> None:
        (tmp_path / "empty").touch()

        assert "is empty" in error_of(tmp_path / "empty")

    def test_other_file(self, tmp_path: Path) -> None:
        (tmp_path / "notes").write_text("notes" * 100)

        assert "is not a history of this program" in error_of(tmp_path / "notes")

    def test_newer_version(self, path: Path) -> None:
        with sqlite3.connect(path) as connection:
            connection.execute(f"pragma user_version = {SCHEMA_VERSION + 1}")
        connection.close()

        assert "was written by a newer version" in error_of(path)

    def test_damaged_row(self, path: Path) -> None:
        with sqlite3.connect(path) as connection:
            connection.execute("update events set document = '{}'")
        connection.close()
        with opened(path) as history, pytest.raises(NotPossibleHere, match="cannot read the history"):
            history.events(0)
