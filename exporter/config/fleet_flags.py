"""Flags of commands that ask several nodes: which nodes, until when, with which certificates and which token."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from exporter.config import command_line, parsers
from exporter.config.orchestrator import OrchestratorSettings
from exporter.config.setting import Given, parsed, settings_of, variable_of
from exporter.errors import BadInput

DEADLINE_SECONDS_MAX: Final = 600.0
_FILES: Final = {
    "nodes.ca": "CA certificates of the nodes (PEM) [the system's]",
    "nodes.cert": "client certificate for nodes that want one (PEM)",
    "nodes.key": "private key of --nodes.cert (PEM) [in that file]",
    "nodes.token-file": "file with the bearer token for `serve` on the nodes",
}
_NODES: Final = "nodes"
_INSECURE: Final = "nodes.insecure"
_SERVER_NAME: Final = "nodes.server-name"
_ALL: Final = "require-all"
_ORCHESTRATOR: Final = settings_of(OrchestratorSettings)


class FleetFlags(NamedTuple):
    """nodes: text of --nodes. Files that are not given are None. is_all_required: nothing but failures if a node fails.

    server_name: text of --nodes.server-name. orchestrator: says where the API server of Kubernetes is. sources: where the
    values stand that are not given as flags, by flag.
    """

    nodes: str
    deadline_seconds: float
    ca: Path | None
    certificate: Path | None
    key: Path | None
    token: Path | None
    is_insecure: bool
    is_all_required: bool
    orchestrator: OrchestratorSettings
    server_name: str = ""
    sources: Mapping[str, str] = MappingProxyType({})

    def source(self, flag: str) -> str:
        """`--nodes`, or `environment variable GPUSTALL_NODES`."""
        return self.sources.get(flag, f"--{flag}")

    def refusal_of(self, other: str, remedy: str) -> BadInput:
        """other: what is given beside the nodes, and is about one node alone."""
        if _NODES in self.sources:
            remedy = f"unset {variable_of(_NODES)}, or {remedy}"
        return BadInput(f"{other} cannot be combined with {self.source(_NODES)}", remedy=remedy)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """All of them, of a command that prints the answer."""
    add_node_arguments(parser, "ask `serve` on these nodes, such as gpu[01-16] or @fleet.toml (docs/fleet.md)")
    parser.add_argument(
        f"--{_ALL}", dest=_ALL, action="store_true", help="print only the failures if a node does not answer"
    )


def add_node_arguments(parser: argparse.ArgumentParser, meaning: str) -> None:
    """Those that say which nodes answer, and how to reach them. meaning: of --nodes."""
    parser.add_argument(f"--{_NODES}", metavar="NODES", help=meaning)
    parser.add_argument(
        "--nodes.deadline",
        dest="nodes.deadline",
        default="10s",
        metavar="DURATION",
        help="time limit for the answers of all nodes, at most 10m [10s]",
    )
    for flag, meaning_of_file in _FILES.items():
        parser.add_argument(f"--{flag}", dest=flag, metavar="FILE", help=meaning_of_file)
    parser.add_argument(
        f"--{_SERVER_NAME}",
        dest=_SERVER_NAME,
        metavar="NAME",
        help="name in the certificates of all nodes [their host]",
    )
    parser.add_argument(
        f"--{_INSECURE}", dest=_INSECURE, action="store_true", help="ask nodes over HTTP without encryption"
    )
    command_line.add_arguments(parser, _ORCHESTRATOR)


def fleet_flags(
    arguments: argparse.Namespace, environment: Mapping[str, str], deadline_seconds_max: float = DEADLINE_SECONDS_MAX
) -> FleetFlags | None:
    """None without --nodes. Raises BadInput."""
    given = vars(arguments)
    if not given[_NODES]:
        return None
    deadline_source = arguments.sources["nodes.deadline"]
    deadline_seconds = parsed(parsers.duration, given["nodes.deadline"], deadline_source)
    if deadline_seconds > deadline_seconds_max:
        raise BadInput(f"{deadline_source}: want at most {deadline_seconds_max:.0f}s")
    ca, certificate, key, token = (_file(flag, arguments) for flag in _FILES)
    return FleetFlags(
        given[_NODES],
        deadline_seconds,
        ca,
        certificate,
        key,
        token,
        is_insecure=given[_INSECURE],
        is_all_required=bool(given.get(_ALL)),
        orchestrator=Given(command_line.texts(given, _ORCHESTRATOR), environment).read(OrchestratorSettings),
        server_name=given[_SERVER_NAME] or "",
        sources={
            flag: arguments.sources[flag]
            for flag in (_NODES, *_FILES, _SERVER_NAME, _INSECURE)
            if given[flag] and arguments.sources[flag] != f"--{flag}"
        },
    )


def for_same_nodes(arguments: argparse.Namespace) -> str:
    """What another command needs to ask the same nodes, as a shell takes it."""
    flags = (_NODES, *_FILES, _SERVER_NAME, *(one.flag for one in _ORCHESTRATOR))
    is_insecure = vars(arguments)[_INSECURE] and arguments.sources[_INSECURE] == f"--{_INSECURE}"
    return command_line.repeated(arguments, flags) + (f" --{_INSECURE}" if is_insecure else "")


def _file(flag: str, arguments: argparse.Namespace) -> Path | None:
    text = vars(arguments)[flag]
    return parsed(parsers.any_path, text, arguments.sources[flag]) if text else None
