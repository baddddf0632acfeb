"""files.content: what is opened, read and replaced."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from exporter.files import content


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


class TestRead:
    def test_content_up_to_the_bound_is_read(self, tmp_path: Path) -> None:
        (tmp_path / "a").write_bytes(b"12345")

        assert content.read(tmp_path / "a", 5) == b"12345"

    def test_larger_file_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "a").write_bytes(b"12345")
        with pytest.raises(OSError, match="larger than 4 bytes"):
            content.read(tmp_path / "a", 4)

    def test_pipe_does_not_block(self, tmp_path: Path) -> None:
        """No process writes to it."""
        os.mkfifo(tmp_path / "a")
        with pytest.raises(OSError, match="not a regular file"):
            content.read(tmp_path / "a", 9)

    def test_endless_device_is_refused(self) -> None:
        with pytest.raises(OSError, match="not a regular file"):
            content.read("/dev/zero", 9)

    def test_link_is_followed_only_on_request(self, tmp_path: Path) -> None:
        """A mounted ConfigMap is made of links."""
        (tmp_path / "a").write_bytes(b"1")
        (tmp_path / "b").symlink_to("a")
        with pytest.raises(OSError, match="a symbolic link"):
            content.read(tmp_path / "b", 9)

        assert content.read(tmp_path / "b", 9, follow_links=True) == b"1"

    def test_link_to_a_device_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "a").symlink_to("/dev/zero")
        with pytest.raises(OSError, match="not a regular file"):
            content.read(tmp_path / "a", 9, follow_links=True)


class TestReplace:
    def test_content_is_replaced_and_nothing_else_is_left(self, tmp_path: Path) -> None:
        (tmp_path / "a").write_text("old")
        content.replace(tmp_path / "a", [b"n", b"ew"], 0o640)

        assert [(one.name, one.read_text(), mode(one) & ~0o040) for one in tmp_path.iterdir()] == [("a", "new", 0o600)]

    def test_link_is_not_followed(self, tmp_path: Path) -> None:
        (tmp_path / "precious").write_text("mine")
        (tmp_path / "a").symlink_to("precious")
        with pytest.raises(OSError, match="a symbolic link"):
            content.replace(tmp_path / "a", [b"new"])

        assert (tmp_path / "precious").read_text() == "mine"

    def test_device_is_not_replaced(self, tmp_path: Path) -> None:
        """Root may write to the directory of /dev/null."""
        os.mkfifo(tmp_path / "a")
        with pytest.raises(OSError, match="not a regular file"):
            content.replace(tmp_path / "a", [b"new"])

        assert (tmp_path / "a").is_fifo()

    def test_failed_write_leaves_no_temporary_file(self, tmp_path: Path) -> None:
        with pytest.raises(TypeError):
            content.replace(tmp_path / "a", ["text"])  # type: ignore[list-item]

        assert list(tmp_path.iterdir()) == []
