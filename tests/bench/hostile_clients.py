"""How long does a scrape take while clients misbehave, and how long does a stop take under load?"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from typing import NamedTuple
from urllib.parse import urlsplit

from tests.bench.exporter_cost import Running, running
from tests.bench.target import FUNCTIONS, Target
from tests.support import hostile_clients

SCRAPES = 20
PROCESSES = 10_000 // (len(FUNCTIONS) * 14) + 1


class Scrapes(NamedTuple):
    """clients: who else there was. first, slowest: of SCRAPES, from the connection to the last byte."""

    clients: str
    first_seconds: float
    slowest_seconds: float


def scrapes() -> Iterator[Scrapes]:
    """Without other clients, then with each kind; 10,000 samples a scrape."""
    with running() as exporter, ExitStack() as targets:
        targets.enter_context(Target())
        exporter.wait_until_attached()
        for rank in range(PROCESSES):
            targets.enter_context(Target(RANK=str(rank))).do("each 1")
        parts = urlsplit(exporter.exporter.url)
        address = parts.hostname or "", parts.port or 0
        for name, kind in {"none": lambda _: nullcontext(), **hostile_clients.KINDS}.items():
            with kind(address):
                seconds = [_timed(exporter) for _ in range(SCRAPES)]
            yield Scrapes(name, seconds[0], max(seconds))


def stop_seconds() -> float:
    """From SIGTERM to the end, with all kinds of clients at work."""
    with running() as exporter, ExitStack() as clients:
        parts = urlsplit(exporter.exporter.url)
        for kind in hostile_clients.KINDS.values():
            clients.enter_context(kind((parts.hostname or "", parts.port or 0)))
        before = time.monotonic()
        exporter.exporter.stop()
        return time.monotonic() - before


def _timed(exporter: Running) -> float:
    before = time.monotonic()
    exporter.scrape()
    return time.monotonic() - before
