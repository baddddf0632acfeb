"""rooted: where a path leads for a process with another root directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.files.rooted import real_path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """With a file `usr/lib/one`, beside a file `outside`."""
    (tmp_path / "outside").touch()
    folder = tmp_path / "root"
    (folder / "usr/lib").mkdir(parents=True)
    (folder / "usr/lib/one").touch()
    return folder


@pytest.mark.parametrize(
    "path", ["usr/lib/one", "/usr/lib/one", "usr//lib/./one", "usr/lib/../lib/one", "../usr/lib/one"]
)
def test_path_without_links_leads_to_itself(root: Path, path: str) -> None:
    """Nothing is above the root."""
    assert real_path(root, path) == root / "usr/lib/one"


@pytest.mark.parametrize("target", ["/usr/lib", "usr/lib", "../../usr/lib", "lib64"])
def test_link_is_followed_within_the_root(root: Path, target: str) -> None:
    (root / "lib64").symlink_to("usr/lib")
    (root / "lib").symlink_to(target)

    assert real_path(root, "lib/one") == root / "usr/lib/one"


def test_link_to_a_path_outside_leads_nowhere(root: Path) -> None:
    (root / "link").symlink_to(root.parent / "outside")

    with pytest.raises(FileNotFoundError):
        real_path(root, "link")


def test_links_that_lead_to_each_other_are_an_error(root: Path) -> None:
    (root / "one").symlink_to("other")
    (root / "other").symlink_to("one")

    with pytest.raises(OSError, match="Too many levels"):
        real_path(root, "one")


def test_path_that_no_file_can_have_is_an_error(root: Path) -> None:
    with pytest.raises(ValueError, match="null"):
        real_path(root, "usr/\0")
