"""Environment variables of flags: `--log.level` is GPUSTALL_LOG_LEVEL, in every command and by one rule.

In: the parser of a command, its arguments, the environment. Out: arguments with the values of variables where a flag is missing.
Settings of `run` are flags as well, but a variable of theirs stands between flag and file: setting.py reads it.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from exporter.config.parsers import switch
from exporter.config.setting import VARIABLE_PREFIX, parsed, variable_of

ACTING_FLAGS: Final = frozenset(("confirm", "force", "yes"))
"""They pause other programs or overwrite files. They have no variable: one that is left over would do so without a word."""

OTHER_FLAGS: Final = ACTING_FLAGS | {
    "at",
    "chain",
    "compare",
    "confirm-by",
    "deadline",
    "duration",
    "filter",
    "follow",
    "for",
    "format",
    "grpc.listen-address",
    "interval",
    "lines",
    "list",
    "make-certificate",
    "max-bytes",
    "merge",
    "name",
    "new-token",
    "nodes",
    "nodes.ca",
    "nodes.cert",
    "nodes.deadline",
    "nodes.insecure",
    "nodes.key",
    "nodes.server-name",
    "nodes.token-file",
    "once",
    "output",
    "per-process",
    "pid",
    "rates",
    "recording",
    "replay",
    "require-all",
    "resolution",
    "runbook-url",
    "save",
    "schema",
    "since",
    "sort",
    "store.max-bytes",
    "store.path",
    "store.retention",
    "support-bundle",
    "url",
    "web.allowed-hosts",
    "web.config.file",
    "web.insecure-no-tls",
    "web.insecure-no-tokens",
    "web.listen-address",
    "web.token-file",
    "workload",
}
"""Flags of all commands that are no settings: known here, so that `run` need not import what other commands do."""

_SERVICE_LINK: Final = re.compile(r"_SERVICE_HOST$|_SERVICE_PORT(?:_\w+)?$|_PORT$|_PORT_\d+_(?:TCP|UDP|SCTP)(?:_\w+)?$")
"""Kubernetes sets such variables for each Service: GPUSTALL_EXPORTER_PORT=tcp://10.0.0.1:10478."""

_NAMES_SHOWN: Final = 5
_EXAMPLE: Final = "log.level"
_UNSET: Final = object()


class FlagDefaults:
    """The defaults of a parser's flags, which count after the variables."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        """Called after every flag is declared, and before arguments are parsed."""
        self._defaults = {
            action: action.default
            for action in flags(parser)
            if not hasattr(action, "setting") and flag_of(action) not in ACTING_FLAGS
        }
        for action in self._defaults:
            action.default = _UNSET

    def fill(self, arguments: argparse.Namespace, environment: Mapping[str, str]) -> None:
        """Sets what no flag has set, and `sources`: dest -> where its value stands. Raises BadInput, which names the variable."""
        sources = {}
        for action, default in self._defaults.items():
            variable = variable_of(flag_of(action))
            sources[action.dest] = f"--{flag_of(action)}"
            if getattr(arguments, action.dest) is not _UNSET:
                continue
            value = default
            if text := environment.get(variable):
                sources[action.dest] = f"environment variable {variable}"
                value = _value(action, text, default, sources[action.dest])
            setattr(arguments, action.dest, value)
        arguments.sources = sources


def flags(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The flags that take or are a value, without --help."""
    for action in parser._actions:
        if action.option_strings and not isinstance(action, argparse._HelpAction | argparse._VersionAction):
            yield action


def flag_of(action: argparse.Action) -> str:
    """`web.listen-address`."""
    return action.option_strings[-1].removeprefix("--")


def example_of(parser: argparse.ArgumentParser) -> str:
    """`--log.level is GPUSTALL_LOG_LEVEL`: a flag that this command has; "" for a command whose flags have no variable."""
    names = [name for name in map(flag_of, flags(parser)) if name not in ACTING_FLAGS]
    name = _EXAMPLE if _EXAMPLE in names else next(iter(names), "")
    return f"--{name} is {variable_of(name)}" if name else ""


def unknown_variables(environment: Mapping[str, str], known: Collection[str]) -> str:
    """A message that names variables which no flag has, such as misspelt ones; "" for none.

    They are no error: after a return to an older version its successor's variables must not keep it from starting.
    """
    wanted = {*known, *map(variable_of, OTHER_FLAGS - ACTING_FLAGS)}
    names = sorted(
        name
        for name in environment
        if name.startswith(VARIABLE_PREFIX) and name not in wanted and not _SERVICE_LINK.search(name)
    )
    if not names:
        return ""
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    shown = ", ".join(name[:80] for name in names[:_NAMES_SHOWN])
    return f"unknown environment variables are ignored: {shown}{more}; docs/flags.md lists the known ones"


def _value(action: argparse.Action, text: str, default: Any, source: str) -> Any:
    if action.nargs == 0:
        return parsed(switch, text, source)
    if action.nargs == "?" and text in ("true", "false"):
        return action.const if text == "true" else default

    def convert(given: str) -> Any:
        if action.choices is not None and given not in action.choices:
            raise ValueError(f"want one of {', '.join(map(str, action.choices))}")
        return action.type(given) if callable(action.type) else given

    return parsed(convert, text, source)
