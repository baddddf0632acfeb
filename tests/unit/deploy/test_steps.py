"""How the steps of a Dockerfile are done without an engine, as far as that needs neither root nor a network."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.docker import steps
from deploy.docker.dockerfile import NotUnderstood


def names(folder: Path) -> list[str]:
    """Every file below a folder."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder with two files and a link."""
    folder = tmp_path / "source"
    (folder / "below").mkdir(parents=True)
    (folder / "one").write_text("1")
    (folder / "below" / "two").write_text("2")
    (folder / "link").symlink_to("nowhere")
    return folder


class TestCopy:
    """COPY."""

    def test_of_a_folder_its_content_is_copied(self, source: Path, tmp_path: Path) -> None:
        """Links as links."""
        steps.copy(source, tmp_path / "to", is_folder=False, wanted=None)

        assert names(tmp_path / "to") == ["below/two", "link", "one"]
        assert (tmp_path / "to" / "link").readlink() == Path("nowhere")

    def test_a_file_goes_to_the_name_or_into_the_folder(self, source: Path, tmp_path: Path) -> None:
        """A slash at the end says which."""
        steps.copy(source / "one", tmp_path / "a" / "name", is_folder=False, wanted=None)
        steps.copy(source / "one", tmp_path / "b", is_folder=True, wanted=None)

        assert names(tmp_path / "a") == ["name"]
        assert names(tmp_path / "b") == ["one"]

    def test_what_is_ignored_is_left_out_of_a_folder(self, source: Path, tmp_path: Path) -> None:
        """File by file."""
        steps.copy(source, tmp_path / "to", is_folder=False, wanted=lambda path: path.name != "two")

        assert names(tmp_path / "to") == ["link", "one"]

    def test_a_file_that_is_ignored_cannot_be_named(self, source: Path, tmp_path: Path) -> None:
        """As an engine, which does not find it."""
        with pytest.raises(NotUnderstood):
            steps.copy(source / "one", tmp_path / "to", is_folder=False, wanted=lambda _: False)


class TestBase:
    """FROM."""

    def test_a_base_that_is_there_is_not_made_again(self, tmp_path: Path) -> None:
        """It is named after the suite."""
        (tmp_path / "trixie.tar").touch()

        assert steps.base_of("debian:trixie-slim", tmp_path) == tmp_path / "trixie.tar"

    @pytest.mark.parametrize("name", ["python:3.13-slim", "debian:trixie", "example.com/debian:trixie-slim"])
    def test_any_other_is_refused(self, name: str, tmp_path: Path) -> None:
        """Nobody here knows what would be in it."""
        with pytest.raises(NotUnderstood):
            steps.base_of(name, tmp_path)


class TestInside:
    """Paths as the image sees them."""

    def test_an_absolute_path_stays_below_the_root(self) -> None:
        """Else a step would write to this machine."""
        assert steps.inside(Path("/made/image"), "/etc/pip.conf") == Path("/made/image/etc/pip.conf")
