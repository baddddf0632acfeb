"""Exposure: the part of a wait for the GPU that the host caused; the stand-in GPU knows the true end of each wait."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from exporter.kernel.abi import Api
from exporter.kernel.thread_rows import Exposure, FeedingRow
from tests.support import accounts
from tests.support.traced import STANDIN_LIBRARIES, Tracer

pytestmark = pytest.mark.whole_machine

WAITS = 40
MS = 1_000_000

Waits = Callable[..., tuple[dict[str, Any], Exposure, FeedingRow]]


@pytest.fixture
def waits(account_tracer: Tracer, own_standin: Path) -> Waits:
    """Runs `calls` on CPU 1 and reads the exposure; the program prints by how much its waits were too long."""
    account_tracer.attach(Api.RUNTIME, own_standin / STANDIN_LIBRARIES[Api.RUNTIME])

    def run(sync: str, hogs: int) -> tuple[dict[str, Any], Exposure]:
        command = ["taskset", "-c", "1", own_standin / "calls", f"--sync={sync}", f"wait:{WAITS}:6ms"]
        with accounts.hogs(hogs, cpu=1):
            done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
        truth = json.loads(done.stdout)["waits"]
        account = accounts.read(account_tracer, truth)
        return truth, account.exposure("cudaStreamSynchronize"), account.feeding

    return run


class TestBlocking:
    """The thread sleeps until the GPU is done, then waits for a CPU."""

    @pytest.mark.hardware_speed
    def test_exposed_is_the_delay(self, waits: Waits) -> None:
        """With eight hogs, so that the delay is well above the lateness of the timer that plays the GPU's interrupt.

        `make bench` measures the accuracy on a quiet machine.
        """
        truth, exposure, _ = waits("block", 8)

        assert exposure.exact_ns <= truth["delay_ns"] * 1.02 + MS
        assert exposure.exact_ns >= truth["delay_ns"] * 0.7 - WAITS * 100_000

    def test_exact_exposure_has_no_bounded_part(self, waits: Waits) -> None:
        """Every wait slept, or returned at once."""
        _, exposure, _ = waits("block", 0)

        assert (exposure.max_ns, exposure.calls) == (0, 0)


class TestSpinning:
    """The thread spins on its CPU unless it is preempted."""

    @pytest.mark.hardware_speed
    def test_delay_is_within_the_bound(self, waits: Waits) -> None:
        """Preemption before the GPU was done is not exposed: the bound is less than all waits for the CPU.

        A wait that began late, because the hogs had the CPU before it, counts with its cycle instead: now and then one.
        """
        truth, exposure, feeding = waits("spin", 2)
        entered_late = truth["count"] - exposure.calls - exposure.clean_calls

        assert exposure.exact_ns == 0
        assert 0 <= entered_late <= min(3, feeding.stalled_waits)
        assert exposure.max_ns >= truth["delay_ns"] * 0.6 - WAITS * 50_000

    @pytest.mark.hardware_speed
    def test_calls_that_never_waited_for_a_cpu_are_the_baseline(self, waits: Waits) -> None:
        """The kernels take 6 ms from their launch, which the program makes just before it waits."""
        _, exposure, _ = waits("spin", 0)

        assert exposure.clean_calls > 0
        assert 5.9 * MS <= exposure.clean_ns / exposure.clean_calls <= 7 * MS
