"""`gpu-stall-exporter run`: load, attach, serve until a signal comes."""

from __future__ import annotations

import argparse
import ctypes
import logging
import resource
import signal
import subprocess
from contextlib import ExitStack

from exporter import config, standin
from exporter.app import logs
from exporter.app.daemon import Daemon
from exporter.app.signals import obeying_signals
from exporter.errors import NotPossibleHere
from exporter.history import file_guard
from exporter.host import privileges
from exporter.host.libraries import LibraryKind
from exporter.probes.discovery import Discovery

log = logging.getLogger(__name__)

_PR_SET_PDEATHSIG = 1
_STANDIN_PATIENCE_SECONDS = 5
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
    logs.set_up(settings.log_level, settings.log_format)
    privileges.let_go(with_network_namespaces=settings.with_network_namespaces)
    signal.pthread_sigmask(
        signal.SIG_BLOCK, {signal.SIGHUP, signal.SIGUSR1}
    )  # until they can be obeyed, or they would end the process
    _allow_descriptors()
    with ExitStack() as resources:
        daemon = Daemon(settings, resources, read_config=read_config)
        with obeying_signals(daemon):
            for url in daemon.server.urls():
                log.info("serving %s%s", url, settings.telemetry_path)
            if not daemon.discovery.probed():
                _without_libraries(daemon.discovery, settings.standin_if_idle, resources)
            if settings.is_frozen:
                daemon.discovery.freeze()
                privileges.let_go_when_frozen(with_network_namespaces=settings.with_network_namespaces)
            daemon.run()
    log.info("stopped, all probes removed")
    return 0


def _allow_descriptors() -> None:
    """As many as the hard limit and _DESCRIPTORS allow; service managers start with 1,024, which select(2) asks for."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _without_libraries(discovery: Discovery, start_standin: bool, resources: ExitStack) -> None:
    if not start_standin:
        log.info("no process uses CUDA yet; libraries are probed as soon as one is loaded")
        return
    if not standin.is_built():
        raise NotPossibleHere(f"the stand-in GPU is not built in {standin.build_dir()}", remedy="run `make build`")
    for name, kind in standin.PROBED.items():
        discovery.expect(standin.build_dir() / name, LibraryKind(kind))
    job = subprocess.Popen(
        standin.trainer_command("--quiet"),
        env=standin.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=_die_with_parent,  # noqa: PLW1509 - one system call, before any thread of ours exists in the child
    )
    resources.callback(_stop, job)
    log.info("no process uses CUDA: started the stand-in training job, pid %d (a CPU-only model of a GPU)", job.pid)


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def _stop(job: subprocess.Popen[bytes]) -> None:
    job.terminate()
    try:
        job.wait(_STANDIN_PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        job.kill()
        job.wait()
