"""Exposure: the part of a wait for the GPU that the host caused; the stand-in GPU knows the true end of each wait."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from exporter.accounting.exposed import Exposed, ExposedLoss
from exporter.kernel.abi import Api, ThreadState
from exporter.kernel.operations import NUMBERS
from exporter.kernel.thread_rows import Exposure
from tests.support import accounts
from tests.support.accounts import Account
from tests.support.patience import PATIENCE_SECONDS
from tests.support.stolen import stolen_ns
from tests.support.traced import STANDIN_LIBRARIES, Tracer, eventually

WAITS = 40
STOPS, STOP_MS = 23, 100
STOPPED_WAITS = 500  # 3 s for the GPU: more than the stops and the pauses between them leave
STOP_OFTEN = f"for stop in $(seq {STOPS}); do kill -STOP $1; sleep 0.{STOP_MS}; kill -CONT $1; sleep 0.06; done"
KEEPS = 5
MS = 1_000_000

Waits = Callable[..., tuple[dict[str, Any], Exposure]]


@pytest.fixture
def waits(account_tracer: Tracer, own_standin: Path, cpu: int) -> Waits:
    """Runs `calls` on one CPU and reads the exposure; the program prints by how much its waits were too long."""
    account_tracer.attach(Api.RUNTIME, own_standin / STANDIN_LIBRARIES[Api.RUNTIME])

    def run(sync: str, hogs: int) -> tuple[dict[str, Any], Exposure]:
        command = ["taskset", "-c", str(cpu), own_standin / "calls", f"--sync={sync}", f"wait:{WAITS}:6ms"]
        with accounts.hogs(hogs, cpu):
            done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
        truth = json.loads(done.stdout)["waits"]
        return truth, accounts.read(account_tracer, truth).exposure("cudaStreamSynchronize")

    return run


class TestBlocking:
    """The thread sleeps until the GPU is done, then waits for a CPU."""

    def test_exposed_is_part_of_the_delay(self, waits: Waits) -> None:
        """From the wake-up, which comes when the GPU is done or later, to the CPU."""
        truth, exposure = waits("block", 2)

        assert 0 < exposure.exact_ns <= truth["delay_ns"]
        assert exposure.exact_throttled_ns == 0

    @pytest.mark.hardware_speed
    @pytest.mark.acceptance
    def test_exposed_is_the_delay(self, waits: Waits) -> None:
        """With eight hogs, so that the delay is well above the lateness of the timer that plays the GPU's interrupt.

        `make bench` measures the accuracy on a quiet machine.
        """
        truth, exposure = waits("block", 8)

        assert exposure.exact_ns <= truth["delay_ns"] * 1.02 + MS
        assert exposure.exact_ns >= truth["delay_ns"] * 0.7 - WAITS * 100_000

    @pytest.mark.acceptance
    def test_exact_exposure_has_no_bounded_part(self, waits: Waits) -> None:
        """Every wait slept, or returned at once."""
        _, exposure = waits("block", 0)

        assert (exposure.max_ns, exposure.calls) == (0, 0)


class TestSpinning:
    """The thread spins on its CPU unless it is preempted."""

    def test_each_wait_counts_once(self, waits: Waits) -> None:
        """As one that may have been delayed, or as a clean one; none for certain."""
        truth, exposure = waits("spin", 2)

        assert exposure.exact_ns == 0
        assert exposure.calls + exposure.clean_calls == truth["count"] == WAITS

    @pytest.mark.hardware_speed
    @pytest.mark.acceptance
    def test_delay_is_within_the_bound(self, waits: Waits) -> None:
        """Preemption before the GPU was done is not exposed: the bound is less than all waits for the CPU."""
        truth, exposure = waits("spin", 2)

        assert exposure.max_ns >= truth["delay_ns"] * 0.6 - WAITS * 50_000

    @pytest.mark.hardware_speed
    @pytest.mark.acceptance
    def test_calls_that_returned_at_once_are_the_baseline(self, waits: Waits) -> None:
        """The kernels take 6 ms from their launch, which the program makes just before it waits."""
        _, exposure = waits("spin", 0)

        assert exposure.clean_calls > 0
        assert 5.9 * MS <= exposure.clean_ns / exposure.clean_calls <= 7 * MS


class TestTogether:
    """Four threads are kept from one CPU at the same time, when their waits are over."""

    def test_a_delay_of_all_threads_is_booked_once(self, account_tracer: Tracer, tmp_path: Path, cpu: int) -> None:
        """Five times for 100 ms; the program says how long it was until the last of them had returned."""
        program = accounts.compiled(Path(__file__).with_name("together.c"), tmp_path)
        account_tracer.attach(Api.RUNTIME, program, ["cudaStreamSynchronize"])
        done = subprocess.run(
            ["taskset", "-c", str(cpu), program, str(KEEPS)],
            check=True,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
        )
        exposure = accounts.read(account_tracer, {}).exposure("cudaStreamSynchronize")

        assert KEEPS * 100 * MS <= exposure.exact_ns <= int(done.stdout)


class TestStopped:
    """The job is stopped while its thread waits for the GPU."""

    @pytest.mark.parametrize("sync", ["spin", "yield", "block"])
    def test_stop_in_a_wait_may_have_delayed_it(self, sync: str, account_tracer: Tracer, own_standin: Path) -> None:
        """One stop in a wait of two seconds, as long as between two clock readings."""
        account_tracer.attach(Api.RUNTIME, own_standin / STANDIN_LIBRARIES[Api.RUNTIME])
        command = [own_standin / "calls", f"--sync={sync}", "wait:1:2000ms"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as job:
            eventually(lambda: _state_in_a_wait(account_tracer) is not None, "the wait has begun")
            before_ns = time.monotonic_ns()
            job.send_signal(signal.SIGSTOP)
            eventually(lambda: _state_in_a_wait(account_tracer) == ThreadState.STOPPED, "its thread is stopped")
            stopped_ns = time.monotonic_ns()
            time.sleep(STOP_MS / 1000)
            going_on_ns = time.monotonic_ns()
            job.send_signal(signal.SIGCONT)
            after_ns = time.monotonic_ns()
            job.wait(PATIENCE_SECONDS)
        exposure = accounts.read(account_tracer, {}).exposure("cudaStreamSynchronize")

        assert going_on_ns - stopped_ns <= exposure.stopped_ns <= after_ns - before_ns
        assert exposure.calls == 1

    @pytest.mark.acceptance
    @pytest.mark.parametrize("sync", ["spin", "yield", "block"])
    def test_stops_are_lost_but_for_the_work_that_the_gpu_had(
        self, sync: str, account_tracer: Tracer, own_standin: Path
    ) -> None:
        """23 stops of 100 ms in waits of 6 ms; the program says by how much its waits were too long.

        A stop may come between two waits, where the program loses nothing that its calls show. And where a hypervisor
        takes the CPU from a thread that polls, its wait is too long for a reason that this kernel does not see.
        """
        account_tracer.attach(Api.RUNTIME, own_standin / STANDIN_LIBRARIES[Api.RUNTIME])
        command = [own_standin / "calls", f"--sync={sync}", f"wait:{STOPPED_WAITS}:6ms"]
        before_ns = stolen_ns()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as job:
            subprocess.run(["sh", "-c", STOP_OFTEN, "sh", str(job.pid)], check=True, timeout=PATIENCE_SECONDS)
            said, _ = job.communicate(timeout=PATIENCE_SECONDS)
        truth = json.loads(said)["waits"]
        taken_ns = stolen_ns() - before_ns
        lost = lost_ns(accounts.read(account_tracer, truth))

        assert truth["delay_ns"] >= STOPS / 2 * (STOP_MS - 6) * MS
        assert truth["delay_ns"] * 0.9 - taken_ns <= lost.stopped_ns <= truth["delay_ns"]
        assert lost.in_calls_ns == pytest.approx(truth["delay_ns"], rel=0, abs=truth["delay_ns"] * 0.05 + taken_ns)


def lost_ns(account: Account) -> Exposed:
    """What user space makes of the exposures."""
    return ExposedLoss().update(account.accounts.exposures.items())


def _state_in_a_wait(tracer: Tracer) -> ThreadState | None:
    """State of a thread that waits for the GPU."""
    threads = accounts.read(tracer, {}).accounts.threads
    wait = NUMBERS["cudaStreamSynchronize"]
    return next((ThreadState(thread.state) for thread in threads if thread.operation == wait), None)
