"""Commands and their flags, as completions and the manual page need them: parsers of argparse -> records."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import NamedTuple

from exporter.config.environment import flag_of, flags
from exporter.config.parsers import Choice, inverted_switch, switch
from exporter.config.setting import Setting

_FILES = ("FILE", "RECORDING")


class Flag(NamedTuple):
    """name: with its dashes. value: what it takes, "" for nothing. choices: all values, if they are known.

    is_listed: in help and manual; a `--no-collector.NAME` is not.
    """

    name: str
    value: str
    choices: tuple[str, ...]
    help: str
    is_listed: bool

    @property
    def is_file(self) -> bool:
        return self.value in _FILES

    @property
    def is_folder(self) -> bool:
        return self.value == "DIR"


class Command(NamedTuple):
    """words: what may follow beside flags, such as scenarios of `demo`."""

    name: str
    purpose: str
    usage: str
    flags: tuple[Flag, ...]
    words: tuple[str, ...]


def command(name: str, purpose: str, parser: argparse.ArgumentParser) -> Command:
    """A command of the program."""
    positional = [action for action in parser._actions if not action.option_strings]
    words = [str(word) for action in positional for word in (action.choices or getattr(action, "words", None) or ())]
    return Command(name, purpose, parser.format_usage().split(maxsplit=1)[1].strip(), _flags(parser), tuple(words))


def commands(parsers: Mapping[str, tuple[str, argparse.ArgumentParser]]) -> tuple[Command, ...]:
    """parsers: name -> purpose and parser."""
    return tuple(command(name, purpose, parser) for name, (purpose, parser) in parsers.items())


def _flags(parser: argparse.ArgumentParser) -> tuple[Flag, ...]:
    found = []
    for action in flags(parser):
        takes_value = action.nargs != 0
        setting = getattr(action, "setting", None)
        choices = tuple(map(str, action.choices or (_words(setting) if setting is not None and takes_value else ())))
        value = action.metavar if isinstance(action.metavar, str) else "|".join(choices)
        is_listed = action.help != argparse.SUPPRESS
        text = (action.help or "").replace("%%", "%") if is_listed else "disable this collector"
        found.append(Flag(f"--{flag_of(action)}", value if takes_value else "", choices, text, is_listed))
    return tuple(found)


def _words(setting: Setting) -> tuple[str, ...]:
    """The words that a setting accepts, if they are a closed set."""
    if setting.parse in (switch, inverted_switch):
        return ("true", "false")
    return setting.parse.words if isinstance(setting.parse, Choice) else ()
