"""What does `record` cost a job while it runs and afterwards, what does it drop, and are its durations those of /metrics?

One job of 17,000 calls a second goes on all the time, with an exporter. A pair is a block of steps with a recording and one
without, in turns first and second. For the durations a job of its own begins and ends within a recording.
"""

from __future__ import annotations

import json
import re
import socket
import statistics
import subprocess
import threading
import time
from pathlib import Path
from typing import NamedTuple

import gpustall_standin as standin
from exporter.recording.call_stream import RecordingEnd, frames
from exporter.recording.recorded_calls import RecordedCalls, SingleCall
from tests.bench.exporter_cost import running
from tests.bench.step_time import FLAGS, training_job

PAIRS = 6
SECONDS = 5.0
WHOLE_SECONDS = 12.0
MOST_BYTES = 1 << 28
_SUM = re.compile(r"^gpustall_(?:cuda|nccl)_operation_duration_seconds_sum\{[^}]*\} (\S+)$", re.MULTILINE)


class RecordCost(NamedTuple):
    """ratios: with a recording against without one, of each pair, sorted. after: without one, at the end against the begin.

    calls_per_second, dropped: of a recording. sums_differ: of durations, against /metrics.
    """

    ratios: list[float]
    after: float
    calls_per_second: float
    dropped: int
    sums_differ: float

    @property
    def longer(self) -> float:
        return statistics.median(self.ratios) - 1


class _Recording:
    """A recording that goes on. seconds_by_process: of calls."""

    def __init__(self, path: Path, seconds: float) -> None:
        self._peer = socket.socket(socket.AF_UNIX)
        self._peer.connect(str(path))
        self._peer.sendall(json.dumps({"seconds": seconds, "bytes": MOST_BYTES}).encode() + b"\n")
        self._stream = self._peer.makefile("rb")
        self._content = b""
        self._thread = threading.Thread(target=self._copy)
        self._first = self._stream.read(1)  # it has begun
        self._thread.start()
        self.seconds_by_process: dict[int, float] = {}
        self.calls = 0

    def _copy(self) -> None:
        self._content = self._first + self._stream.read()

    def end(self) -> RecordingEnd:
        """Waits for it."""
        self._thread.join()
        self._peer.close()
        at = 0

        def read(size: int) -> bytes:
            nonlocal at
            at += size
            return self._content[at - size : at]

        found = RecordedCalls()
        for one in found.read(frames(read)):
            if isinstance(one, SingleCall) and "is_open" not in one.arguments:
                self.calls += 1
                length = (one.ended_unix_ns - one.began_unix_ns) / 1e9
                self.seconds_by_process[one.process] = self.seconds_by_process.get(one.process, 0.0) + length
        assert found.end is not None
        return found.end


def record_cost() -> RecordCost:
    """About a minute and a half."""
    with running("--probes.overhead-limit=100%") as exporter:
        path = exporter.exporter.socket
        with training_job() as job:
            exporter.wait_until_attached()
            time.sleep(1.0)
            first_ns = job.step_ns()
            ratios, rates, dropped = [], [], 0
            for pair in range(PAIRS):
                if pair % 2:
                    without_ns = job.step_ns()
                recording = _Recording(path, SECONDS)
                with_ns = job.step_ns()
                end = recording.end()
                if not pair % 2:
                    without_ns = job.step_ns()
                ratios.append(with_ns / without_ns)
                rates.append(recording.calls / SECONDS)
                dropped += end.skipped + sum(one.full + one.left_out for one in end.processes.values())
            after = job.step_ns() / first_ns - 1
    return RecordCost(sorted(ratios), after, statistics.median(rates), dropped, _sums_differ())


def _sums_differ() -> float:
    """For a job of its own, with an exporter of its own, whose sums are those of the job."""
    with running("--probes.overhead-limit=100%") as exporter:
        recording = _Recording(exporter.exporter.socket, WHOLE_SECONDS)
        subprocess.run(
            standin.trainer_command(*FLAGS, "--steps=200", "--quiet"),
            env=standin.environment(),
            stdout=subprocess.DEVNULL,
            check=True,
        )
        recording.end()
        counted = sum(float(value) for value in _SUM.findall(exporter.scrape()))
    return abs(sum(recording.seconds_by_process.values()) / counted - 1)
