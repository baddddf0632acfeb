"""The exporter is restarted beside a running job: counters are reset, and every later call is counted."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator

import pytest

import gpustall_standin as standin
from tests.support import accounts
from tests.support.exporter_process import Exporter, running
from tests.support.exposition import Scrape
from tests.support.held_calls import fresh_rank, held_calls, without_rank
from tests.support.requirements import need_tracing
from tests.support.traced import STANDIN_LIBRARIES, eventually

pytestmark = pytest.mark.end_to_end
OPERATIONS = "gpustall_cuda_operations_total"
LOST = "gpustall_lost_seconds_total"
STARTED = "process_start_time_seconds"


@pytest.fixture(scope="module", autouse=True)
def _possible_here() -> None:
    """Skip with a reason where something is missing."""
    need_tracing()


@pytest.fixture
def slowed_job() -> Iterator[None]:
    """A job of one rank that shares a CPU with two hogs."""
    cpu = max(os.sched_getaffinity(0))
    command = ["taskset", "-c", str(cpu), *standin.trainer_command("--ranks=1", "--quiet", "--sync=block")]
    job = subprocess.Popen(command, env=standin.environment(without_rank()), stdout=subprocess.DEVNULL)
    with job, accounts.hogs(2, cpu=cpu):
        try:
            yield
        finally:
            job.kill()


def _probed(exporter: Exporter) -> bool:
    return all(re.search(rf"attached to \S*/{re.escape(name)}:", exporter.logs) for name in STANDIN_LIBRARIES.values())


class TestRestart:
    """Beside a job that goes on."""

    def test_counters_are_reset_and_miss_no_call(self) -> None:
        """23 calls before and 29 after: the second exporter has counted 29, with its own start time."""
        rank = fresh_rank()
        with held_calls("cudaEventRecord:29", rank=rank) as later:
            with running() as first, held_calls("cudaEventRecord:23", rank=rank) as earlier:
                eventually(lambda: _probed(first), "the libraries are probed")
                earlier.make()
                before = eventually(lambda: self._with_calls(first, rank, 23), "23 calls are counted")
            with running() as second:
                assert _probed(second)  # before it serves: what is mapped already is looked for first
                later.make()
                after = eventually(lambda: self._with_calls(second, rank, 29), "29 calls are counted")

        assert after.total(STARTED) > before.total(STARTED)
        assert after.losses() == {}

    @pytest.mark.acceptance
    @pytest.mark.whole_machine
    @pytest.mark.usefixtures("slowed_job")
    def test_a_stall_that_goes_on_is_exported_at_the_next_tick(self) -> None:
        """Ticks are a second apart: the first is at once, and what the job lost is there at the second."""
        ticks = []
        for _ in range(2):
            with running("--tick.interval=1s") as exporter:
                assert _probed(exporter)
                page = eventually(lambda exporter=exporter: self._with_a_loss(exporter), "the lost time is exported")
                ticks.append(page.total("gpustall_exporter_ticks_total"))

        assert max(ticks) <= 2

    @staticmethod
    def _with_a_loss(exporter: Exporter) -> Scrape | None:
        scrape = exporter.scrape()
        return scrape if scrape.total(LOST, cause="cpu_contention") else None

    @staticmethod
    def _with_calls(exporter: Exporter, rank: str, count: int) -> Scrape | None:
        scrape = exporter.scrape()
        return scrape if scrape.total(OPERATIONS, rank=rank, operation="cudaEventRecord") == count else None
