"""Exporter and job are stopped together and go on later, as in a frozen cgroup or under a debugger."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator

import pytest

from tests.support.exporter_process import running
from tests.support.held_calls import program
from tests.support.requirements import need_tracing
from tests.support.traced import eventually

# whole_machine: tests beside it would take the CPUs from the ticks.
pytestmark = [pytest.mark.end_to_end, pytest.mark.whole_machine]
STOPPED_SECONDS = 5.0
MARGIN_SECONDS = 1.0
CALLS, LOST, TICKS = "gpustall_cuda_operations_total", "gpustall_lost_seconds_total", "gpustall_exporter_ticks_total"


@pytest.fixture
def job() -> Iterator[subprocess.Popen[bytes]]:
    """A training job of one rank, in a process group of its own."""
    need_tracing()
    with program("trainer", "--ranks=1", "--quiet") as process:
        yield process


def test_time_of_a_common_stop_is_lost_to_a_pause_and_no_counter_goes_back(job: subprocess.Popen[bytes]) -> None:
    """Ticks go on, and none makes up for those that were missed."""
    with running() as exporter:
        eventually(lambda: exporter.scrape().total(CALLS, operation="cudaLaunchKernel") > 0, "calls are counted")
        before = exporter.scrape()
        for process in (job, exporter.process):
            os.killpg(process.pid, signal.SIGSTOP)
        time.sleep(STOPPED_SECONDS)
        for process in (exporter.process, job):
            os.killpg(process.pid, signal.SIGCONT)
        ticks = exporter.scrape().total(TICKS)
        eventually(lambda: exporter.scrape().total(TICKS) >= ticks + 8, "ticks go on")
        after = exporter.scrape()

    paused = after.total(LOST, cause="paused") - before.total(LOST, cause="paused")
    assert paused == pytest.approx(STOPPED_SECONDS, abs=MARGIN_SECONDS)
    assert ticks - before.total(TICKS) < 2 * STOPPED_SECONDS
    for name in (CALLS, LOST):
        totals = {tuple(sorted(one.labels.items())): one.value for one in after.matching(name)}
        went_back = [one for one in before.matching(name) if totals[tuple(sorted(one.labels.items()))] < one.value]
        assert went_back == []
