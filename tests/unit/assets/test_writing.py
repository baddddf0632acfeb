"""Writing the files that come with the program to a folder of the user's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from exporter.assets.patterns import names
from exporter.assets.writing import SOURCE_TREE, Assets
from exporter.errors import BadInput


@pytest.fixture
def assets(tmp_path: Path) -> Assets:
    """Two files."""
    root = tmp_path / "installed"
    for name in ("alerts/cpu.rules.yaml", "docs/web.md"):
        (root / name).parent.mkdir(parents=True)
        (root / name).write_text(f"this is {name}\n")
    return Assets(root, ["alerts/cpu.rules.yaml", "docs/web.md"])


def content_of(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


class TestWriting:
    def test_files_keep_their_paths(self, assets: Assets, tmp_path: Path) -> None:
        """In a folder that is made."""
        written = assets.write(tmp_path / "new" / "folder", replaces=False)

        assert written == 2
        assert content_of(tmp_path / "new" / "folder") == {
            "alerts/cpu.rules.yaml": "this is alerts/cpu.rules.yaml\n",
            "docs/web.md": "this is docs/web.md\n",
        }

    def test_second_time_writes_nothing(self, assets: Assets, tmp_path: Path) -> None:
        """Equal files are no conflict: a script may run again."""
        assets.write(tmp_path / "folder", replaces=False)

        assert assets.write(tmp_path / "folder", replaces=False) == 0

    def test_changed_file_is_kept_and_nothing_else_is_written(self, assets: Assets, tmp_path: Path) -> None:
        """The check comes before the first write."""
        changed = tmp_path / "docs" / "web.md"
        changed.parent.mkdir()
        changed.write_text("mine")
        with pytest.raises(BadInput) as refused:
            assets.write(tmp_path, replaces=False)

        assert refused.value.one_line() == (
            f"{changed} exists with other content: nothing was written; choose another folder, or replace them with --force"
        )
        assert changed.read_text() == "mine"
        assert not (tmp_path / "alerts").exists()

    def test_force_replaces_what_differs_and_leaves_other_files(self, assets: Assets, tmp_path: Path) -> None:
        folder = tmp_path / "folder"
        assets.write(folder, replaces=False)
        (folder / "docs" / "web.md").write_text("mine")
        (folder / "docs" / "notes.md").write_text("notes")

        assert assets.write(folder, replaces=True) == 1
        assert content_of(folder)["docs/web.md"] == "this is docs/web.md\n"
        assert (folder / "docs" / "notes.md").read_text() == "notes"

    def test_link_is_not_followed(self, assets: Assets, tmp_path: Path) -> None:
        """Also with --force: the folder may be one that others can write to."""
        folder, other = tmp_path / "folder", tmp_path / "other"
        other.write_text("of another program")
        (folder / "docs").mkdir(parents=True)
        (folder / "docs" / "web.md").symlink_to(other)
        with pytest.raises(BadInput, match=re.escape("docs/web.md: a symbolic link: name the file that it leads to")):
            assets.write(folder, replaces=True)

        assert other.read_text() == "of another program"

    def test_folder_that_is_a_file_is_one_line(self, assets: Assets, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(BadInput) as refused:
            assets.write(tmp_path / "file", replaces=False)

        assert refused.value.one_line() == f"cannot write {tmp_path}/file/alerts/cpu.rules.yaml: Not a directory"


class TestInstallation:
    """The files of this tree."""

    def test_source_tree_is_the_source(self) -> None:
        """No second copy: an editable installation reads the files where they are."""
        assets = Assets.of_installation()

        assert assets.root == SOURCE_TREE
        assert {
            "alerts/cpu.rules.yaml",
            "alerts/rates.toml",
            "dashboards/grafana/fleet.json",
            "dashboards/grafana/kustomization.yaml",
            "deploy/helm/gpu-stall-exporter/templates/daemon-set.yaml",
            "deploy/helm/gpu-stall-exporter/Chart.yaml",
            "deploy/kustomize/base/kustomization.yaml",
            "deploy/systemd/gpu-stall-exporter.service",
            "docs/security.md",
        } <= set(assets.names)

    def test_keys_beside_the_compose_file_stay_where_they_are(self, tmp_path: Path) -> None:
        """They are secrets of the user's."""
        keys = tmp_path / "deploy" / "compose" / "keys"
        keys.mkdir(parents=True)
        (keys / "slack.url").touch()
        (keys.parent / "compose.yaml").touch()

        assert names(tmp_path) == ["deploy/compose/compose.yaml"]

    def test_every_file_that_a_message_names_is_there(self) -> None:
        """A user of a wheel has no tree to look into."""
        named: set[str] = set()
        for path in (SOURCE_TREE / "exporter").rglob("*.py"):
            for line in path.read_text(encoding="utf-8").splitlines():
                if "`gpu-stall-exporter assets" in line and not line.lstrip().startswith('"""'):
                    named |= set(re.findall(r"\b(?:alerts|dashboards|deploy|docs)/[\w./-]*\w", line))

        assert {"alerts/rates.toml", "docs/security.md", "docs/web.md"} <= named
        assert named - set(Assets.of_installation().names) == set()
