"""Sampling: one launch in 64 is timed, and all are counted."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import gpustall_standin as standin
from exporter.kernel.abi import Copy, ThreadState
from exporter.probes.sampling import SAMPLED_MASK
from tests.support import accounts
from tests.support.traced import Tracer, eventually, only, tracer

FIRST = 1  # number of the first process that makes a call
MS = 1_000_000


class TestSampled:
    """From the first launch on."""

    def test_all_are_counted_and_one_in_64_is_timed(self, traced: Tracer) -> None:
        """999 launches and an initial one: the first, the 65th, ..., the 961st are timed."""
        traced.tables.sample_launches(FIRST, SAMPLED_MASK)
        run = traced.run("cudaLaunchKernel:999")
        row = run.row("cudaLaunchKernel")

        assert run.prepared("cudaLaunchKernel") == 1
        assert (row.calls, row.timed) == (1000, 16)

    def test_driver_launch_inside_a_left_out_launch_is_only_counted(self, traced: Tracer) -> None:
        """As inside a timed one."""
        traced.tables.sample_launches(FIRST, SAMPLED_MASK)
        row = traced.run("cudaLaunchKernel:999").row("cuLaunchKernel")

        assert (row.calls, row.timed) == (1000, 0)

    def test_direct_driver_launches_are_sampled(self, traced: Tracer) -> None:
        """As in a program with a static runtime. The initial launch is the runtime's, and the first of 64."""
        traced.tables.sample_launches(FIRST, SAMPLED_MASK)
        row = traced.run("cuLaunchKernel:999").row("cuLaunchKernel")

        assert (row.calls, row.timed) == (1000, 15)

    def test_copies_are_not_sampled(self, best_traced: Tracer) -> None:
        """Their bytes are needed."""
        best_traced.tables.sample_launches(FIRST, SAMPLED_MASK)
        run = best_traced.run("cudaMemcpyAsync:23:65536:h2d")

        assert run.row("cudaMemcpyAsync").timed == 23
        assert only(run.reading.processes.values()).copied_bytes[Copy.HOST_TO_DEVICE] == 23 * 65536

    def test_other_processes_are_not_sampled(self, best_traced: Tracer) -> None:
        """The place belongs to the process whose number it holds."""
        best_traced.tables.sample_launches(FIRST + 4096, SAMPLED_MASK)

        assert best_traced.run("cudaLaunchKernel:999").row("cudaLaunchKernel").timed == 1000

    def test_sampling_drops_no_record(self, best_traced: Tracer) -> None:
        """No call stays open or is abandoned."""
        best_traced.tables.sample_launches(FIRST, SAMPLED_MASK)

        assert best_traced.run("cudaLaunchKernel:1000", "cudaStreamSynchronize:3").drops == {}


class TestChanges:
    """While the program runs."""

    @pytest.mark.parametrize("calls", [300_000])
    def test_switching_keeps_counters_exact(self, best_traced: Tracer, calls: int) -> None:
        """On and off while the program runs."""
        program = standin.program("calls")
        assert program is not None
        command = [program, f"cudaLaunchKernel:{calls}"]
        masks = [SAMPLED_MASK, 0]
        with subprocess.Popen(command, env=standin.environment(), stdout=subprocess.DEVNULL) as running:
            changes = 0
            while running.poll() is None:
                best_traced.tables.sample_launches(FIRST, masks[changes % 2])
                changes += 1
        rows = best_traced.tables.read().operations
        counted = [row.calls for row in rows.values() if row.calls >= calls]

        assert changes > 2
        assert counted == [calls + 1, calls + 1]  # runtime and driver launches, and the one the program begins with


class TestWithoutLaunches:
    """Launches are not probed at all."""

    def test_dry_gpu_is_unknown_without_launches(self, waits_program: Path) -> None:
        """Stalls after a synchronising call may be hidden behind unprobed work. A missed event costs one of 20 sleeps."""
        with tracer(with_launches=False) as traced:
            accounts.probe(traced, waits_program)
            account = accounts.run(traced, waits_program, "gap", "nap", "20", "3000")

        assert account.feeding.dry_ns[ThreadState.SLEEP] == 0
        assert account.feeding.late_ns[ThreadState.SLEEP] >= (20 - account.healed) * 3 * MS


def test_place_is_free_after_the_process_has_ended(best_traced: Tracer) -> None:
    """The next process there begins with all launches timed."""
    best_traced.tables.sample_launches(FIRST, SAMPLED_MASK)
    best_traced.run("cudaLaunchKernel:1")
    eventually(lambda: FIRST in best_traced.tables.read_processes(), "the process is known")
    best_traced.tables.forget({FIRST}, best_traced.tables.read())

    assert best_traced.kernel.maps["launch_sampling"].get(FIRST.to_bytes(4, "little")) == bytes(8)
