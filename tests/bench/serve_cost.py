"""What does `serve` take over a day of eight ranks: an answer, memory, and CPU time without requests?"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from statistics import quantiles
from typing import NamedTuple

from tests.support.day import make_day
from tests.support.serving import Serving, serving

ROUNDS = 40
IDLE_SECONDS = 20.0


class ServeCosts(NamedTuple):
    """Over HTTPS, a connection for each request. resident_mib: of the server, and of the process that starts calls."""

    explain_p50_seconds: float
    explain_p95_seconds: float
    episode_p95_seconds: float
    resident_mib: float
    dispatcher_mib: float
    idle_cpu_ratio: float


def serve_costs() -> ServeCosts:
    with tempfile.TemporaryDirectory() as folder:
        day = Path(folder) / "day" / "history.sqlite"
        make_day(day, time.time_ns())
        with serving(day, Path(folder)) as server:
            chain_id = server.call("explain", since="6h")["chains"][0]["chain_id"]
            explained = [_seconds(server, "explain") for _ in range(ROUNDS)]
            episodes = [_seconds(server, "episode", chain_id=chain_id) for _ in range(ROUNDS)]
            tgid = server.process.pid
            before = cpu_seconds(tgid)
            time.sleep(IDLE_SECONDS)
            idle = (cpu_seconds(tgid) - before) / IDLE_SECONDS
            (dispatcher,) = map(int, Path(f"/proc/{tgid}/task/{tgid}/children").read_text().split())
            return ServeCosts(
                quantiles(explained, n=20)[9],
                quantiles(explained, n=20)[18],
                quantiles(episodes, n=20)[18],
                resident_mib(tgid),
                resident_mib(dispatcher),
                idle,
            )


def _seconds(server: Serving, name: str, **arguments: str) -> float:
    began = time.monotonic()
    server.call(name, **arguments)
    return time.monotonic() - began


def cpu_seconds(tgid: int) -> float:
    fields = Path(f"/proc/{tgid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mib(tgid: int) -> float:
    return int(Path(f"/proc/{tgid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)
