"""`gpu-stall-exporter serve`: the history's answers over HTTPS and the Model Context Protocol. Needs no root."""

from __future__ import annotations

import argparse
import os
from typing import Final

from exporter.app import logs
from exporter.config import command_line, fleet_flags, recorded_flags
from exporter.config.log import LogFormat, LogLevel
from exporter.errors import BadInput
from exporter.serve.dispatcher import CALL_SECONDS, Dispatcher
from exporter.serve.tools.fleet_nodes import NODES_DEADLINE_SECONDS_MAX, NODES_MEANING, check_nodes
from exporter.serve.work import Work
from exporter.service import web_flags
from exporter.service.packages import without_packages
from exporter.service.tokens import TokenFile

DEFAULT_ADDRESS: Final = "127.0.0.1:10479"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    web_flags.add_arguments(parser, DEFAULT_ADDRESS)
    parser.add_argument(
        "--web.allowed-hosts",
        dest="web.allowed-hosts",
        default="",
        metavar="NAME,…",
        help="names that clients use for this server, beside its own [none]",
    )
    fleet_flags.add_node_arguments(parser, NODES_MEANING)
    command_line.add_arguments(parser, [recorded_flags.HISTORY])


def run(arguments: argparse.Namespace) -> int:
    """Returns 0 after a stop by signal."""
    given = vars(arguments)
    host, port = web_flags.address(given["web.listen-address"], "web.listen-address")
    hosts = web_flags.hosts(host, given["web.allowed-hosts"])
    if web_flags.made(arguments, "serve", hosts):
        return 0
    config_file, token_file = web_flags.secured(given, "serve")
    flags = fleet_flags.fleet_flags(arguments, os.environ, NODES_DEADLINE_SECONDS_MAX)
    if flags is not None and token_file is None:
        raise BadInput(
            f"{flags.source('nodes')} cannot be combined with --web.insecure-no-tokens: every client could ask all nodes",
            remedy="give --web.token-file",
        )
    history = recorded_flags.history_path(arguments, os.environ)
    logs.set_up(LogLevel.INFO, LogFormat.LOGFMT)
    tokens = TokenFile(token_file) if token_file else None
    dispatcher = Dispatcher.started(Work(history, flags).frames, CALL_SECONDS)
    try:
        # These take 60 MiB, which the processes of calls need not have.
        from exporter.serve.calls import Calls  # noqa: PLC0415
        from exporter.serve.server import Access, serve  # noqa: PLC0415
        from exporter.service.http_server import listening_on  # noqa: PLC0415
    except ImportError as error:
        raise without_packages("serve", "serve", error) from None
    try:
        if flags is not None:
            check_nodes(flags, os.environ)
        with logs.in_background(), listening_on(host, port) as listening:
            serve(
                listening,
                Calls(dispatcher, CALL_SECONDS, has_fleet=flags is not None),
                Access(hosts, config_file, tokens),
            )
    finally:
        dispatcher.close()
    return 0
