"""history.file_guard: where root may write, and where not."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from exporter.history.file_guard import Busy, Unusable, check_writable, claim


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file that does not exist yet, in a directory that does not exist yet."""
    return tmp_path / "state" / "history.sqlite"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


class TestPermissions:
    def test_owner_writes_and_group_reads(self, path: Path) -> None:
        """Whatever the umask is."""
        before = os.umask(0o077)
        try:
            file = claim(path)
            file.ensure_file()
        finally:
            os.umask(before)

        assert (mode(path.parent) & ~0o050, mode(path)) == (0o700, 0o640)
        file.release()

    def test_mode_of_an_existing_directory_is_not_changed(self, path: Path) -> None:
        path.parent.mkdir()
        path.parent.chmod(0o755)
        claim(path).release()

        assert mode(path.parent) == 0o755

    @pytest.mark.parametrize("writable", [0o777, 0o1777, 0o775])
    def test_directory_that_others_may_write_to_is_refused(self, path: Path, writable: int) -> None:
        """They could put a link where SQLite writes, in a sticky directory, too."""
        path.parent.mkdir()
        path.parent.chmod(writable)
        with pytest.raises(Unusable, match="writable by others"):
            claim(path)


class TestCheckWritable:
    def test_creates_nothing(self, path: Path) -> None:
        """Neither the directory nor a lock."""
        check_writable(path)

        assert not path.parent.exists()

    def test_raises_the_error_that_claim_would_raise(self, path: Path) -> None:
        path.parent.mkdir()
        path.parent.chmod(0o777)
        with pytest.raises(Unusable) as checked:
            check_writable(path)
        with pytest.raises(Unusable) as claimed:
            claim(path)

        assert str(checked.value) == str(claimed.value)


class TestForeignFiles:
    """They are neither followed nor overwritten."""

    @pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
    def test_link_is_not_followed(self, path: Path, tmp_path: Path, suffix: str) -> None:
        path.parent.mkdir(0o750)
        target = tmp_path / "precious"
        target.write_text("mine")
        path.with_name(path.name + suffix).symlink_to(target)
        with pytest.raises(Unusable, match="is a symbolic link"):
            claim(path).ensure_file()

        assert target.read_text() == "mine"

    def test_link_at_the_lock_is_not_followed(self, path: Path, tmp_path: Path) -> None:
        """It would be created."""
        path.parent.mkdir(0o750)
        path.with_name(path.name + "-lock").symlink_to(tmp_path / "made")
        with pytest.raises(Unusable):
            claim(path)

        assert not (tmp_path / "made").exists()

    def test_directory_in_place_of_the_file_is_refused(self, path: Path) -> None:
        path.mkdir(parents=True)
        path.parent.chmod(0o750)
        with pytest.raises(Unusable, match="is not a regular file"):
            claim(path)

    def test_file_with_a_second_hard_link_is_refused(self, path: Path, tmp_path: Path) -> None:
        path.parent.mkdir(0o750)
        (tmp_path / "precious").write_text("mine")
        path.hardlink_to(tmp_path / "precious")
        with pytest.raises(Unusable, match="second hard link"):
            claim(path)

    def test_file_in_place_of_the_directory_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "state").touch()
        with pytest.raises(Unusable, match="directory"):
            claim(tmp_path / "state" / "history.sqlite")


class TestLock:
    def test_second_claim_is_refused(self, path: Path) -> None:
        """Until the first is released."""
        first = claim(path)
        with pytest.raises(Busy, match="another exporter"):
            claim(path)
        first.release()

        claim(path).release()


class TestMoveAside:
    def test_the_two_latest_damaged_files_are_kept(self, path: Path) -> None:
        """Files that SQLite keeps beside them are deleted."""
        file = claim(path)
        for second in range(4):
            path.write_text(str(second))
            path.with_name(path.name + "-wal").touch()
            os.utime(file.move_aside(1000 + second), (second, second))
        file.release()

        assert sorted(file.name for file in path.parent.iterdir()) == [
            "history.sqlite-lock",
            "history.sqlite.corrupt-1002",
            "history.sqlite.corrupt-1003",
        ]
