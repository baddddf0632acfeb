"""Environment variables of flags that are no settings, and unknown variables."""

from __future__ import annotations

import argparse
import importlib
import re

import pytest

from exporter.__main__ import COMMANDS, main
from exporter.config import VARIABLES
from exporter.config.environment import (
    _SERVICE_LINK,
    OTHER_FLAGS,
    FlagDefaults,
    example_of,
    flag_of,
    flags,
    unknown_variables,
)
from exporter.config.setting import variable_of
from exporter.errors import BadInput


def arguments(*argv: str, **environment: str) -> argparse.Namespace:
    """The arguments of a command with one flag of each kind."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", default="http://127.0.0.1:10478")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument("--per-process", action="store_true")
    parser.add_argument("--replay", nargs="?", const="")
    parser.add_argument("--yes", action="store_true")
    defaults = FlagDefaults(parser)
    found = parser.parse_args(argv)
    defaults.fill(found, environment)
    return found


class TestPrecedence:
    def test_flag_then_variable_then_default(self) -> None:
        assert arguments().url == "http://127.0.0.1:10478"
        assert arguments(GPUSTALL_URL="gpu7:10478").url == "gpu7:10478"
        assert arguments("--url=gpu8:10478", GPUSTALL_URL="gpu7:10478").url == "gpu8:10478"

    def test_empty_variable_counts_as_not_set(self) -> None:
        assert arguments(GPUSTALL_FORMAT="").format == "text"

    def test_flag_without_a_value_is_a_switch(self) -> None:
        """Dashes of the flag are underscores."""
        assert arguments(GPUSTALL_PER_PROCESS="true").per_process is True
        assert arguments(GPUSTALL_PER_PROCESS="off").per_process is False

    def test_flag_with_an_optional_value_can_be_on_or_have_one(self) -> None:
        assert arguments(GPUSTALL_REPLAY="true").replay == ""
        assert arguments(GPUSTALL_REPLAY="false").replay is None
        assert arguments(GPUSTALL_REPLAY="a.capsule").replay == "a.capsule"

    def test_flag_that_acts_has_no_variable(self) -> None:
        """It would pause a culprit without a prompt. One that is left over in a shell is named in a warning."""
        assert arguments(GPUSTALL_YES="true").yes is False
        assert "GPUSTALL_YES" in unknown_variables({"GPUSTALL_YES": "true"}, ())

    def test_place_of_a_value_is_known(self) -> None:
        """For the message about a value that the command itself refuses."""
        found = arguments("--url=gpu8:1", GPUSTALL_URL="gpu7:1", GPUSTALL_FORMAT="json")

        assert (found.sources["url"], found.sources["format"]) == ("--url", "environment variable GPUSTALL_FORMAT")


class TestExample:
    """The sentence about variables at the end of a command's help."""

    @pytest.mark.parametrize("command", COMMANDS)
    def test_example_is_a_flag_of_the_command(self, command: str, capsys: pytest.CaptureFixture[str]) -> None:
        """A help that names a flag of another command sends its reader in search of it."""
        with pytest.raises(SystemExit):
            main([command, "--help"])
        text = " ".join(capsys.readouterr().out.split())
        sentence = re.search(r"Flags are also environment variables: --(\S+) is (\w+);", text)

        if sentence is not None:
            assert f" --{sentence[1]} " in text.partition("Flags are also")[0]
            assert sentence[2] == variable_of(sentence[1])

    def test_command_whose_flags_act_has_none(self) -> None:
        parser = argparse.ArgumentParser()
        parser.add_argument("--yes", action="store_true")

        assert example_of(parser) == ""


class TestInvalidValues:
    @pytest.mark.parametrize(
        ("name", "text", "line"),
        [
            ("GPUSTALL_FORMAT", "xml", "invalid value 'xml': want one of text, json"),
            ("GPUSTALL_PER_PROCESS", "maybe", "invalid value 'maybe': want true or false"),
        ],
    )
    def test_variable_is_named(self, name: str, text: str, line: str) -> None:
        with pytest.raises(BadInput) as refused:
            arguments(**{name: text})

        assert refused.value.one_line() == f"environment variable {name}: {line}"

    @pytest.mark.parametrize(
        ("command", "name", "text"),
        [
            ("top", "GPUSTALL_INTERVAL", "soon"),
            ("explain", "GPUSTALL_SINCE", "long"),
            ("demo", "GPUSTALL_DURATION", "1s"),
        ],
    )
    def test_value_that_a_command_refuses_names_the_variable(
        self,
        command: str,
        name: str,
        text: str,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        monkeypatch.setenv(name, text)

        assert main([command]) == 2
        assert capsys.readouterr().err.startswith(
            f"gpu-stall-exporter: environment variable {name}: invalid value '{text}': want"
        )


class TestUnknownVariables:
    def test_misspelt_one_is_named(self) -> None:
        assert unknown_variables({"GPUSTALL_LOG_LEVLE": "debug", "HOME": "/"}, VARIABLES) == (
            "unknown environment variables are ignored: GPUSTALL_LOG_LEVLE; docs/flags.md lists the known ones"
        )

    def test_many_are_counted(self) -> None:
        """A large environment does not fill the log."""
        names = {f"GPUSTALL_X{number}": "" for number in range(9)}

        assert "GPUSTALL_X4 and 4 more;" in unknown_variables(names, VARIABLES)

    @pytest.mark.parametrize(
        "name",
        [
            "GPUSTALL_EXPORTER_SERVICE_HOST",
            "GPUSTALL_EXPORTER_SERVICE_PORT",
            "GPUSTALL_EXPORTER_SERVICE_PORT_METRICS",
            "GPUSTALL_EXPORTER_PORT",
            "GPUSTALL_EXPORTER_PORT_10478_TCP",
            "GPUSTALL_EXPORTER_PORT_10478_TCP_PROTO",
            "GPUSTALL_EXPORTER_PORT_10478_TCP_PORT",
            "GPUSTALL_EXPORTER_PORT_10478_TCP_ADDR",
            "GPU_STALL_EXPORTER_PORT",
        ],
    )
    def test_those_that_kubernetes_sets_for_a_service_are_no_concern(self, name: str) -> None:
        assert unknown_variables({name: "tcp://10.0.0.1:10478"}, VARIABLES) == ""

    def test_no_flag_has_a_variable_that_kubernetes_could_set(self) -> None:
        """Else a Service of an unlucky name would keep the exporter from starting."""
        assert [name for name in {*VARIABLES, *map(variable_of, OTHER_FLAGS)} if _SERVICE_LINK.search(name)] == []

    def test_warning_is_one_line_and_the_command_goes_on(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("GPUSTALL_LOG_LEVLE", "debug")

        assert main(["assets"]) == 0
        assert capsys.readouterr().err == (
            "gpu-stall-exporter: warning: unknown environment variables are ignored: GPUSTALL_LOG_LEVLE;"
            " docs/flags.md lists the known ones\n"
        )

    def test_flags_of_all_commands_are_known(self) -> None:
        """OTHER_FLAGS is written by hand, so that `run` stays small."""
        found = set()
        for command in COMMANDS:
            parser = argparse.ArgumentParser()
            importlib.import_module(f"exporter.commands.{command}").add_arguments(parser)
            found |= {flag_of(action) for action in flags(parser) if not hasattr(action, "setting")}

        assert found == OTHER_FLAGS
