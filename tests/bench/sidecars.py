"""What do eight sidecars on one node cost? Each in a pod of its own, with one process that it traces; all pods share the library.

A probe belongs to a file: every call runs the programs of all sidecars, and all but one of them ignore it.
"""

from __future__ import annotations

import statistics
import subprocess
import time
from contextlib import ExitStack
from typing import NamedTuple

from tests.bench import exporter_cost
from tests.bench.exporter_cost import Running
from tests.bench.switch_cost import switch_ns
from tests.bench.target import BUILD, Target

POD = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
CALLS = 50_000
ROUNDS = 15
IDLE_SECONDS = 20


class Sidecars(NamedTuple):
    """Costs of `count` sidecars on one node. cpu_share, rss_mib: of all together, at rest and scraped every five seconds."""

    count: int
    call_ns: float
    switch_ns: float
    cpu_share: float
    rss_mib: float


def sidecars(count: int) -> Sidecars:
    """Calls are measured in the first pod, switches between processes of no pod."""
    with ExitStack() as stack:
        exporters = [stack.enter_context(exporter_cost.running(under=POD)) for _ in range(count)]
        targets = [stack.enter_context(Target(around=_inside(one))) for one in exporters]
        for exporter in exporters:
            exporter.wait_until_attached()
        target = targets[0] if targets else stack.enter_context(Target())
        for one in targets:
            one.do("each 1")
        bursts = [target.do(f"burst {CALLS}") for _ in range(ROUNDS)]
        with subprocess.Popen(
            [BUILD / "switches"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as switching:
            switches_ns = [switch_ns(switching) for _ in range(ROUNDS * 10)]
            switching.communicate()
        return Sidecars(
            count,
            statistics.median(elapsed_ns / calls for calls, elapsed_ns in bursts),
            statistics.median(switches_ns),
            _idle_share(exporters),
            sum(one.rss_mib() for one in exporters),
        )


def _inside(exporter: Running) -> tuple[str, ...]:
    """A command that enters the pod."""
    return ("nsenter", f"--target={exporter.tgid}", "--pid", "--mount")


def _idle_share(exporters: list[Running]) -> float:
    """Together."""
    before = sum(one.cpu_seconds() for one in exporters)
    for _ in range(IDLE_SECONDS // 5):
        for one in exporters:
            one.scrape()
        time.sleep(5)
    return (sum(one.cpu_seconds() for one in exporters) - before) / IDLE_SECONDS
