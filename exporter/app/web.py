"""The web server of the exporter: sockets, pages and limits from the configuration."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from exporter.config import Config
from exporter.config.web_file import MAX_FILE_BYTES
from exporter.host.patient_files import PatientFiles
from exporter.host.tcp_sockets import user_of
from exporter.model import Snapshot
from exporter.output.web import listeners
from exporter.output.web.access import AccessControl
from exporter.output.web.call_sites import CallSitesReading
from exporter.output.web.limits import ServerLimits
from exporter.output.web.pages import Pages
from exporter.output.web.server import Server
from exporter.own_metrics.store import OwnMetrics

FILE_PATIENCE_SECONDS = 0.5


def web_server(
    config: Config,
    own: OwnMetrics,
    resources: ExitStack,
    *,
    snapshot: Callable[[], Snapshot],
    is_ready: Callable[[], bool],
    is_alive: Callable[[], bool],
    reload: Callable[[], Sequence[str]],
    call_sites: Callable[[], CallSitesReading],
) -> Server:
    """Listens already; start() serves. Raises BadInput and NotPossibleHere."""
    files = PatientFiles(FILE_PATIENCE_SECONDS)
    resources.callback(files.close)
    access = AccessControl(config.web.config_file, lambda path: files.read(path, MAX_FILE_BYTES))
    pages = Pages(
        snapshot,
        own,
        is_ready,
        telemetry_path=config.web.telemetry_path,
        with_exporter_metrics=config.web.with_exporter_metrics,
        reload=reload if config.web.with_reload else None,
        is_alive=is_alive,
        call_sites=call_sites,
    )
    sockets = (
        listeners.from_systemd(os.environ)
        if config.web.with_systemd_sockets
        else listeners.listening(config.web.listen_addresses)
    )
    return Server(
        sockets,
        pages,
        access,
        ServerLimits(max_requests=config.web.max_requests),
        is_health_open=config.web.is_health_open,
        user_of=user_of,
    )
