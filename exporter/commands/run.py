"""`gpu-stall-exporter run`: load, attach, serve until a signal."""

from __future__ import annotations

import argparse
import logging
import os
import signal
from collections.abc import Callable
from contextlib import ExitStack

from exporter import config
from exporter.app import logs, open_files, wanted_programs
from exporter.app.daemon import Daemon
from exporter.app.signals import handling_signals
from exporter.config.environment import unknown_variables
from exporter.history import file_guard
from exporter.host import privileges
from exporter.probes import event_opener

log = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    config.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Returns 0 after a stop by signal."""

    def read_config() -> config.Config:
        return config.load(vars(arguments))

    settings = read_config()
    file_guard.join_reader_group()
    logs.set_up(settings.log.level, settings.log.format)
    # Until there are handlers, these signals would terminate the process. Before the first thread, which inherits this.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP, signal.SIGUSR1})
    with logs.in_background():
        if warning := unknown_variables(os.environ, config.VARIABLES):
            log.warning(warning)
        if settings.otlp.unusable:
            log.warning("%s; OpenTelemetry's variables are ignored", settings.otlp.unusable)
        open_files.raise_limit()
        _serve(settings, read_config)
        log.info("stopped, all probes removed")
    return 0


def _serve(settings: config.Config, read_config: Callable[[], config.Config]) -> None:
    with_namespaces = settings.collectors.network_namespaces
    with ExitStack() as resources, ExitStack() as attaching:
        # What takes more capabilities than those that are kept.
        returns = wanted_programs.judged_returns(settings)
        event_source = event_opener.prepared(settings.probes.attach, attaching, with_network_namespaces=with_namespaces)
        privileges.drop(with_network_namespaces=with_namespaces)
        daemon = Daemon(settings, resources, event_source=event_source, returns=returns, read_config=read_config)
        with handling_signals(stop=daemon.stop, reload=daemon.reload, disable_probes=daemon.disable_probes):
            for url in daemon.server.urls():
                log.info("serving %s%s", url, settings.web.telemetry_path)
            if settings.probes.attaches_once:
                if not daemon.discovery.probed():
                    log.warning(
                        "no library was probed at startup, and --probes.attach-once allows none later: start the jobs"
                        " first, then restart the exporter"
                    )
                attaching.close()
                privileges.drop_after_attaching(with_network_namespaces=with_namespaces)
                daemon.discovery.freeze()
            daemon.run()
