"""Serving engines: found by their title, with steps from their copies to the host."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import gpustall_standin as standin
from exporter import catalog
from exporter.accounting.serving import Served
from exporter.collectors.engine import Engines
from exporter.host.processes import Processes
from exporter.workloads.engine import SERVING
from exporter.workloads.registry import WorkloadRegistry
from tests.support.direct_reads import DirectReads
from tests.support.patience import PATIENCE_SECONDS
from tests.support.traced import STANDIN_LIBRARIES, Tracer, eventually, only, tracer

TITLE = "VLLM::EngineCore"
WAYS = ("copy", "sync", "event", "ahead")
"""How the host gets an output: cudaMemcpy; cudaMemcpyAsync and cudaStreamSynchronize; an event; an event, one iteration ahead."""
BLOCKING = "--sync=block"
FIRST = 1  # number of the first process that makes a call
LATE = 500
"""Iterations of a burst that the exporter comes into, of 4 ms each."""

SLEEPS_BEFORE = 30
"""More than an engine sleeps before its first burst."""


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in engine, a training job and their libraries, as files that no other process maps."""
    folder = tmp_path_factory.mktemp("server")
    for name in (*STANDIN_LIBRARIES.values(), "server", "trainer"):
        subprocess.run(["cp", standin.build_dir() / name, folder], check=True)
    return folder / "server"


class Watch:
    """Reads processes, engines and outputs as a tick does."""

    def __init__(self, traced: Tracer) -> None:
        self._tables = traced.tables
        self._roster = WorkloadRegistry(Processes(), DirectReads(Processes()), "gpu7", 256)
        self._engines = Engines(traced.tables, SERVING)
        self.idle_ns: list[int] = []

    def look(self) -> None:
        self._roster.admit(self._tables.read_processes())
        self._roster.update_identities({})
        self._engines.update(self._roster.engines(), time.monotonic_ns())
        served = self.served()
        if served:
            self.idle_ns.append(served.idle_ns)

    def names(self) -> dict[int, str]:
        """Process -> engine."""
        return self._roster.engines()

    def served(self) -> Served | None:
        """The engine of the only serving process; None if there is none."""
        for known in self._engines._processes.values():
            return known.served()
        return None

    def metrics(self) -> set[str]:
        """Names of all exported metrics."""
        return {series.metric.name for of in self._engines.totals().values() for series in of}


def attach(traced: Tracer, folder: Path) -> None:
    """Probes on these libraries."""
    for api, name in STANDIN_LIBRARIES.items():
        traced.attach(api, folder / name)


@contextmanager
def started(program: Path, *flags: str, title: str = TITLE) -> Iterator[subprocess.Popen[str]]:
    """The program under a title; killed at the end if it still runs."""
    environment = {**os.environ, "LD_LIBRARY_PATH": str(program.parent)}
    line = [title, *flags]
    with subprocess.Popen(line, executable=program, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def watched(
    traced: Tracer, program: Path, *flags: str, title: str = TITLE, look_every: float = 0.1
) -> tuple[Watch, dict[str, Any]]:
    """Runs the program to its end; returns its own figures."""
    watch = Watch(traced)
    with started(program, *flags, title=title) as process:
        until = time.monotonic() + PATIENCE_SECONDS
        while process.poll() is None and time.monotonic() < until:
            time.sleep(look_every)
            watch.look()
        watch.look()
        assert process.stdout is not None
        finals = [line for line in map(json.loads, process.stdout) if line["type"] == "final"]
    return watch, only(finals)


def steps_of(watch: Watch) -> tuple[int, int]:
    """(count, sum of nanoseconds)."""
    served = watch.served()
    assert served is not None
    assert served.steps is not None
    return served.steps.counts.total, served.steps.sum_ns


@dataclass(frozen=True)
class Service:
    """Figures of an engine, its own figures, and dropped records."""

    watch: Watch
    truth: dict[str, Any]
    drops: dict[str, int]


@pytest.fixture(scope="module", params=WAYS)
def service(own_server: Path, request: pytest.FixtureRequest) -> Service:
    """A warm-up and two bursts of 41 iterations, for each way to get outputs."""
    flags = ("--bursts=2", "--iterations=41", "--idle-ms=1500", BLOCKING, f"--output={request.param}")
    with tracer() as traced:
        attach(traced, own_server.parent)
        return Service(*watched(traced, own_server, *flags), traced.drops())


class TestIterations:
    """Iterations are counted exactly for each way to get outputs."""

    def test_all_iterations_are_counted(self, service: Service) -> None:
        """None is missed, and no record is dropped."""
        served = service.watch.served()

        assert service.truth["iterations"] == 82
        assert steps_of(service.watch)[0] == 82
        assert served is not None
        assert served.missed == 0
        assert service.drops == {}

    @pytest.mark.parametrize("way", ["copy", "sync"])
    def test_several_copies_of_an_iteration_are_one_output(
        self, account_tracer: Tracer, own_server: Path, way: str
    ) -> None:
        """Tokens, log probabilities, accepted tokens: a wait for each of them."""
        attach(account_tracer, own_server.parent)
        flags = ("--bursts=1", "--iterations=41", "--idle-ms=600", "--copies=3", BLOCKING, f"--output={way}")
        watch, _ = watched(account_tracer, own_server, *flags)

        assert steps_of(watch)[0] == 41

    def test_graph_launch_is_work(self, account_tracer: Tracer, own_server: Path) -> None:
        """An iteration is one graph launch."""
        attach(account_tracer, own_server.parent)
        flags = ("--bursts=1", "--iterations=41", "--idle-ms=600", "--graph", BLOCKING, "--output=event")
        watch, _ = watched(account_tracer, own_server, *flags)

        assert steps_of(watch)[0] == 41

    def test_overwritten_outputs_are_counted_as_missed(self, account_tracer: Tracer, own_server: Path) -> None:
        """1,009 iterations, read only at the end: 127 outputs are left, and so 126 durations."""
        attach(account_tracer, own_server.parent)
        flags = ("--bursts=1", "--iterations=1009", "--idle-ms=0", "--kernels=1", "--kernel-us=1", BLOCKING)
        with started(own_server, *flags) as process:
            process.wait()
        engines = Engines(account_tracer.tables, SERVING)
        engines.update({FIRST: "vllm"}, time.monotonic_ns())
        served = only(engines._processes.values()).served()

        assert (served.steps.counts.total, served.missed) == (126, 1009 - 126)

    def test_long_iterations_are_outliers(self, account_tracer: Tracer, own_server: Path) -> None:
        """Every 20th takes 300 ms longer than the 4 ms of the others: five of a hundred."""
        attach(account_tracer, own_server.parent)
        flags = ("--bursts=1", "--iterations=100", "--idle-ms=600", "--slow-every=20", "--slow-us=300000", BLOCKING)
        watch, _ = watched(account_tracer, own_server, *flags, "--prefill-kernels=4")
        served = watch.served()

        assert served is not None
        assert served.outliers >= 5  # more if the machine delays it as long
        assert steps_of(watch)[1] > 5 * 300_000_000


class TestIdleness:
    """Time in which the engine enqueued no work."""

    def test_idle_time_is_that_of_the_engine(self, service: Service) -> None:
        """It begins just before the engine's own, at the return of a call, and ends just after it, at the next call."""
        served, truth = service.watch.served(), service.truth

        assert served is not None
        assert truth["idle_ns"] <= served.idle_ns
        assert steps_of(service.watch)[1] <= truth["step_ns"]

    @pytest.mark.acceptance
    def test_hardly_more_is_idle(self, service: Service) -> None:
        """Little time is left between the two."""
        served = service.watch.served()

        assert served is not None
        assert served.idle_ns <= service.truth["idle_ns"] * 1.1

    def test_idle_time_grows_during_a_pause_and_never_decreases(self, account_tracer: Tracer, own_server: Path) -> None:
        """The first second does not count yet."""
        attach(account_tracer, own_server.parent)
        watch = Watch(account_tracer)

        def while_idle() -> set[int]:
            watch.look()
            return {idle_ns for idle_ns in watch.idle_ns if idle_ns > 0}

        with started(own_server, "--bursts=1", "--idle-ms=60000", BLOCKING):
            eventually(lambda: len(while_idle()) >= 5, "it grows")

        assert watch.idle_ns == sorted(watch.idle_ns)
        assert min(while_idle()) > 1_000_000_000

    def test_short_pauses_are_part_of_iterations(self, account_tracer: Tracer, own_server: Path) -> None:
        """A tenth of a second between two bursts, which a busy machine may make an idle one of more than a second."""
        attach(account_tracer, own_server.parent)
        watch, truth = watched(account_tracer, own_server, "--bursts=2", "--iterations=5", "--idle-ms=100", BLOCKING)
        count, sum_ns = steps_of(watch)

        assert count == 10
        assert watch.idle_ns[-1] + sum_ns >= truth["idle_ns"]
        assert watch.idle_ns[-1] == 0 or watch.idle_ns[-1] > 1_000_000_000


class TestOthers:
    """Programs that are no engine."""

    def test_training_job_has_no_engine_metrics(self, account_tracer: Tracer, own_server: Path) -> None:
        """Although it copies its loss to the host in every step."""
        attach(account_tracer, own_server.parent)
        flags = ("--ranks=1", "--steps=30", "--pace-us=20000", "--quiet", BLOCKING)
        watch, truth = watched(account_tracer, own_server.with_name("trainer"), *flags, title="python3")

        assert truth["steps"] == 30
        assert watch.names() == {}
        assert watch.metrics() == set()

    def test_program_without_a_title_is_no_engine(self, account_tracer: Tracer, own_server: Path) -> None:
        """Whatever it copies."""
        attach(account_tracer, own_server.parent)
        watch, _ = watched(account_tracer, own_server, "--bursts=1", "--iterations=5", "--idle-ms=600", title="server")

        assert watch.names() == {}
        assert watch.metrics() == set()

    def test_title_makes_it_an_engine(self, account_tracer: Tracer, own_server: Path) -> None:
        """With all metrics of an engine."""
        attach(account_tracer, own_server.parent)
        watch, _ = watched(account_tracer, own_server, "--bursts=1", "--iterations=5", "--idle-ms=600")

        assert watch.names() == {FIRST: "vllm"}
        assert watch.metrics() == {metric.name for metric in catalog.METRICS_OF_COLLECTOR["engine"]}


def sleeps(process: subprocess.Popen[str]) -> int:
    """How often its main thread has slept so far: it does once in each iteration, and a few times before the first."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    (found,) = re.findall(r"^voluntary_ctxt_switches:\s*(\d+)$", status, re.MULTILINE)
    return int(found)


class TestLateStart:
    """The exporter starts while the engine serves."""

    def test_late_start_does_not_overcount(self, account_tracer: Tracer, own_server: Path) -> None:
        """Not more iterations than it made, not more time, no drops. It is stopped while probes are attached."""
        flags = ("--bursts=2", f"--iterations={LATE}", "--idle-ms=1500", "--output=event", BLOCKING)
        watch = Watch(account_tracer)
        with started(own_server, *flags) as process:
            eventually(lambda: sleeps(process) > SLEEPS_BEFORE, "it serves")
            process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
            attach(account_tracer, own_server.parent)
            process.send_signal(signal.SIGCONT)
            while process.poll() is None:
                time.sleep(0.1)
                watch.look()
            watch.look()
            assert process.stdout is not None
            truth = json.loads(process.stdout.readlines()[-1])
        count, sum_ns = steps_of(watch)

        served = watch.served()

        assert served is not None
        assert LATE - 1 <= count + served.missed < truth["iterations"]
        assert sum_ns <= truth["step_ns"]
        assert account_tracer.drops() == {}


class TestOutputs:
    def outputs_of(self, traced: Tracer, *orders: str, **environment: str) -> tuple[int, int]:
        """(complete, enqueued) outputs of a program that makes these calls after capturing a launch."""
        traced.run(*orders, environment=environment)
        row = traced.tables.read_outputs([FIRST]).get(FIRST)
        return (row.outputs, row.copied) if row else (0, 0)

    def test_copy_is_an_output_when_the_host_has_waited(self, best_traced: Tracer) -> None:
        """By cudaStreamSynchronize; copies in a row are one output."""
        orders = ("launch:1", "memcpy_d2h:3:64", "sync:1", "memcpy_d2h:2:64", "sync:2", "launch:1", "memcpy_d2h:1:64")

        assert self.outputs_of(best_traced, *orders) == (1, 2)

    @pytest.mark.parametrize("waiting", ["cudaEventSynchronize", "cudaDeviceSynchronize", "cuStreamSynchronize"])
    def test_any_synchronising_call_completes_an_output(self, best_traced: Tracer, waiting: str) -> None:
        """23 launches, copies and waits."""
        orders = ("launch:1", "memcpy_d2h:1:64", f"{waiting}:1") * 23

        assert self.outputs_of(best_traced, *orders) == (23, 23)

    def test_blocking_copy_is_complete_at_once(self, best_traced: Tracer) -> None:
        """cudaMemcpy and cuMemcpyDtoH."""
        orders = ("launch:1", "cudaMemcpy:1:64:d2h", "launch:1", "cuMemcpyDtoH_v2:1:64")

        assert self.outputs_of(best_traced, *orders) == (2, 2)

    def test_query_does_not_complete_an_output(self, best_traced: Tracer) -> None:
        """cudaStreamQuery returns 0, but the host may not have read the tokens."""
        assert self.outputs_of(best_traced, "launch:1", "memcpy_d2h:1:64", "cudaStreamQuery:5") == (0, 1)

    def test_third_open_output_completes_the_first(self, best_traced: Tracer) -> None:
        """A rank that never waits: the first three of five outputs count as complete."""
        assert self.outputs_of(best_traced, *("launch:1", "memcpy_d2h:1:64") * 5) == (3, 5)

    def test_copies_to_the_gpu_are_no_output(self, best_traced: Tracer) -> None:
        """Input ids."""
        orders = ("launch:1", "cudaMemcpyAsync:5:64:h2d", "sync:1", "cudaMemcpyAsync:5:64:d2d", "sync:1")

        assert self.outputs_of(best_traced, *orders) == (0, 0)

    def test_failed_copy_is_no_output(self, best_traced: Tracer) -> None:
        orders = ("launch:1", "memcpy_d2h:1:64", "sync:1")

        assert self.outputs_of(best_traced, *orders, STANDIN_FAIL="cudaMemcpyAsync:719:*") == (0, 0)

    def test_full_map_is_counted(self) -> None:
        """Room for one process: the second one has no row."""
        with tracer(capacities={"outputs": 1}) as small:
            small.attach_standin(only=("cudaLaunchKernel", "cudaMemcpyAsync", "cudaStreamSynchronize"))
            small.run("launch:1", "memcpy_d2h:1:64", "sync:1")
            run = small.run(*("launch:1", "memcpy_d2h:1:64", "sync:1") * 5)

        assert run.drops == {"cuda outputs_full": 5}
