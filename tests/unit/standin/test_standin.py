"""gpustall_standin: where libraries and programs are, and the environment they need."""

from __future__ import annotations

from pathlib import Path

import gpustall_standin as standin


class TestEnvironment:
    """The environment of a program on the stand-in."""

    def test_its_libraries_come_first(self) -> None:
        found = standin.environment({"LD_LIBRARY_PATH": "/opt/cuda/lib64", "HOME": "/root"})

        assert found == {"LD_LIBRARY_PATH": f"{standin.build_dir()}:/opt/cuda/lib64", "HOME": "/root"}

    def test_no_empty_entry_is_added(self) -> None:
        """An empty entry would mean the current folder."""
        assert standin.environment({})["LD_LIBRARY_PATH"] == str(standin.build_dir())

    def test_the_given_mapping_is_not_changed(self) -> None:
        base = {"LD_LIBRARY_PATH": "/opt"}
        standin.environment(base)

        assert base == {"LD_LIBRARY_PATH": "/opt"}


class TestIsBuilt:
    """Every library and program must be there."""

    def test_an_empty_folder_is_not_a_build(self, tmp_path: Path) -> None:
        assert not standin.is_built(tmp_path)

    def test_one_missing_program_is_not_a_build(self, tmp_path: Path) -> None:
        for name in (*standin.LIBRARIES, *standin.PROGRAMS):
            (tmp_path / name).touch()

        assert standin.is_built(tmp_path)
        (tmp_path / "calls").unlink()
        assert not standin.is_built(tmp_path)


class TestTrainerCommand:
    """The command line of the training job."""

    def test_flags_are_appended(self) -> None:
        assert standin.trainer_command("--quiet") == [f"{standin.build_dir()}/trainer", "--quiet"]
