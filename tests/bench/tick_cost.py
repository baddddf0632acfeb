"""What does a tick cost with a node full of ranks at work? The running exporter's own figure, taken from its metrics."""

from __future__ import annotations

import os
import subprocess
import time

from exporter import standin
from tests.bench.exporter_cost import running, value_of

RANKS, WORKERS = 8, 8
_SECONDS = 10


def tick_ms() -> float:
    """CPU time of a tick, the mean over ten seconds. The GPU's work is long, so that two CPUs are enough for all of them."""
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
            time.sleep(_SECONDS)
            after = exporter.scrape()
        finally:
            job.terminate()
            job.wait()
    seconds, ticks = (
        value_of(name, after) - value_of(name, before)
        for name in ("gpustall_exporter_tick_time_seconds_total", "gpustall_exporter_ticks_total")
    )
    return seconds / ticks * 1000
