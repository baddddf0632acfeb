"""What does the exporter cost with a node full of ranks at work? Its own figure of a tick, its CPU and its memory."""

from __future__ import annotations

import os
import subprocess
import time
from typing import NamedTuple

import gpustall_standin as standin
from tests.bench.exporter_cost import running, value_of

RANKS, WORKERS = 8, 8
_SECONDS = 10


class FullNode(NamedTuple):
    """tick_ms: CPU time, the mean over ten seconds. cpu_share: of a core, in that time. rss_mib: at the end."""

    tick_ms: float
    cpu_share: float
    rss_mib: float


def full_node() -> FullNode:
    """The GPU's work is long, so that two CPUs are enough for all of them. Scraped every five seconds."""
    command = [
        *(str(standin.build_dir() / "trainer"), f"--ranks={RANKS}", f"--loader-workers={WORKERS}", "--quiet"),
        *("--sync=block", "--pace-us=200000", "--loader-compute-us=200"),
    ]
    with (
        running() as exporter,
        subprocess.Popen(command, env=standin.environment(dict(os.environ)), stdout=subprocess.DEVNULL) as job,
    ):
        try:
            while value_of("gpustall_exporter_tracked_processes", exporter.scrape()) < RANKS:
                time.sleep(0.1)
            time.sleep(5)
            before = exporter.scrape()
            cpu_share = exporter.cpu_share_while(_SECONDS, 5)
            after = exporter.scrape()
            rss_mib = exporter.rss_mib()
        finally:
            job.terminate()
            job.wait()
    seconds, ticks = (
        value_of(name, after) - value_of(name, before)
        for name in ("gpustall_exporter_tick_time_seconds_total", "gpustall_exporter_ticks_total")
    )
    return FullNode(seconds / ticks * 1000, cpu_share, rss_mib)
