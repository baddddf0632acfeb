"""How much longer do the steps of a training job take while the exporter traces it? By launch mode, in ABBA pairs.

One job goes on all the time; the exporter comes and goes. A pair is a block of steps with it and one without, in turns first and
second, so that a drift of the machine cancels out. Of a block the lower quartile counts: the median moves by half a percent from
block to block with nothing traced, more than what is looked for, and the quartile by a tenth.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import gpustall_standin as standin
from tests.bench.exporter_cost import running, total_of

MODES = ("off", "sampled", "full")
PAIRS = 8
BLOCK_SECONDS = 3.0
SETTLE_SECONDS = 0.5
# About 17,000 calls a second of one rank, of which most launch kernels; the GPU is busy all the time, as it should be.
FLAGS = ("--ranks=1", "--kernel-us=60", "--backward-kernel-us=60", "--optimizer-kernel-us=30", "--loader-workers=1")


class StepTime(NamedTuple):
    """ratios: traced against untraced, of each pair, sorted. calls_per_second: of the job, as the exporter counted them."""

    mode: str
    ratios: list[float]
    calls_per_second: float

    @property
    def longer(self) -> float:
        """Relative increase of a step: the median of the pairs."""
        return statistics.median(self.ratios) - 1


class _Job:
    """The running trainer. walls_ns: of the steps since the last clear()."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._walls_ns: list[int] = []
        self._lock = threading.Lock()
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            if said["type"] == "step":
                with self._lock:
                    self._walls_ns.append(said["end_ns"] - said["start_ns"])

    def step_ns(self) -> float:
        """The lower quartile over the next BLOCK_SECONDS."""
        with self._lock:
            self._walls_ns.clear()
        time.sleep(BLOCK_SECONDS)
        with self._lock:
            return statistics.quantiles(self._walls_ns, n=4)[0]

    def mean_step_ns(self, seconds: float) -> float:
        """Over the next so many seconds: what a disturbance costs is in few steps or in all."""
        with self._lock:
            self._walls_ns.clear()
        time.sleep(seconds)
        with self._lock:
            return statistics.mean(self._walls_ns)


@contextmanager
def training_job() -> Iterator[_Job]:
    process = subprocess.Popen(
        standin.trainer_command(*FLAGS), env=standin.environment(), stdout=subprocess.PIPE, text=True
    )
    try:
        yield _Job(process)
    finally:
        process.terminate()
        process.wait()


def step_times() -> Iterator[StepTime]:
    """Every mode; about a minute each."""
    with training_job() as job:
        for mode in MODES:
            ratios, rates = [], []
            for pair in range(PAIRS):
                if pair % 2:
                    untraced_ns = job.step_ns()
                traced_ns, rate = _traced(job, mode)
                if not pair % 2:
                    untraced_ns = job.step_ns()
                ratios.append(traced_ns / untraced_ns)
                rates.append(rate)
            yield StepTime(mode, sorted(ratios), statistics.median(rates))


def _traced(job: _Job, mode: str) -> tuple[float, float]:
    """(step in ns, calls counted per second)."""
    with running(f"--probes.launch={mode}") as exporter:
        while not total_of("gpustall_exporter_attached_functions", exporter.scrape()):
            time.sleep(0.05)
        time.sleep(SETTLE_SECONDS)
        before, started_at = _calls(exporter.scrape()), time.monotonic()
        traced_ns = job.step_ns()
        rate = (_calls(exporter.scrape()) - before) / (time.monotonic() - started_at)
        return traced_ns, rate


def _calls(exposition: str) -> int:
    return total_of("gpustall_cuda_operations_total", exposition)
