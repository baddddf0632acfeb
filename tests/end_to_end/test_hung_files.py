"""A file that does not answer costs the tenant who uses it: ticks go on, other jobs are counted, the exporter stops in time."""

from __future__ import annotations

import shutil
import ssl
import time
import urllib.request
from pathlib import Path

import pytest

import gpustall_standin as standin
from tests.support import certificates
from tests.support.exporter_process import Exporter, running
from tests.support.held_calls import HeldCalls, fresh_rank, held_calls
from tests.support.requirements import need_tracing
from tests.support.silent_files import served
from tests.support.traced import STANDIN_LIBRARIES, eventually

pytestmark = pytest.mark.end_to_end
OPERATIONS = "gpustall_cuda_operations_total"
TICKS = "gpustall_exporter_ticks_total"
FAILURES = "gpustall_exporter_attach_failures_total"
STOP_SECONDS = 2.0
TICK_SECONDS = 0.25


@pytest.fixture(scope="module", autouse=True)
def _possible_here() -> None:
    """Skip with a reason where something is missing."""
    need_tracing()
    if not Path("/dev/fuse").exists():
        pytest.skip("no /dev/fuse")


@pytest.fixture
def libraries(tmp_path: Path) -> Path:
    """A folder with the stand-in's libraries, which nothing has attached to before."""
    folder = tmp_path / "libraries"
    folder.mkdir()
    for name in STANDIN_LIBRARIES.values():
        shutil.copy(standin.build_dir() / name, folder)
    return folder


def counted(exporter: Exporter, calls: HeldCalls, rank: str) -> None:
    """23 calls are made and counted."""
    calls.make()
    eventually(
        lambda: exporter.scrape().total(OPERATIONS, rank=rank, operation="cudaEventRecord") == 23,
        "23 calls are counted",
    )


def longest_gap_seconds(exporter: Exporter, seconds: float) -> float:
    """The longest time between two ticks, as far as scrapes show it."""
    ticks, changed_at, longest = -1.0, time.monotonic(), 0.0
    until = time.monotonic() + seconds
    while (now := time.monotonic()) < until:
        found = exporter.scrape().total(TICKS)
        if found != ticks:
            ticks, changed_at = found, now
        longest = max(longest, now - changed_at)
        time.sleep(0.02)
    return longest


def timed_scrape(url: str, context: ssl.SSLContext) -> float:
    """Seconds of a scrape over TLS."""
    started_at = time.monotonic()
    with urllib.request.urlopen(url, timeout=20, context=context) as response:  # noqa: S310 - our own address
        assert response.read()
    return time.monotonic() - started_at


@pytest.fixture
def copy(libraries: Path, tmp_path: Path) -> Path:
    """The same libraries, as another job has them."""
    folder = tmp_path / "victim"
    shutil.copytree(libraries, folder)
    return folder


class TestHungLibrary:
    """A job's libraries lie on a file system that stops answering."""

    @pytest.mark.parametrize("user", [0, 65534])
    def test_ticks_go_on_and_a_job_that_starts_later_is_counted(
        self, user: int, libraries: Path, copy: Path, tmp_path: Path
    ) -> None:
        """Whether root or a user serves them."""
        rank = fresh_rank()
        with served(tmp_path / "mounted", libraries, user) as files, held_calls(libraries=tmp_path / "mounted"):
            files.fall_silent()
            with running() as exporter:
                gap_seconds = longest_gap_seconds(exporter, 2.0)
                with held_calls("cudaEventRecord:23", libraries=copy, rank=rank) as calls:
                    eventually(lambda: f"attached to {copy}/libcudart" in exporter.logs, "the other job is probed")
                    counted(exporter, calls, rank)
                started_at = time.monotonic()
                exporter.stop()
                stop_seconds = time.monotonic() - started_at

        assert gap_seconds < 2 * TICK_SECONDS + 0.2
        assert stop_seconds < STOP_SECONDS

    def test_file_system_of_a_user_is_not_probed(self, libraries: Path, tmp_path: Path) -> None:
        """Though it answers: the kernel would wait for it with locks held."""
        with (
            served(tmp_path / "mounted", libraries, 65534),
            held_calls(libraries=tmp_path / "mounted"),
            running() as exporter,
        ):
            failures = exporter.scrape().by("reason", FAILURES)
            logs = exporter.logs

        assert failures["user_file_system"] == 3
        assert f"attached to {tmp_path}" not in logs

    def test_file_system_of_root_is_probed(self, libraries: Path, tmp_path: Path) -> None:
        """Environments often lie on one."""
        rank = fresh_rank()
        mounted = tmp_path / "mounted"
        with (
            served(mounted, libraries, 0),
            held_calls("cudaEventRecord:23", libraries=mounted, rank=rank) as calls,
            running() as exporter,
        ):
            counted(exporter, calls, rank)


class TestDeadLibrary:
    """The program that serves a job's libraries ends, and its mount stays."""

    def test_ticks_go_on_and_a_job_that_starts_later_is_counted(
        self, libraries: Path, copy: Path, tmp_path: Path
    ) -> None:
        """Its libraries were probed; one that comes after it is counted as not answered."""
        rank = fresh_rank()
        mounted = tmp_path / "mounted"
        with served(mounted, libraries, 0) as files, held_calls(libraries=mounted), running() as exporter:
            eventually(lambda: f"attached to {mounted}/libcudart" in exporter.logs, "the job is probed")
            files.die()
            gap_seconds = longest_gap_seconds(exporter, 2.0)
            with held_calls("cudaEventRecord:23", libraries=copy, rank=rank) as calls:
                eventually(lambda: f"attached to {copy}/libcudart" in exporter.logs, "the other job is probed")
                counted(exporter, calls, rank)
            started_at = time.monotonic()
            exporter.stop()
            stop_seconds = time.monotonic() - started_at

        assert gap_seconds < 2 * TICK_SECONDS + 0.2
        assert stop_seconds < STOP_SECONDS

    def test_library_is_counted_as_not_answered(self, libraries: Path, tmp_path: Path) -> None:
        """It died before the exporter came."""
        mounted = tmp_path / "mounted"
        with served(mounted, libraries, 0) as files, held_calls(libraries=mounted):
            files.die()
            with running() as exporter:
                failures = eventually(
                    lambda: (found := exporter.scrape().by("reason", FAILURES)).get("unanswered") and found,
                    "the libraries are counted",
                )

        assert failures["unanswered"] == 3


class TestHungSearch:
    """A mount that does not answer where libraries usually lie."""

    def test_exporter_stops_in_time(self, libraries: Path, tmp_path: Path) -> None:
        with served(tmp_path / "mounted", libraries) as files:
            files.fall_silent()
            with running() as exporter:
                time.sleep(1.5)
                started_at = time.monotonic()
                exporter.stop()

        assert time.monotonic() - started_at < STOP_SECONDS


class TestHungCertificate:
    """The certificate of the web server lies on a file system that stops answering."""

    def test_scrapes_go_on_and_the_exporter_stops_in_time(self, tmp_path: Path) -> None:
        folder, mounted = tmp_path / "certificates", tmp_path / "mounted"
        folder.mkdir()
        made = certificates.issue(folder)
        configuration = tmp_path / "web.yml"
        server = mounted / made.server.name
        configuration.write_text(f"tls_server_config:\n  cert_file: {server}\n  key_file: {server}\n")
        context = made.client_context()
        with (
            served(mounted, folder) as files,
            running(f"--web.config.file={configuration}") as exporter,
        ):
            files.fall_silent()
            seconds = [timed_scrape(exporter.url, context) for _ in range(3)]
            started_at = time.monotonic()
            exporter.stop()

        assert max(seconds) < 1.0
        assert time.monotonic() - started_at < STOP_SECONDS
