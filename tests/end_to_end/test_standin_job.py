"""`make run`: the exporter with the stand-in training job beside it, and nothing of either left after a stop."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from exporter.host.processes import Processes
from tests.support.exporter_process import Exporter, exists, running
from tests.support.exposition import COMMON_LABELS
from tests.support.requirements import need_command, need_no_cuda_users, need_tracing
from tests.support.traced import eventually

pytestmark = [pytest.mark.end_to_end, pytest.mark.idle_machine]
DURATIONS = ("gpustall_cuda_operation_duration_seconds", "gpustall_nccl_operation_duration_seconds")


@pytest.fixture(autouse=True, scope="module")
def _possible_here() -> None:
    """Skip, naming what is missing."""
    need_tracing()


@contextmanager
def with_job() -> Iterator[Exporter]:
    """An exporter on an idle machine; skips when another process came to use CUDA just before it started."""
    need_no_cuda_users()
    with running(under=(sys.executable, "-m", "gpustall_standin", "with-job")) as found:
        if "not starting the stand-in training job" in found.logs:
            pytest.skip("needs a machine on which no other process uses CUDA: one does by now")
        yield found


@pytest.fixture(scope="class")
def busy() -> Iterator[Exporter]:
    """An exporter beside the training job, which has two ranks."""
    with with_job() as found:
        eventually(lambda: operations_of(found, "1"), "rank 1 trains")
        yield found


def operations_of(exporter: Exporter, rank: str) -> set[str]:
    """Operations whose histograms have counts."""
    scrape = exporter.scrape()
    return {
        operation
        for metric in DURATIONS
        for operation, count in scrape.by("operation", f"{metric}_count", rank=rank).items()
        if count > 0
    }


class TestStandinJob:
    """Something to look at on a machine where nothing uses CUDA."""

    @pytest.mark.parametrize("rank", ["0", "1"])
    def test_fifteen_operations_of_each_rank_have_histograms(self, busy: Exporter, rank: str) -> None:
        """Runtime, driver and NCCL together."""
        eventually(lambda: len(operations_of(busy, rank)) >= 15, f"15 operations of rank {rank}")

    def test_every_workload_series_has_the_five_labels(self, busy: Exporter) -> None:
        """Empty ones included."""
        samples = busy.scrape().workload()

        assert len(samples) > 100
        assert [sample for sample in samples if not sample.labels.keys() >= COMMON_LABELS] == []

    @pytest.mark.parametrize("rank", ["0", "1"])
    def test_a_rank_has_at_most_600_series(self, busy: Exporter, rank: str) -> None:
        """Every line of it, buckets included; after an evaluation, with which every operation of the job has been seen."""
        eventually(lambda: "ncclBroadcast" in operations_of(busy, rank), f"rank {rank} has evaluated")

        assert 100 < sum(sample.labels.get("rank") == rank for sample in busy.scrape().samples) <= 600

    def test_no_record_is_dropped(self, busy: Exporter) -> None:
        """A training job at full speed."""
        eventually(lambda: busy.scrape().total("gpustall_cuda_operations_total") > 10_000, "10,000 calls")

        assert busy.scrape().losses() == {}

    def test_promtool_accepts_a_scrape(self, busy: Exporter) -> None:
        """`promtool check metrics` of a live scrape: exit code 0 and silence."""
        promtool = need_command("promtool", "prometheus")
        done = subprocess.run(
            [promtool, "check", "metrics"], input=busy.get().body, capture_output=True, timeout=60, check=False
        )

        assert (done.returncode, done.stdout + done.stderr) == (0, b"")

    def test_both_formats_name_the_same_metrics(self, busy: Exporter) -> None:
        """Text and OpenMetrics, parsed by prometheus-client; a job's names only become more."""
        earlier, openmetrics, later = (
            {sample.name for sample in scrape().workload()}
            for scrape in (busy.scrape, busy.scrape_openmetrics, busy.scrape)
        )

        assert earlier <= openmetrics <= later
        assert len(earlier) > 10


class TestStopping:
    """By a signal; SIGKILL cannot be handled."""

    @pytest.mark.parametrize(
        ("number", "exit_code"), [(signal.SIGTERM, 0), (signal.SIGINT, 0), (signal.SIGKILL, -signal.SIGKILL)]
    )
    def test_nothing_is_left(self, number: signal.Signals, exit_code: int) -> None:
        """No link, program or map in the kernel, no process of the job, nothing shared, nothing pinned."""
        shared, pinned = _listed("/dev/shm"), _listed("/sys/fs/bpf")
        with with_job() as exporter:
            eventually(lambda: len(exporter.scrape().matching("gpustall_workload_info")) >= 2, "both ranks are seen")
            things, job = exporter.kernel_things(), _job_of(exporter)
            code = exporter.stop(number)
            logs = exporter.logs

        assert code == exit_code
        assert {kind for kind, _ in things} == {"link", "prog", "map"}
        assert len(job) > 2
        eventually(lambda: not any(_is_alive(tgid) for tgid in job), f"the job {job} has ended")
        eventually(lambda: not [thing for thing in things if exists(thing)], "the kernel has forgotten everything")
        assert _listed("/dev/shm") <= shared
        assert _listed("/sys/fs/bpf") <= pinned
        assert ("stopped, all probes removed" in logs) == (exit_code == 0)


def _job_of(exporter: Exporter) -> list[int]:
    """tgids of the stand-in job: it has a session of its own, named after its first process."""
    found = re.search(r"started the stand-in training job, pid (\d+)", exporter.logs)
    assert found is not None
    return [tgid for tgid in Processes().tgids() if _session_of(tgid) == int(found[1])]


def _session_of(tgid: int) -> int:
    try:
        return os.getsid(tgid)
    except ProcessLookupError:
        return 0


def _listed(folder: str) -> set[Path]:
    return set(Path(folder).iterdir()) if Path(folder).is_dir() else set()


def _is_alive(tgid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{tgid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False
