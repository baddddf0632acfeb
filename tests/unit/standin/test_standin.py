"""The stand-in's place, environment and command line."""

from pathlib import Path

from exporter import standin
from exporter.commands.standin import command_line


class TestEnvironment:
    """The environment of a program on the stand-in."""

    def test_libraries_come_before_those_of_the_caller(self) -> None:
        """The build folder stands first in LD_LIBRARY_PATH, what was there stays behind it."""
        found = standin.environment({"LD_LIBRARY_PATH": "/opt/cuda/lib64", "HOME": "/root"})

        assert found == {"LD_LIBRARY_PATH": f"{standin.build_dir()}:/opt/cuda/lib64", "HOME": "/root"}

    def test_no_empty_entry_is_added(self) -> None:
        """An empty entry would mean the current folder."""
        assert standin.environment({})["LD_LIBRARY_PATH"] == str(standin.build_dir())

    def test_the_given_mapping_is_not_changed(self) -> None:
        """The caller keeps its environment."""
        base = {"LD_LIBRARY_PATH": "/opt"}
        standin.environment(base)

        assert base == {"LD_LIBRARY_PATH": "/opt"}


class TestIsBuilt:
    """Whether there is something to run."""

    def test_an_empty_folder_is_not_a_build(self, tmp_path: Path) -> None:
        """Nothing there means not built."""
        assert not standin.is_built(tmp_path)

    def test_one_missing_program_is_not_a_build(self, tmp_path: Path) -> None:
        """A build that stopped half way does not count."""
        for name in (*standin.LIBRARIES, *standin.PROGRAMS):
            (tmp_path / name).touch()

        assert standin.is_built(tmp_path)
        (tmp_path / "calls").unlink()
        assert not standin.is_built(tmp_path)


class TestCommandLine:
    """What `gpu-stall-exporter standin` executes."""

    def test_nothing_given_is_the_trainer(self) -> None:
        """The training job with its default flags."""
        assert command_line([]) == [f"{standin.build_dir()}/trainer"]

    def test_a_name_of_the_standin_becomes_its_path(self) -> None:
        """`-- trainer --ranks=4` runs the trainer that was built."""
        assert command_line(["--", "trainer", "--ranks=4"]) == [f"{standin.build_dir()}/trainer", "--ranks=4"]

    def test_any_other_program_is_taken_as_it_is(self) -> None:
        """A program of the user's, found on PATH; a second `--` is its own."""
        assert command_line(["--", "python3", "--", "x"]) == ["python3", "--", "x"]

    def test_flags_of_the_trainer_are_listed_nowhere_here(self) -> None:
        """trainer_command() appends flags as they are given."""
        assert standin.trainer_command("--quiet") == [f"{standin.build_dir()}/trainer", "--quiet"]
