"""How long does a running job stand still while 60 functions of a library are probed, and while the probes are removed?

A program calls these functions without rest and notes the largest time between two readings of the clock, in windows in which
probes come and go and in windows of the same length in which nothing happens; times in which another task had its CPU do not
count. A function that is probed takes a microsecond longer: that is in the figure.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from typing import NamedTuple

from exporter.config.probes import AttachKind
from exporter.host.elf import read_elf
from exporter.kernel import loader, probes
from exporter.kernel.abi import Api
from exporter.kernel.loader import Kernel
from exporter.kernel.operations import wanted_symbols
from tests.bench import target
from tests.bench.target import BUILD

FUNCTIONS = tuple(wanted_symbols(Api.DRIVER))[:60]
LIBRARY = BUILD / "libpause.so"
# Removing 120 perf events takes 12 s on kernel 6.18: few rounds say enough.
ROUNDS = {AttachKind.SESSION: 31, AttachKind.MULTI: 31, AttachKind.SINGLE: 1}


class Pause(NamedTuple):
    """Medians over the rounds of the largest pause in a window, in microseconds; seconds: how long a window is."""

    attaching_us: float
    detaching_us: float
    neither_us: float
    attach_seconds: float
    detach_seconds: float


class _Job:
    """The running program."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [BUILD / "pause", LIBRARY, *FUNCTIONS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def largest_us(self) -> float:
        """Since the last time."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline()) / 1000

    def end(self) -> None:
        """At the end of its input."""
        self._process.communicate(timeout=10)


def _build() -> None:
    target.library(LIBRARY, FUNCTIONS)
    subprocess.run(
        ["cc", "-O2", "-Wall", "-Werror", "-pthread", target.HERE / "pause.c", "-o", BUILD / "pause", "-ldl"],
        check=True,
    )


def pause(kind: AttachKind) -> Pause:
    """By one kind of attachment."""
    _build()
    kernel, job = loader.load(wanted=kind), _Job()
    try:
        time.sleep(0.1)
        rounds = [_round(kernel, job) for _ in range(ROUNDS[kind])]
    finally:
        job.end()
        kernel.close()
    return Pause(*(statistics.median(column) for column in zip(*rounds, strict=True)))


def _round(kernel: Kernel, job: _Job) -> Pause:
    fd = os.open(LIBRARY, os.O_RDONLY | os.O_CLOEXEC)
    try:
        offsets = read_elf(fd).symbol_offsets(wanted_symbols(Api.DRIVER))
        job.largest_us()
        began_at = time.monotonic()
        attachment = probes.attach(kernel, Api.DRIVER, fd, offsets)
        attached_at = time.monotonic()
        attaching_us = job.largest_us()
        attachment.detach()
        detached_at = time.monotonic()
        detaching_us = job.largest_us()
    finally:
        os.close(fd)
    assert len(attachment.functions) == len(FUNCTIONS)
    time.sleep(detached_at - began_at)
    return Pause(attaching_us, detaching_us, job.largest_us(), attached_at - began_at, detached_at - attached_at)
