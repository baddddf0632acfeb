"""A file that does not answer costs the tenant who uses it: ticks go on, other jobs are counted, the exporter stops."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

import gpustall_standin as standin
from tests.support import certificates
from tests.support.exporter_process import Exporter, running
from tests.support.held_calls import HeldCalls, fresh_rank, held_calls
from tests.support.patience import PATIENCE_SECONDS
from tests.support.requirements import need_tracing
from tests.support.silent_files import served
from tests.support.traced import STANDIN_LIBRARIES, eventually

pytestmark = pytest.mark.end_to_end
OPERATIONS = "gpustall_cuda_operations_total"
TICKS = "gpustall_exporter_ticks_total"
FAILURES = "gpustall_exporter_attach_failures_total"
TRACKED = "gpustall_exporter_tracked_processes"
# The second page of the environment becomes one of a file. No function of the process reads the environment after that.
HIDES_ITS_ENVIRONMENT = """
import ctypes, mmap, os, sys
runtime, process = ctypes.CDLL(sys.argv[1]), ctypes.CDLL(None)
runtime.cudaDeviceSynchronize()
with open("/proc/self/stat") as stat:
    environment_start = int(stat.read().rpartition(")")[2].split()[47])
process.clearenv()
process.mmap.restype = ctypes.c_void_p
process.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
page = (environment_start // mmap.PAGESIZE + 2) * mmap.PAGESIZE
fixed = mmap.MAP_PRIVATE | 0x10
assert process.mmap(page, mmap.PAGESIZE, mmap.PROT_READ, fixed, os.open(sys.argv[2], os.O_RDONLY), 0) == page
print("hidden", flush=True)
sys.stdin.readline()
for _ in range(23):
    runtime.cudaDeviceSynchronize()
print("called", flush=True)
sys.stdin.readline()
"""


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


def goes_on(exporter: Exporter) -> None:
    """Ticks are made after this call."""
    ticks = exporter.scrape().total(TICKS)
    eventually(lambda: exporter.scrape().total(TICKS) > ticks + 2, "ticks go on")


def goes_on_and_stops(exporter: Exporter, libraries: Path) -> None:
    """A job with libraries of its own comes, is probed and counted, and the exporter stops, while a file does not answer."""
    rank = fresh_rank()
    goes_on(exporter)
    with held_calls("cudaEventRecord:23", libraries=libraries, rank=rank) as calls:
        eventually(lambda: f"attached to {libraries}/libcudart" in exporter.logs, "the other job is probed")
        counted(exporter, calls, rank)
    assert exporter.stop() == 0


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


@pytest.fixture
def copy(libraries: Path, tmp_path: Path) -> Path:
    """The same libraries, as another job has them."""
    folder = tmp_path / "victim"
    shutil.copytree(libraries, folder)
    return folder


class TestHungLibrary:
    """A job's libraries lie on a file system that stops answering."""

    def test_ticks_go_on_and_a_job_that_starts_later_is_counted(
        self, libraries: Path, copy: Path, tmp_path: Path
    ) -> None:
        """Before the exporter starts."""
        with served(tmp_path / "mounted", libraries) as files, held_calls(libraries=tmp_path / "mounted"):
            files.fall_silent()
            with running() as exporter:
                goes_on_and_stops(exporter, copy)

    @pytest.mark.acceptance
    def test_ticks_come_on_time_and_the_stop_is_quick(self, libraries: Path, tmp_path: Path) -> None:
        """A tick every quarter of a second; two seconds to stop."""
        with served(tmp_path / "mounted", libraries) as files, held_calls(libraries=tmp_path / "mounted"):
            files.fall_silent()
            with running() as exporter:
                gap_seconds = longest_gap_seconds(exporter, 2.0)
                stopping_at = time.monotonic()
                exporter.stop()
                stop_seconds = time.monotonic() - stopping_at

        assert gap_seconds < 0.7
        assert stop_seconds < 2.0

    def test_file_system_of_a_user_is_not_probed(self, libraries: Path, copy: Path, tmp_path: Path) -> None:
        """Though it answers at first: the kernel would wait for it with locks held."""
        with (
            served(tmp_path / "mounted", libraries, 65534) as files,
            held_calls(libraries=tmp_path / "mounted"),
            running() as exporter,
        ):
            failures = exporter.scrape().by("reason", FAILURES)
            files.fall_silent()
            goes_on_and_stops(exporter, copy)
            logs = exporter.logs

        assert failures["user_file_system"] == 3
        assert f"attached to {tmp_path}/mounted" not in logs


class TestDeadLibrary:
    """The program that serves a job's libraries ends, and its mount stays."""

    def test_file_system_of_root_is_probed_until_it_dies(self, libraries: Path, copy: Path, tmp_path: Path) -> None:
        """Environments often lie on one. Then ticks go on, and a job that starts later is counted."""
        mounted, rank = tmp_path / "mounted", fresh_rank()
        with (
            served(mounted, libraries, 0) as files,
            held_calls("cudaEventRecord:23", libraries=mounted, rank=rank) as calls,
            running() as exporter,
        ):
            eventually(lambda: f"attached to {mounted}/libcudart" in exporter.logs, "the job is probed")
            counted(exporter, calls, rank)
            files.die()
            goes_on_and_stops(exporter, copy)

    def test_library_is_counted_as_not_answered(self, libraries: Path, tmp_path: Path) -> None:
        """It died before the exporter came."""
        mounted = tmp_path / "mounted"
        with served(mounted, libraries, 0) as files, held_calls(libraries=mounted):
            files.die()
            with running() as exporter:
                eventually(
                    lambda: exporter.scrape().by("reason", FAILURES).get("unanswered") == 3, "the libraries are counted"
                )


class TestHungSearch:
    """A mount that does not answer where libraries usually lie."""

    def test_exporter_stops(self, libraries: Path, tmp_path: Path) -> None:
        with served(tmp_path / "mounted", libraries) as files:
            files.fall_silent()
            with running() as exporter:
                goes_on(exporter)
                assert exporter.stop() == 0


class TestHungCertificate:
    """The certificate of the web server lies on a file system that stops answering."""

    def test_scrapes_go_on_and_the_exporter_stops(self, tmp_path: Path) -> None:
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
            for _ in range(3):
                with urllib.request.urlopen(exporter.url, context=context, timeout=PATIENCE_SECONDS) as response:  # noqa: S310 - our own address
                    assert response.read()
            assert exporter.stop() == 0


class TestHungEnvironment:
    """A page of a job's environment is one of a file that does not answer."""

    def test_ticks_go_on_and_a_job_that_starts_later_is_counted(
        self, libraries: Path, copy: Path, tmp_path: Path
    ) -> None:
        """The environment is read when the job makes its first call."""
        folder = tmp_path / "pages"
        folder.mkdir()
        (folder / "page").write_bytes(bytes(4096))
        command = [sys.executable, "-S", "-c", HIDES_ITS_ENVIRONMENT, libraries / "libcudart.so.12"]
        with (
            served(tmp_path / "mounted", folder) as files,
            subprocess.Popen(
                [*command, tmp_path / "mounted" / "page"],
                env=standin.environment() | {"PADDING": "x" * 65536},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            ) as job,
        ):
            assert job.stdin is not None
            assert job.stdout is not None
            try:
                assert job.stdout.readline() == "hidden\n"
                files.fall_silent()
                with running() as exporter:
                    eventually(lambda: f"attached to {libraries}/libcudart" in exporter.logs, "its library is probed")
                    job.stdin.write("call\n")
                    job.stdin.flush()
                    assert job.stdout.readline() == "called\n"
                    eventually(lambda: exporter.scrape().total(TRACKED) == 1, "the job is known")
                    goes_on_and_stops(exporter, copy)
            finally:
                job.kill()
                files.die()  # the end of the job waits for an answer as well
