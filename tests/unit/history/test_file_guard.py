"""history.place: where root may write, and where not."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from exporter.history.file_guard import Busy, Unusable, check_writable, claim


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Of a file that is not there yet, in a directory that is not there yet."""
    return tmp_path / "state" / "history.sqlite"


def mode(path: Path) -> int:
    """Of a file or a directory."""
    return stat.S_IMODE(path.stat().st_mode)


class TestRights:
    """Root writes, a group reads, others see nothing."""

    def test_directory_and_file_are_for_owner_and_group(self, path: Path) -> None:
        """Whatever the umask says."""
        before = os.umask(0o077)
        try:
            place = claim(path)
            place.ensure_file()
        finally:
            os.umask(before)

        assert (mode(path.parent) & ~0o050, mode(path)) == (0o700, 0o640)
        place.release()

    def test_directory_that_is_there_stays_as_it_is(self, path: Path) -> None:
        """Somebody has made it so."""
        path.parent.mkdir()
        path.parent.chmod(0o755)
        claim(path).release()

        assert mode(path.parent) == 0o755

    @pytest.mark.parametrize("writable", [0o777, 0o1777, 0o775])
    def test_directory_that_others_write_to_is_refused(self, path: Path, writable: int) -> None:
        """They could put a link where SQLite writes, sticky or not."""
        path.parent.mkdir()
        path.parent.chmod(writable)
        with pytest.raises(Unusable, match="others may write"):
            claim(path)


class TestLook:
    """Whether a claim would work, before anything is made."""

    def test_nothing_is_left_behind(self, path: Path) -> None:
        """Neither the directory nor a lock."""
        check_writable(path)

        assert not path.parent.exists()

    def test_what_a_claim_would_refuse_is_refused(self, path: Path) -> None:
        """In the same words."""
        path.parent.mkdir()
        path.parent.chmod(0o777)
        with pytest.raises(Unusable) as looked:
            check_writable(path)
        with pytest.raises(Unusable) as claimed:
            claim(path)

        assert str(looked.value) == str(claimed.value)


class TestStrangeFiles:
    """None is followed or overwritten."""

    @pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
    def test_link_is_not_followed(self, path: Path, tmp_path: Path, suffix: str) -> None:
        """Neither at the file nor beside it."""
        path.parent.mkdir(0o750)
        target = tmp_path / "precious"
        target.write_text("mine")
        path.with_name(path.name + suffix).symlink_to(target)
        with pytest.raises(Unusable, match="is a link"):
            claim(path).ensure_file()

        assert target.read_text() == "mine"

    def test_link_at_the_lock_is_not_followed(self, path: Path, tmp_path: Path) -> None:
        """It is never written to, but would be made."""
        path.parent.mkdir(0o750)
        path.with_name(path.name + "-lock").symlink_to(tmp_path / "made")
        with pytest.raises(Unusable):
            claim(path)

        assert not (tmp_path / "made").exists()

    def test_directory_is_no_file(self, path: Path) -> None:
        """And stays."""
        path.mkdir(parents=True)
        path.parent.chmod(0o750)
        with pytest.raises(Unusable, match="is no file"):
            claim(path)

    def test_file_with_a_second_name_is_refused(self, path: Path, tmp_path: Path) -> None:
        """Whose name is not known to be ours."""
        path.parent.mkdir(0o750)
        (tmp_path / "precious").write_text("mine")
        path.hardlink_to(tmp_path / "precious")
        with pytest.raises(Unusable, match="second name"):
            claim(path)

    def test_file_in_place_of_the_directory_is_told(self, tmp_path: Path) -> None:
        """In one line."""
        (tmp_path / "state").touch()
        with pytest.raises(Unusable, match="directory"):
            claim(tmp_path / "state" / "history.sqlite")


class TestLock:
    """One exporter at a time."""

    def test_second_claim_is_refused(self, path: Path) -> None:
        """Until the first is released."""
        first = claim(path)
        with pytest.raises(Busy, match="another exporter"):
            claim(path)
        first.release()

        claim(path).release()


class TestMovingAside:
    """What is broken is kept for a while."""

    def test_two_at_most_are_kept(self, path: Path) -> None:
        """The latest; files beside the broken one go, since they belong to no other."""
        place = claim(path)
        for second in range(4):
            path.write_text(str(second))
            path.with_name(path.name + "-wal").touch()
            os.utime(place.move_aside(1000 + second), (second, second))
        place.release()

        assert sorted(file.name for file in path.parent.iterdir()) == [
            "history.sqlite-lock",
            "history.sqlite.corrupt-1002",
            "history.sqlite.corrupt-1003",
        ]
