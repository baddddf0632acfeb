"""`run` as a process of its own, traced and scraped from outside."""

from __future__ import annotations

import gzip
import itertools
import os
import re
import shutil
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import gpustall_standin as standin
from exporter.kernel.operations import NUMBERS
from tests.support import exposition, held_calls
from tests.support.exporter_process import OPENMETRICS, Exporter, running
from tests.support.exposition import Scrape
from tests.support.held_calls import HeldCalls, fresh_rank
from tests.support.patience import PATIENCE_SECONDS
from tests.support.requirements import need_tracing
from tests.support.traced import eventually, only

pytestmark = pytest.mark.end_to_end
LIBRARIES = ("libcuda.so.1", "libcudart.so.12", "libnccl.so.2")
OPERATIONS = "gpustall_cuda_operations_total"
DURATION = "gpustall_cuda_operation_duration_seconds"


@pytest.fixture(scope="module", autouse=True)
def _possible_here() -> None:
    """Skip, naming what is missing."""
    need_tracing()


@pytest.fixture(scope="module")
def exporter() -> Iterator[Exporter]:
    """One for all tests that neither stop it nor need it for themselves: each looks at ranks or processes of its own.

    A program that never ends keeps the stand-in's libraries probed, so that the others are seen from their first call.
    """
    with running() as found, held_calls.held_calls("ncclAllReduce:1:4096"):
        for name in LIBRARIES:
            eventually(lambda name=name: f"attached to {standin.build_dir()}/{name}" in found.logs, f"{name} is probed")
        yield found


@pytest.fixture
def libraries(tmp_path: Path) -> Path:
    """A folder with the stand-in's libraries, which have no probes yet."""
    for name in LIBRARIES:
        shutil.copy(standin.build_dir() / name, tmp_path)
    return tmp_path


def seen(exporter: Exporter, calls: HeldCalls) -> Scrape:
    """A scrape that has every process of the program, each under its name."""

    def with_all() -> Scrape | None:
        scrape = exporter.scrape()
        known = {sample.labels["pid"] for sample in scrape.matching("gpustall_workload_info")}
        return scrape if {str(tgid) for tgid in calls.tgids} <= known else None

    found: Scrape = eventually(with_all, f"processes {calls.tgids} are exported")
    return found


def awaited(exporter: Exporter, count: int, operation: str, rank: str) -> Scrape:
    """A scrape with that many calls; the numbers of a scrape may be those of a moment ago."""

    def with_all() -> Scrape | None:
        scrape = exporter.scrape()
        return scrape if scrape.total(OPERATIONS, operation=operation, rank=rank) >= count else None

    found: Scrape = eventually(with_all, f"{count} calls of {operation}")
    return found


class TestLateProcess:
    """Started after the exporter, with libraries that no process has used before."""

    def test_twenty_three_calls_are_twenty_three(self, exporter: Exporter, libraries: Path) -> None:
        """Exact count; every call in the histogram; the sum below what the program measured around the probes.

        And above half of what was ordered: a preemption between launch and wait is time that is not waited.
        """
        rank = fresh_rank()
        with held_calls.held_calls(
            "--sync=block", "cudaStreamSynchronize:23:2ms", rank=rank, libraries=libraries
        ) as calls:
            eventually(lambda: f"attached to {libraries}/libcudart.so.12" in exporter.logs, "libcudart is probed")
            truth = calls.make()["calls"]["runtime"]["cudaStreamSynchronize"]
            scrape = awaited(exporter, 23, "cudaStreamSynchronize", rank)

        sync = {"operation": "cudaStreamSynchronize", "api": "runtime", "rank": rank}
        seconds = scrape.total(f"{DURATION}_sum", **sync)

        assert only(scrape.matching(OPERATIONS, **sync)).value == 23
        assert only(scrape.matching(f"{DURATION}_count", **sync)).value == 23
        assert only(scrape.matching(f"{DURATION}_bucket", **sync, le="+Inf")).value == 23
        assert 23 * 1e-3 < seconds <= truth["sum_ns"] * 1e-9
        assert scrape.losses() == {}

    def test_bytes_and_errors_are_those_of_the_program(self, exporter: Exporter, libraries: Path) -> None:
        """23 copies of 4 KiB, of which the third runs out of memory: 22 moved something."""
        rank = fresh_rank()
        failing = {"STANDIN_FAIL": "cudaMemcpyAsync:2:3"}
        with held_calls.held_calls(
            "cudaMemcpyAsync:23:4096:h2d", rank=rank, libraries=libraries, environment=failing
        ) as calls:
            eventually(lambda: f"attached to {libraries}/libcudart.so.12" in exporter.logs, "libcudart is probed")
            truth = calls.make()
            scrape = awaited(exporter, 23, "cudaMemcpyAsync", rank)

        errors = scrape.matching("gpustall_cuda_operation_errors_total", rank=rank)

        assert scrape.by("direction", "gpustall_cuda_memcpy_bytes_total", rank=rank) == {"h2d": 22 * 4096}
        assert truth["bytes"]["h2d"] == 22 * 4096
        assert [(e.labels["operation"], e.labels["code"], e.value) for e in errors] == [("cudaMemcpyAsync", "2", 1)]


class TestIdentity:
    """Which labels a process gets."""

    def test_rank_comes_from_the_environment(self, exporter: Exporter) -> None:
        """RANK, though the program is NCCL's rank 0; the node is this host."""
        rank = fresh_rank()
        with held_calls.held_calls("ncclAllReduce:1:4096", rank=rank) as calls:
            calls.make()
            scrape = seen(exporter, calls)

        info = only(scrape.matching("gpustall_workload_info", pid=str(calls.tgids[0])))

        assert (info.labels["rank"], info.labels["node"]) == (rank, socket.gethostname())

    def test_rank_is_nccls_where_the_environment_has_none(self, exporter: Exporter) -> None:
        """Three processes of one communicator; exported without a rank until they have made it."""
        with held_calls.held_calls("--ranks=3", "ncclAllReduce:1:4096", "sleep:1:600s") as calls:
            before = self._ranks(seen(exporter, calls), calls)
            calls.begin()
            expected = {str(tgid): str(rank) for rank, tgid in enumerate(calls.tgids)}
            eventually(lambda: self._ranks(exporter.scrape(), calls) == expected, f"ranks of NCCL: {expected}")

        assert set(before.values()) == {""}

    @staticmethod
    def _ranks(scrape: Scrape, calls: HeldCalls) -> dict[str, str]:
        infos = scrape.matching("gpustall_workload_info")
        return {i.labels["pid"]: i.labels["rank"] for i in infos if int(i.labels["pid"]) in calls.tgids}

    def test_totals_of_a_process_stay_when_it_ends(self, exporter: Exporter) -> None:
        """gpustall_workload_info ends with it."""
        rank = fresh_rank()
        with held_calls.held_calls("cudaEventRecord:23", rank=rank) as calls:
            seen(exporter, calls)
            calls.make()
            calls.end()
            eventually(lambda: not exporter.scrape().matching("gpustall_workload_info", rank=rank), "its end is seen")

        assert exporter.scrape().total(OPERATIONS, rank=rank, operation="cudaEventRecord") == 23


class TestComingAndGoing:
    """Processes of one rank, three at a time, as a launcher that restarts them."""

    PROCESSES = 9
    ORDERS = ("cudaEventRecord:97", "cudaMemcpyAsync:31:4096:h2d", "cudaMalloc:5:4096", "cudaFree:3")

    def test_no_total_goes_back_and_the_last_are_the_sums(self, exporter: Exporter) -> None:
        """Over all scrapes; in the end the exported totals are what the programs counted."""
        rank = fresh_rank()
        with _scraping(exporter, rank) as scrapes, ExitStack() as alive:
            ended: list[HeldCalls] = []
            waiting: list[HeldCalls] = []
            for _ in range(self.PROCESSES):
                waiting.append(alive.enter_context(held_calls.held_calls(*self.ORDERS, rank=rank)))
                seen(exporter, waiting[-1])
                if len(waiting) == 3:
                    ended.append(self._made_and_ended(waiting.pop(0)))
            ended += [self._made_and_ended(calls) for calls in waiting]
            expected = self._counted(ended)
            eventually(
                lambda: self._exported(exporter.scrape(), rank) == expected,
                f"the totals are {expected}; they are {self._exported(exporter.scrape(), rank)}",
            )

        last = exporter.scrape()

        assert self._exported(last, rank) == expected
        assert last.by("direction", "gpustall_cuda_memcpy_bytes_total", rank=rank) == {"h2d": 9 * 31 * 4096}
        assert last.losses() == {}
        assert len(scrapes) > self.PROCESSES
        assert _steps_back(scrapes) == []

    @staticmethod
    def _made_and_ended(calls: HeldCalls) -> HeldCalls:
        calls.make()
        calls.end()
        return calls

    @staticmethod
    def _counted(ended: list[HeldCalls]) -> dict[str, float]:
        """Calls of the runtime by the programs' own account, preparations included."""
        sums: dict[str, float] = {}
        for calls in ended:
            truth = only(calls.truths)
            made = {symbol: counted["count"] for symbol, counted in truth["calls"]["runtime"].items()}
            for part in (made, truth["setup"]):
                for symbol, count in part.items():
                    if symbol in NUMBERS:
                        sums[symbol] = sums.get(symbol, 0) + count
        return sums

    @staticmethod
    def _exported(scrape: Scrape, rank: str) -> dict[str, float]:
        return scrape.by("operation", OPERATIONS, rank=rank, api="runtime")


class _scraping:  # noqa: N801 - a context manager, used as a function
    """Scrapes one rank again and again in a thread; gives the list that grows."""

    def __init__(self, exporter: Exporter, rank: str) -> None:
        self._exporter, self._rank = exporter, rank
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._scrape)
        self._scrapes: list[dict[object, float]] = []

    def _scrape(self) -> None:
        while not self._stopping.wait(0.05):
            self._scrapes.append(dict(self._exporter.scrape().cumulative(rank=self._rank)))

    def __enter__(self) -> list[dict[object, float]]:
        self._thread.start()
        return self._scrapes

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()


def _steps_back(scrapes: list[dict[object, float]]) -> list[str]:
    """Samples that were smaller than, or missing after, an earlier scrape."""
    return [
        f"{sample}: {value} -> {later.get(sample)}"
        for earlier, later in itertools.pairwise(scrapes)
        for sample, value in earlier.items()
        if later.get(sample, -1) < value
    ]


class TestPages:
    """Responses of the web server."""

    def test_it_is_healthy_and_ready(self, exporter: Exporter) -> None:
        """Ready is when a tick has finished."""
        eventually(lambda: exporter.get("/readyz").status == 200, "/readyz answers 200")

        assert (exporter.get("/healthz").status, exporter.get("/healthz").body) == (200, b"ok\n")

    def test_text_is_the_default_format(self, exporter: Exporter) -> None:
        """Version 0.0.4, uncompressed."""
        response = exporter.get()

        assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert response.headers["Content-Encoding"] is None
        assert exposition.of_text(response.body.decode()).types["gpustall_exporter_ticks"] == "counter"

    def test_openmetrics_is_negotiated(self, exporter: Exporter) -> None:
        """With its end mark, and clean by the strict parser."""
        response = exporter.get(Accept=OPENMETRICS)

        assert response.headers["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
        assert response.body.endswith(b"# EOF\n")
        assert exposition.of_openmetrics(response.body.decode()).types["gpustall_exporter_ticks"] == "counter"

    def test_gzip_is_negotiated(self, exporter: Exporter) -> None:
        """Smaller by half at least."""
        response = exporter.get(Accept_Encoding="gzip")
        body = gzip.decompress(response.body)

        assert response.headers["Content-Encoding"] == "gzip"
        assert body.startswith(b"# HELP gpustall_")
        assert len(response.body) < len(body) / 2


class TestLimits:
    """Limits set by service managers."""

    def test_the_limit_of_descriptors_is_raised_to_the_hard_limit(self) -> None:
        """Without multi links a job's libraries take 500 of them: more than a soft limit of 256, not than a hard one of 4,096."""
        with running(under=("prlimit", "--nofile=256:4096")) as exporter:
            limits = Path(f"/proc/{exporter.process.pid}/limits").read_text()

        assert re.search(r"^Max open files +4096 +4096 ", limits, re.MULTILINE)


class TestStopping:
    """A stop does not affect traced programs."""

    def test_control_c_prints_no_traceback(self) -> None:
        """A terminal sends SIGINT to a whole group of processes; the exporter's readers are none of it."""
        with running() as exporter:
            os.killpg(exporter.process.pid, signal.SIGINT)
            exit_code = exporter.process.wait(PATIENCE_SECONDS)
            logs = exporter.logs

        assert exit_code == 0
        assert [line for line in logs.splitlines() if not line.startswith("ts=")] == []

    def test_a_traced_job_continues(self) -> None:
        """The probes are removed in the middle of its calls, and it makes them all."""
        rank = fresh_rank()
        with held_calls.held_calls("--sync=block", "cudaStreamSynchronize:997:1ms", rank=rank) as calls:
            with running() as exporter:
                calls.begin()
                awaited(exporter, 1, "cudaStreamSynchronize", rank)
                exit_code = exporter.stop()
            truth = calls.made()["calls"]["runtime"]["cudaStreamSynchronize"]
            calls.end()

        assert exit_code == 0
        assert (truth["count"], truth["errors"]) == (997, 0)
