"""gpustall_standin.__main__: the command line gpu-stall-exporter-standin."""

from __future__ import annotations

import pytest

import gpustall_standin as standin
from gpustall_standin.__main__ import command_line, main
from tests.support.standin_gpu import built


class TestCommandLine:
    """What `gpu-stall-exporter-standin run` executes."""

    def test_the_trainer_is_the_default(self) -> None:
        assert command_line([]) == [f"{standin.build_dir()}/trainer"]

    def test_a_program_of_the_standin_is_named_without_its_path(self) -> None:
        assert command_line(["trainer", "--ranks=4"]) == [f"{standin.build_dir()}/trainer", "--ranks=4"]

    def test_any_other_program_is_found_on_path(self) -> None:
        assert command_line(["python3", "-c", "x"]) == ["python3", "-c", "x"]

    def test_a_leading_double_dash_is_dropped(self) -> None:
        """The second one belongs to the program."""
        assert command_line(["--", "python3", "--", "x"]) == ["python3", "--", "x"]


class TestErrors:
    """One line and exit code 2."""

    def test_program_that_does_not_exist(self, capsys: pytest.CaptureFixture[str]) -> None:
        built()

        assert main(["run", "no-such-program"]) == 2
        assert capsys.readouterr().err == (
            "gpu-stall-exporter-standin: cannot run 'no-such-program': No such file or directory\n"
        )

    def test_with_job_without_a_command(self, capsys: pytest.CaptureFixture[str]) -> None:
        built()

        assert main(["with-job"]) == 2
        assert "with-job needs a command" in capsys.readouterr().err
