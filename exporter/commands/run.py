"""`gpu-stall-exporter run`: load, attach, serve until a signal comes."""

from __future__ import annotations

import argparse
import logging
import resource
import signal
from contextlib import ExitStack

from exporter import config
from exporter.app import logs
from exporter.app.daemon import Daemon
from exporter.app.signals import handling_signals
from exporter.history import file_guard
from exporter.host import privileges

log = logging.getLogger(__name__)

_DESCRIPTORS = 65_536  # without multi links each function takes two perf events: a hundred libraries' worth


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """All settings of the exporter."""
    config.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Returns 0 after a stop by signal."""

    def read_config() -> config.Config:
        return config.load(vars(arguments))

    settings = read_config()
    file_guard.join_readers()
    logs.set_up(settings.log.level, settings.log.format)
    privileges.drop(with_network_namespaces=settings.collectors.network_namespaces)
    signal.pthread_sigmask(
        signal.SIG_BLOCK, {signal.SIGHUP, signal.SIGUSR1}
    )  # until they can be obeyed, or they would end the process
    _allow_descriptors()
    with ExitStack() as resources:
        daemon = Daemon(settings, resources, read_config=read_config)
        with handling_signals(daemon):
            for url in daemon.server.urls():
                log.info("serving %s%s", url, settings.web.telemetry_path)
            if not daemon.discovery.probed():
                log.info("no process uses CUDA yet; libraries are probed as soon as one is loaded")
            if settings.probes.attaches_once:
                daemon.discovery.freeze()
                privileges.drop_after_attaching(with_network_namespaces=settings.collectors.network_namespaces)
            daemon.run()
    log.info("stopped, all probes removed")
    return 0


def _allow_descriptors() -> None:
    """As many as the hard limit and _DESCRIPTORS allow; service managers start with 1,024, which select(2) asks for."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
