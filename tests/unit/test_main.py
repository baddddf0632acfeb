"""__main__: one line per error on standard error, and the exit code."""

from __future__ import annotations

import argparse
import importlib

import pytest

from exporter import __version__
from exporter.__main__ import COMMANDS, main


def exit_code(*argv: str) -> int:
    try:
        return main(argv)
    except SystemExit as left:
        return int(left.code or 0)


class TestUsage:
    @pytest.mark.parametrize(
        ("argv", "line"),
        [
            (
                ["run", "--web.listen-adress=:1"],
                "gpu-stall-exporter run: unrecognized arguments: --web.listen-adress=:1;"
                " see `gpu-stall-exporter run --help`",
            ),
            (
                ["run", "--a\nb"],
                r"gpu-stall-exporter run: unrecognized arguments: --a\nb; see `gpu-stall-exporter run --help`",
            ),
            (
                [],
                "gpu-stall-exporter: the following arguments are required: COMMAND; see `gpu-stall-exporter --help`",
            ),
            (
                ["run", "--web.listen-address"],
                "gpu-stall-exporter run: argument --web.listen-address: expected one argument; see"
                " `gpu-stall-exporter run --help`",
            ),
            (
                ["run", "--web.listen-address=nowhere"],
                "gpu-stall-exporter: --web.listen-address: invalid value 'nowhere': want HOST:PORT, such as 127.0.0.1:10478 or"
                " [::1]:10478; :10478 listens on every address",
            ),
            (
                ["check", "--config.file=/nonexistent.toml"],
                "gpu-stall-exporter: --config.file: cannot read /nonexistent.toml: No such file or directory",
            ),
        ],
        ids=["unknown flag", "newline", "no command", "no value", "bad address", "no file"],
    )
    def test_bad_usage_is_one_line_and_exit_code_2(
        self, argv: list[str], line: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """With the next step or what is wanted."""
        code = exit_code(*argv)

        output = capsys.readouterr()
        assert (code, output.out, output.err) == (2, "", line + "\n")

    def test_unknown_command_is_one_line_that_names_the_known_ones(self, capsys: pytest.CaptureFixture[str]) -> None:
        """argparse words it, differently in each version of Python."""
        code = exit_code("fly")

        words = capsys.readouterr().err
        assert (code, words.count("\n")) == (2, 1)
        assert words.startswith("gpu-stall-exporter: argument COMMAND: invalid choice: 'fly'")
        assert all(command in words for command in COMMANDS)

    def test_flag_is_not_abbreviated(self, capsys: pytest.CaptureFixture[str]) -> None:
        """A new flag must not change the meaning of an abbreviation in a unit file."""
        assert exit_code("run", "--nod=x") == 2
        assert "unrecognized arguments: --nod=x" in capsys.readouterr().err


class TestHelp:
    def test_version(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert exit_code("--version") == 0
        assert capsys.readouterr().out == f"gpu-stall-exporter {__version__}\n"

    @pytest.mark.parametrize("command", COMMANDS)
    def test_help_of_every_flag_has_at_most_90_characters(self, command: str) -> None:
        parser = argparse.ArgumentParser()
        importlib.import_module(f"exporter.commands.{command}").add_arguments(parser)
        helps = {action.dest: (action.help or "").replace("%%", "%") for action in parser._actions}

        assert {name: text for name, text in helps.items() if len(text) > 90} == {}

    @pytest.mark.parametrize("command", COMMANDS)
    def test_help_fits_80_columns(
        self, command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("COLUMNS", "80")
        exit_code(command, "--help")

        assert [line for line in capsys.readouterr().out.splitlines() if len(line) > 80] == []

    @pytest.mark.parametrize("command", COMMANDS)
    def test_each_command_has_its_help(self, command: str, capsys: pytest.CaptureFixture[str]) -> None:
        """The help of the program lists it."""
        assert exit_code(command, "--help") == 0
        assert capsys.readouterr().out.startswith(f"usage: gpu-stall-exporter {command}")
        assert exit_code("--help") == 0
        assert f"\n    {command} " in capsys.readouterr().out

    def test_help_of_run_names_every_setting_and_its_default(self, capsys: pytest.CaptureFixture[str]) -> None:
        exit_code("run", "--help")
        text = " ".join(capsys.readouterr().out.split())

        assert (
            "--tick.interval DURATION how often the exporter reads its BPF maps; shorter costs more CPU [250ms]" in text
        )
