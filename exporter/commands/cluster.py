"""`gpu-stall-exporter cluster`: receives and stores what the exporters of many nodes push. Needs no root."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from exporter.app import logs
from exporter.config import parsers
from exporter.config.log import LogFormat, LogLevel
from exporter.config.setting import parsed
from exporter.errors import BadInput
from exporter.output.web.access import AccessControl
from exporter.service import web_flags
from exporter.service.packages import without_packages
from exporter.service.tokens import TokenFile
from exporter.units import NANOSECONDS

DEFAULT_ADDRESS: Final = "127.0.0.1:4318"
DEFAULT_GRPC_ADDRESS: Final = "127.0.0.1:4317"
DEFAULT_PATH: Final = "/var/lib/gpu-stall-exporter/cluster"
DEFAULT_RETENTION: Final = "720h"
DEFAULT_BYTES: Final = "64GiB"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s [flags] [import HISTORY…]"
    parser.add_argument("action", nargs="?", choices=("import",), help="import histories of nodes, also merged ones")
    parser.add_argument("histories", nargs="*", type=Path, metavar="HISTORY", help="history to import")
    web_flags.add_arguments(parser, DEFAULT_ADDRESS)
    parser.add_argument(
        "--grpc.listen-address",
        dest="grpc.listen-address",
        default=DEFAULT_GRPC_ADDRESS,
        metavar="HOST:PORT",
        help=f"address for OTLP over gRPC, or none [{DEFAULT_GRPC_ADDRESS}]",
    )
    parser.add_argument(
        "--store.path",
        dest="store.path",
        default=DEFAULT_PATH,
        metavar="FOLDER",
        help=f"folder of the store [{DEFAULT_PATH}]",
    )
    parser.add_argument(
        "--store.retention",
        dest="store.retention",
        default=DEFAULT_RETENTION,
        metavar="DURATION",
        help=f"age limit of stored rows [{DEFAULT_RETENTION}]",
    )
    parser.add_argument(
        "--store.max-bytes",
        dest="store.max-bytes",
        default=DEFAULT_BYTES,
        metavar="SIZE",
        help=f"size limit of the store, 512MiB or more [{DEFAULT_BYTES}]",
    )


def run(arguments: argparse.Namespace) -> int:
    """Returns 0 after a stop by signal."""
    given = vars(arguments)
    path: Path = parsed(parsers.any_path, given["store.path"], arguments.sources["store.path"])
    if arguments.action is not None:
        return _import(path, arguments.histories)
    host, port = web_flags.address(given["web.listen-address"], "web.listen-address")
    grpc_address = _grpc_address(given["grpc.listen-address"])
    retention_seconds: float = parsed(parsers.duration, given["store.retention"], arguments.sources["store.retention"])
    total_bytes: int = parsed(parsers.store_size, given["store.max-bytes"], arguments.sources["store.max-bytes"])
    if web_flags.made(arguments, "cluster", web_flags.hosts(host, "")):
        return 0
    config_file, token_file = web_flags.secured(given, "cluster")
    _refuse_names_of_clients(config_file)
    logs.set_up(LogLevel.INFO, LogFormat.LOGFMT)
    tokens = TokenFile(token_file) if token_file else None
    try:
        from exporter.cluster.retention import RetentionLimits  # noqa: PLC0415
        from exporter.cluster.server import Doors, StoreSettings, serve_store  # noqa: PLC0415
        from exporter.service.http_server import listening_on  # noqa: PLC0415

        if grpc_address is not None:
            import exporter.cluster.receiver_grpc  # noqa: F401, PLC0415 - a missing package is found here
    except ImportError as error:
        raise without_packages("cluster", "cluster", error) from None
    with logs.in_background(), listening_on(host, port) as listening:
        serve_store(
            StoreSettings(path, RetentionLimits(int(retention_seconds * NANOSECONDS), total_bytes)),
            Doors(listening, grpc_address, config_file, tokens),
        )
    return 0


def _import(path: Path, histories: Sequence[Path]) -> int:
    if not histories:
        raise BadInput("want histories to import", remedy="`gpu-stall-exporter cluster import FILE…`")
    try:
        from exporter.cluster.folder import StoreFolder  # noqa: PLC0415
        from exporter.cluster.importing import import_history  # noqa: PLC0415
        from exporter.cluster.store import ClusterStore, StoreLimits  # noqa: PLC0415
    except ImportError as error:
        raise without_packages("cluster", "cluster", error) from None
    now_unix_ns = time.time_ns()
    with closing(StoreFolder(path)) as folder, closing(ClusterStore(folder, StoreLimits(), now_unix_ns)) as store:
        for history in histories:
            counts = import_history(history, folder, store, now_unix_ns)
            beyond = f", {counts.refused:,} refused: too many processes" if counts.refused else ""
            print(f"{history}: {counts.rows:,} rows imported, {counts.known:,} were there already{beyond}")
    return 0


def _grpc_address(text: str) -> str | None:
    if text == "none":
        return None
    host, port = web_flags.address(text, "grpc.listen-address")
    return f"[{host}]:{port}" if ":" in host else f"{host or '[::]'}:{port}"


def _refuse_names_of_clients(config_file: Path | None) -> None:
    tls = AccessControl(config_file).rules().config.tls
    if tls is not None and tls.allowed_names:
        raise BadInput(
            f"{config_file}: client_allowed_sans is not supported by cluster",
            remedy="let a certification authority of its own sign the certificates of the clients",
        )
