"""Settings as flags of argparse. Values stay text, so that those of flags and of the file are parsed alike."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from exporter.config.parsers import inverted_switch, switch
from exporter.config.setting import Setting

_COLLECTOR = "collector."


def add_arguments_in_groups(parser: argparse.ArgumentParser, settings: Sequence[Setting]) -> None:
    """The same, with a heading for each subject in the help."""
    prefixes = [one.flag.partition(".")[0] for one in settings]
    subjects = [prefix if prefixes.count(prefix) > 1 else "general" for prefix in prefixes]
    parser.epilog = (
        "Every setting is also a key of the file: --log.level is level in the table [log]. --no-collector.NAME disables a"
        " collector."
    )
    for subject in dict.fromkeys(subjects):
        of_subject = [one for one, other in zip(settings, subjects, strict=True) if other == subject]
        add_arguments(parser.add_argument_group(subject), of_subject)


def add_arguments(parser: argparse._ActionsContainer, settings: Iterable[Setting]) -> None:
    """A flag for each setting. Collectors have a second one, `--no-collector.NAME`."""
    for one in settings:
        is_switch = one.parse in (switch, inverted_switch)
        declared = parser.add_argument(
            f"--{one.flag}",
            dest=one.flag,
            metavar=one.metavar,
            action="append" if one.is_repeated else "store",
            nargs="?" if is_switch else None,
            const="true" if is_switch else None,
            help=help_of(one).replace("%", "%%"),
        )
        declared.setting = one  # type: ignore[attr-defined] # its variable is read with the file, not by the parser
        if one.flag.startswith(_COLLECTOR):
            disabling = parser.add_argument(
                f"--no-{one.flag}", dest=one.flag, action="store_const", const="false", help=argparse.SUPPRESS
            )
            disabling.setting = one  # type: ignore[attr-defined]


def help_of(one: Setting) -> str:
    """The help with the default in brackets."""
    return f"{one.help} [{one.default}]" if one.default else one.help


def texts(arguments: Mapping[str, Any], settings: Iterable[Setting]) -> dict[str, tuple[str, str]]:
    """Flag -> (text, where it stands), of the flags that are given."""
    found = {}
    for one in settings:
        if (text := arguments.get(one.flag)) is not None:
            found[one.flag] = (",".join(text) if isinstance(text, list) else text, f"--{one.flag}")
    return found


def repeated(arguments: argparse.Namespace, flags: Iterable[str]) -> str:
    """` --since=1h --workload=rank=3`, as a shell takes it: those of the flags that are given, for another command.

    What the environment has is there for that one as well.
    """
    given = vars(arguments)
    own = [flag for flag in flags if given[flag] and arguments.sources.get(flag, f"--{flag}") == f"--{flag}"]
    return "".join(f" {shlex.quote(f'--{flag}={given[flag]}')}" for flag in own)


def texts_of_variables(environment: Mapping[str, str], settings: Iterable[Setting]) -> dict[str, tuple[str, str]]:
    """The same of the settings' own variables that are set and not empty."""
    return {
        one.flag: (text, f"environment variable {one.variable}")
        for one in settings
        if (text := environment.get(one.variable))
    }
