"""files.trust: directories and files that other users cannot change."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from exporter.files import trust
from exporter.files.trust import UnsafePath


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


class TestDirectories:
    """tmp_path lies in /tmp, which is sticky."""

    @pytest.mark.parametrize("writable", [0o777, 0o1777, 0o775])
    def test_last_one_must_not_be_writable_by_others(self, tmp_path: Path, writable: int) -> None:
        (tmp_path / "a").mkdir()
        (tmp_path / "a").chmod(writable)
        with pytest.raises(UnsafePath, match="writable by others"):
            trust.refuse_unsafe(tmp_path / "a")

    @pytest.mark.parametrize("below", ["b", "b/c", "missing/too"])
    def test_one_above_must_not_be_writable_by_others(self, tmp_path: Path, below: str) -> None:
        """They could replace what is below it."""
        (tmp_path / "a" / "b" / "c").mkdir(parents=True)
        (tmp_path / "a").chmod(0o777)
        with pytest.raises(UnsafePath) as raised:
            trust.refuse_unsafe(tmp_path / "a" / below)

        assert raised.value.filename == str(tmp_path / "a")

    def test_sticky_one_above_is_safe(self, tmp_path: Path) -> None:
        (tmp_path / "a" / "b").mkdir(parents=True)
        (tmp_path / "a").chmod(0o1777)

        trust.refuse_unsafe(tmp_path / "a" / "b")

    def test_link_counts_like_its_target(self, tmp_path: Path) -> None:
        (tmp_path / "open" / "b").mkdir(parents=True)
        (tmp_path / "open").chmod(0o777)
        (tmp_path / "link").symlink_to("open/b")
        with pytest.raises(UnsafePath, match="writable by others"):
            trust.refuse_unsafe(tmp_path / "link")

    def test_link_of_another_user_is_refused(self, tmp_path: Path) -> None:
        """In a sticky directory its owner can change it at any moment."""
        if os.geteuid() != 0:
            pytest.skip("needs root to make a link of another user")
        (tmp_path / "safe").mkdir()
        (tmp_path / "link").symlink_to("safe")
        os.lchown(tmp_path / "link", 65534, -1)
        with pytest.raises(UnsafePath, match="another user"):
            trust.refuse_unsafe(tmp_path / "link")

    def test_directory_of_another_user_is_refused_at_any_place(self, tmp_path: Path) -> None:
        if os.geteuid() != 0:
            pytest.skip("needs root to make a directory of another user")
        (tmp_path / "a" / "b").mkdir(parents=True)
        os.chown(tmp_path / "a", 65534, -1)
        with pytest.raises(UnsafePath, match="another user"):
            trust.refuse_unsafe(tmp_path / "a" / "b")

    def test_loop_of_links_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "a").symlink_to("b")
        (tmp_path / "b").symlink_to("a")
        with pytest.raises(OSError, match="Too many levels"):
            trust.refuse_unsafe(tmp_path / "a")

    def test_parent_of_a_link_is_that_of_its_target(self, tmp_path: Path) -> None:
        (tmp_path / "open" / "b").mkdir(parents=True)
        (tmp_path / "open").chmod(0o777)
        (tmp_path / "a").mkdir()
        (tmp_path / "a" / "link").symlink_to("../open/b")
        with pytest.raises(UnsafePath) as raised:
            trust.refuse_unsafe(tmp_path / "a" / "link" / "..")

        assert raised.value.filename == str(tmp_path / "open")

    def test_missing_ones_are_made_whatever_the_umask_is(self, tmp_path: Path) -> None:
        before = os.umask(0)
        try:
            made = trust.make_directory(tmp_path / "a" / "b", 0o750)
        finally:
            os.umask(before)

        assert (made, mode(tmp_path / "a"), mode(tmp_path / "a" / "b")) == (True, 0o755, 0o750)
        assert not trust.make_directory(tmp_path / "a" / "b", 0o700)

    def test_nothing_is_made_below_an_unsafe_one(self, tmp_path: Path) -> None:
        (tmp_path / "a").mkdir()
        (tmp_path / "a").chmod(0o777)
        with pytest.raises(UnsafePath):
            trust.make_directory(tmp_path / "a" / "b", 0o750)

        assert list((tmp_path / "a").iterdir()) == []

    @pytest.mark.parametrize(("file_mode", "is_safe"), [(0o640, True), (0o664, False), (0o606, False)])
    def test_file_that_others_may_write_to_is_not_safe(self, tmp_path: Path, file_mode: int, *, is_safe: bool) -> None:
        (tmp_path / "a").touch()
        (tmp_path / "a").chmod(file_mode)

        assert trust.is_safe_file(tmp_path / "a") == is_safe
