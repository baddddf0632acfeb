"""SIGUSR1 removes every probe and nothing else: the exporter serves, the job goes on."""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
from pathlib import Path

import pytest

import gpustall_standin as standin
from exporter.catalog import METRICS_OF_COLLECTOR, workload
from exporter.config.collectors import HOST_COLLECTORS
from tests.support import held_calls
from tests.support.breakpoints import patched
from tests.support.exporter_process import Exporter, exists, running
from tests.support.exposition import Scrape
from tests.support.held_calls import HeldCalls, fresh_rank
from tests.support.requirements import need_tracing
from tests.support.traced import STANDIN_LIBRARIES, eventually

pytestmark = pytest.mark.end_to_end
OPERATIONS = "gpustall_cuda_operations_total"
ENABLED = "gpustall_exporter_probes_enabled"
ATTACHMENTS = "gpustall_exporter_attachments"
REMOVED = "all probes removed from"
PROMISED_SECONDS = 1.0


@pytest.fixture(scope="module", autouse=True)
def _possible_here() -> None:
    """Skip with a reason where something is missing."""
    need_tracing()


@pytest.fixture
def libraries(tmp_path: Path) -> Path:
    """A folder with the stand-in's libraries, which nothing has attached to before."""
    for name in STANDIN_LIBRARIES.values():
        shutil.copy(standin.build_dir() / name, tmp_path)
    return tmp_path


def probed(exporter: Exporter, libraries: Path) -> None:
    """Wait until all three are probed."""
    for name in STANDIN_LIBRARIES.values():
        eventually(lambda name=name: f"attached to {libraries}/{name}" in exporter.logs, f"{name} is probed")


def with_calls(exporter: Exporter, rank: str, count: int) -> Scrape:
    """A scrape that has them."""

    def found() -> Scrape | None:
        scrape = exporter.scrape()
        return scrape if scrape.total(OPERATIONS, rank=rank, operation="cudaEventRecord") == count else None

    scrape: Scrape = eventually(found, f"{count} calls")
    return scrape


def without_processes(exporter: Exporter) -> Scrape | None:
    """A scrape in which none is alive."""
    scrape = exporter.scrape()
    return None if scrape.matching("gpustall_workload_info") else scrape


def all_patched(calls: HeldCalls, libraries: Path) -> set[str]:
    """Functions of the three libraries that bear a probe in the job's memory."""
    return {
        symbol for api, name in STANDIN_LIBRARIES.items() for symbol in patched(calls.tgids[0], libraries / name, api)
    }


def _switch_off_as_soon_as_possible(tgid: int) -> None:
    """Once it blocks the signal: Python itself has to start first."""

    def is_blocked() -> bool:
        (mask,) = re.findall(r"^SigBlk:\s*([0-9a-f]+)$", Path(f"/proc/{tgid}/status").read_text(), re.MULTILINE)
        return bool(int(mask, 16) >> (signal.SIGUSR1 - 1) & 1)

    eventually(is_blocked, "SIGUSR1 is blocked")
    os.kill(tgid, signal.SIGUSR1)


class TestSwitchedOff:
    """While a job runs."""

    def test_calls_are_counted_up_to_the_signal_and_the_job_goes_on(self, libraries: Path) -> None:
        """23 calls before the signal are counted, those of a later process are not; pages are still served."""
        rank, later_rank = fresh_rank(), fresh_rank()
        with (
            held_calls.held_calls("cudaEventRecord:23", rank=rank, libraries=libraries) as calls,
            held_calls.held_calls("cudaEventRecord:23", rank=later_rank, libraries=libraries) as later,
            running() as exporter,
        ):
            probed(exporter, libraries)
            before = all_patched(calls, libraries)
            calls.make()
            with_calls(exporter, rank, 23)
            exporter.process.send_signal(signal.SIGUSR1)
            eventually(lambda: REMOVED in exporter.logs, "the probes are removed")
            after = eventually(lambda: not all_patched(calls, libraries), "nothing is left in the job")
            later.make()
            scrape = eventually(lambda: without_processes(exporter), "no process is tracked")
            health = exporter.get("/healthz").status
            for one in (calls, later):
                one.end()
            exit_code = exporter.stop()

        assert {"cudaEventRecord", "cuLaunchKernel", "ncclAllReduce"} <= before
        assert after
        assert (scrape.total(ENABLED), scrape.matching(ATTACHMENTS)) == (0, [])
        assert scrape.total(OPERATIONS, rank=rank, operation="cudaEventRecord") == 23
        assert scrape.matching(OPERATIONS, rank=later_rank) == []
        assert scrape.total("gpustall_exporter_tracked_processes") == 0
        assert (health, exit_code) == (200, 0)

    def test_links_are_gone(self, libraries: Path) -> None:
        """Only iterators are left, which run when the exporter asks. The loop is woken, though the next tick is in an hour."""
        with held_calls.held_calls("cudaEventRecord:23", libraries=libraries):
            self._seconds_to_remove(libraries)

    @pytest.mark.acceptance
    def test_links_are_gone_within_a_second(self, libraries: Path) -> None:
        """The fastest of three: other work on the machine only makes it slower."""
        with held_calls.held_calls("cudaEventRecord:23", libraries=libraries):
            best = min(self._seconds_to_remove(libraries) for _ in range(3))

        assert best < PROMISED_SECONDS

    @staticmethod
    def _seconds_to_remove(libraries: Path) -> float:
        """From the signal until only iterators are left of its links."""
        with running("--probes.discovery-interval=1h", "--tick.interval=1h") as exporter:
            probed(exporter, libraries)
            links = {thing for thing in exporter.kernel_things() if thing[0] == "link"}
            sent_at = time.monotonic()
            exporter.process.send_signal(signal.SIGUSR1)
            eventually(lambda: REMOVED in exporter.logs, "the probes are removed")
            duration_seconds = time.monotonic() - sent_at
            left = {thing for thing in links if exists(thing)}
            iterators = {thing for thing in exporter.kernel_things() if thing[0] == "link"}
        assert left <= iterators
        assert len(iterators) == 2
        return duration_seconds

    def test_nothing_is_attached_any_more(self, libraries: Path) -> None:
        """A library that is loaded after the signal is not probed, and a second signal does nothing."""
        with running("--probes.discovery-interval=100ms") as exporter:
            exporter.process.send_signal(signal.SIGUSR1)
            eventually(lambda: REMOVED in exporter.logs, "the probes are removed")
            ticks = exporter.scrape().total("gpustall_exporter_ticks_total")
            exporter.process.send_signal(signal.SIGUSR1)
            with held_calls.held_calls("cudaEventRecord:23", libraries=libraries):
                eventually(
                    lambda: exporter.scrape().total("gpustall_exporter_ticks_total") > ticks + 4,
                    "walks would have been made",
                )
            exit_code = exporter.stop()
            logs = exporter.logs

        assert f"attached to {libraries}" not in logs
        assert logs.count(REMOVED) == 1
        assert exit_code == 0

    def test_a_signal_before_it_serves_takes_effect_when_it_does(self, libraries: Path) -> None:
        """It comes while programs are loaded: blocked, and not lost."""
        with (
            held_calls.held_calls("cudaEventRecord:23", libraries=libraries) as calls,
            running(before_it_serves=_switch_off_as_soon_as_possible) as exporter,
        ):
            eventually(lambda: REMOVED in exporter.logs, "the probes are removed")
            after = all_patched(calls, libraries)
            exit_code = exporter.stop()

        assert after == set()
        assert exit_code == 0


class TestEntriesAlone:
    """`--probes.returns=never`, as on kernels that end a job under a seccomp filter at a return probe."""

    def test_calls_are_counted_and_the_loss_is_stated(self, libraries: Path) -> None:
        """In the log, in the kind of attachment, and by the metrics that are absent."""
        rank = fresh_rank()
        with held_calls.held_calls(
            "cudaEventRecord:23", "cudaMemcpyAsync:5:4096:h2d", rank=rank, libraries=libraries
        ) as calls:
            with running("--probes.returns=never") as exporter:
                eventually(lambda: f"attached to {libraries}/libcudart.so.12" in exporter.logs, "libcudart is probed")
                calls.make()
                scrape, logs = with_calls(exporter, rank, 23), exporter.logs
            calls.end()

        kinds = {(s.labels["library"], s.labels["kind"]) for s in scrape.matching(ATTACHMENTS)}
        names = {sample.name for sample in scrape.samples if sample.labels.get("rank") == rank}
        of_the_machine = {metric.name for name in HOST_COLLECTORS for metric in METRICS_OF_COLLECTOR[name]}
        of_the_job = names - {metric.name for metric in workload.COST_METRICS} - of_the_machine

        assert kinds == {("runtime", "entry"), ("driver", "entry")}
        assert of_the_job == {OPERATIONS, "gpustall_workload_info"}
        assert scrape.total(ENABLED) == 1
        assert "returns are not probed (--probes.returns=never): CUDA calls are only counted, by operation" in logs
