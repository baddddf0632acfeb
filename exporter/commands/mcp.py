"""`gpu-stall-exporter mcp`: the history's answers over the Model Context Protocol on standard input and output. Needs no root."""

from __future__ import annotations

import argparse
import asyncio
import os

from exporter.config import command_line, fleet_flags, recorded_flags
from exporter.serve.dispatcher import CALL_SECONDS, Dispatcher
from exporter.serve.tools.fleet_nodes import NODES_DEADLINE_SECONDS_MAX, NODES_MEANING, check_nodes
from exporter.serve.work import Work
from exporter.service.packages import without_packages


def add_arguments(parser: argparse.ArgumentParser) -> None:
    fleet_flags.add_node_arguments(parser, NODES_MEANING)
    command_line.add_arguments(parser, [recorded_flags.HISTORY])


def run(arguments: argparse.Namespace) -> int:
    """Returns 0 when standard input ends."""
    history = recorded_flags.history_path(arguments, os.environ)
    flags = fleet_flags.fleet_flags(arguments, os.environ, NODES_DEADLINE_SECONDS_MAX)
    dispatcher = Dispatcher.started(Work(history, flags).frames, CALL_SECONDS)
    try:
        # These take 60 MiB, which the processes of calls need not have.
        from exporter.serve.calls import Calls  # noqa: PLC0415
        from exporter.serve.mcp_server import mcp_server, serve_standard_streams  # noqa: PLC0415
    except ImportError as error:
        raise without_packages("mcp", "serve", error) from None

    async def serving() -> None:
        await serve_standard_streams(mcp_server(Calls(dispatcher, CALL_SECONDS, has_fleet=flags is not None)))

    try:
        if flags is not None:
            check_nodes(flags, os.environ)
        asyncio.run(serving())
    finally:
        dispatcher.close()
    return 0
