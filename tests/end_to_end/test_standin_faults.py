"""The trainer's --fault: which fault, in which steps and ranks."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

import gpustall_standin as standin
from tests.support.patience import PATIENCE_SECONDS
from tests.support.priority import before_others
from tests.support.standin_gpu import MS, counts, run

pytestmark = [pytest.mark.end_to_end, pytest.mark.usefixtures("build")]
SHORT = (
    "--sync=block",
    "--kernel-us=5",
    "--backward-kernel-us=5",
    "--loader-compute-us=50",
    "--evaluate-every=0",
    "--allocate-every=0",
)
WINDOW = ("--steps=10", "--fault-from-step=4", "--fault-to-step=7", "--fault-us=20000")
KERNELS = 40 + 80 + 10
CAPTURED = 5  # once, into a graph


def steps_of(lines: list[dict[str, Any]], rank: int = 0) -> dict[int, dict[str, Any]]:
    """Step lines of a rank by number."""
    return {line["step"]: line for line in lines if line["type"] == "step" and line["rank"] == rank}


def final_of(lines: list[dict[str, Any]], rank: int = 0) -> dict[str, Any]:
    """The final line of a rank."""
    (found,) = (line for line in lines if line["type"] == "final" and line["rank"] == rank)
    return found


def wall_ns(step: dict[str, Any]) -> int:
    """How long a step lasted."""
    return int(step["end_ns"] - step["start_ns"])


def died(*flags: str) -> tuple[int, str]:
    """Exit code and standard error of a trainer that does not end well."""
    done = subprocess.run(
        [str(standin.build_dir() / "trainer"), *SHORT, *flags],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    return done.returncode, done.stderr


class TestTruth:
    """What each step and each process reports."""

    def test_a_step_reports_its_cpu_time_and_its_wait_for_a_cpu(self) -> None:
        """20 ms of host work are in the CPU time of each step of the window, and not of all others; neither is negative."""
        steps = steps_of(run("trainer", *SHORT, *WINDOW, "--ranks=1", "--fault=host"))

        slow = [number for number, step in steps.items() if step["cpu_ns"] >= 20 * MS]

        assert {4, 5, 6} <= set(slow) < set(steps)
        assert all(step["cpu_ns"] + step["runnable_ns"] <= 2 * wall_ns(step) for step in steps.values())
        assert all(step["runnable_ns"] >= 0 for step in steps.values())

    def test_a_final_line_lists_the_threads(self) -> None:
        """By name, with more CPU than none; at least as much waiting for a CPU as the steps had."""
        lines = run("trainer", *SHORT, "--ranks=1", "--steps=10")
        final = final_of(lines)

        assert set(final["threads"]) == {"trainer", "pin_memory", "pt_autograd_0", "pt_nccl_watchdg"}
        assert all(thread["cpu_ns"] > 0 for thread in final["threads"].values())
        waited_ns = sum(step["runnable_ns"] for step in steps_of(lines).values())
        assert final["threads"]["trainer"]["run_delay_ns"] >= waited_ns
        assert final["majflt"] >= 0


class TestWindow:
    """--fault-from-step, --fault-to-step, --fault-rank."""

    @pytest.mark.acceptance
    @pytest.mark.parametrize("flags", [("lock",), ("lock", "--fault-holder=burn"), ("straggler",), ("host",)])
    def test_each_step_of_the_window_takes_longer(self, flags: tuple[str, ...]) -> None:
        """At least 20 ms in steps 4, 5 and 6."""
        steps = steps_of(run("trainer", *SHORT, *WINDOW, "--ranks=1", f"--fault={flags[0]}", *flags[1:]))

        assert [number for number in (4, 5, 6) if wall_ns(steps[number]) < 20 * MS] == []
        assert min(wall_ns(steps[number]) for number in (1, 2, 3, 7, 8, 9, 10)) < 20 * MS

    @pytest.mark.parametrize("fault", ["loader-sleep", "loader-compute"])
    def test_slow_batches_are_waited_for(self, fault: str) -> None:
        """One worker makes three batches of at least 20 ms in sequence, and step 6 uses the last."""
        lines = run("trainer", *SHORT, *WINDOW, "--ranks=1", "--loader-workers=1", f"--fault={fault}")
        steps = steps_of(lines)

        assert steps[6]["end_ns"] - steps[1]["start_ns"] >= 3 * 20 * MS
        assert len(steps) == 10

    def test_without_workers_the_step_thread_makes_the_slow_batches(self) -> None:
        """Each of them delays its step by its whole length."""
        lines = run("trainer", *SHORT, *WINDOW, "--ranks=1", "--loader-workers=0", "--fault=loader-compute")

        assert [n for n, step in steps_of(lines).items() if step["loader_wait_ns"] >= 20 * MS and step["cpu_ns"] >= 20 * MS] == [
            4, 5, 6
        ]  # fmt: skip

    def test_only_the_named_rank_has_the_fault(self) -> None:
        """Rank 1 uses 20 ms of CPU more, rank 0 none of it; it waits for rank 1's gradients."""
        lines = run("trainer", *SHORT, *WINDOW, "--ranks=2", "--fault=host", "--fault-rank=1")

        assert all(steps_of(lines, 1)[number]["cpu_ns"] >= 20 * MS for number in (4, 5, 6))
        assert min(steps_of(lines, 0)[number]["cpu_ns"] for number in (4, 5, 6)) < 20 * MS
        assert steps_of(lines, 0)[6]["end_ns"] - steps_of(lines, 0)[4]["start_ns"] >= 2 * 20 * MS

    def test_step_0_means_never(self) -> None:
        """A fault without a first step does not occur."""
        final = final_of(run("trainer", *SHORT, "--steps=5", "--ranks=1", "--fault=oom"))

        assert final["steps"] == 5

    def test_a_batch_is_read_in_the_window_only(self, tmp_path: Path) -> None:
        """The file is missing: the worker of step 4 fails, after three steps."""
        flags = ("--ranks=1", "--fault=loader-read", "--loader-workers=1", f"--loader-file={tmp_path / 'gone'}")
        code, said = died(*WINDOW, *flags)

        assert code == 1
        assert "gone" in said


class TestKinds:
    """The effects of the faults."""

    def test_a_phase_has_more_kernels(self) -> None:
        """Twice as many in three of ten steps, and not one call more of another kind."""
        faulty = final_of(run("trainer", *SHORT, *WINDOW, "--ranks=1", "--fault=phase"))
        clean = final_of(run("trainer", *SHORT, *WINDOW, "--ranks=1"))

        assert counts(faulty, "runtime")["cudaLaunchKernel"] == 13 * KERNELS + CAPTURED
        assert counts(clean, "runtime")["cudaLaunchKernel"] == 10 * KERNELS + CAPTURED
        assert counts(faulty, "nccl")["ncclAllReduce"] == counts(clean, "nccl")["ncclAllReduce"]

    def test_a_copy_moves_its_bytes(self) -> None:
        """Three synchronous copies of 1,000,000 bytes beside ten batches of 1 MiB."""
        final = final_of(run("trainer", *SHORT, *WINDOW, "--ranks=1", "--fault=copy", "--fault-bytes=1000000"))

        assert final["bytes"]["h2d"] == 10 * (1 << 20) + 3_000_000
        assert counts(final, "runtime")["cudaMemcpy"] == 3

    @pytest.mark.acceptance
    def test_a_slower_gpu_ends_later_and_recovers(self) -> None:
        """The kernels of a step, 1.1 ms together, take 110 ms in steps 4 to 6."""
        flags = ("--ranks=1", "--fault=gpu", "--fault-factor=100", "--collective-us=0")
        steps = steps_of(run("trainer", *SHORT, *WINDOW, *flags))

        # 120 kernels of 5 us and 10 of 50 us, a hundred times as long.
        assert [number for number in (4, 5, 6) if wall_ns(steps[number]) < 110 * MS] == []
        assert min(wall_ns(steps[number]) for number in (7, 8, 9, 10)) < 110 * MS

    def test_spinners_spin_in_the_window(self) -> None:
        """Threads beside the ranks' own, which have used the CPU."""
        flags = ("--ranks=1", "--fault=spinners", "--fault-threads=3", "--pace-us=20000")
        spinning = final_of(run("trainer", *SHORT, *WINDOW, *flags))["threads"]
        calm = final_of(run("trainer", *SHORT, "--steps=10", "--ranks=1"))["threads"]

        assert spinning.keys() - calm.keys() == {"pt_spinner"}
        assert spinning["pt_spinner"]["cpu_ns"] > 0

    @pytest.mark.acceptance
    def test_switchers_give_up_the_cpu_often(self) -> None:
        """Two threads that sleep 50 us, for three steps of at least 20 ms: hundreds of switches."""
        flags = ("--ranks=1", "--fault=switches", "--fault-us=50", "--pace-us=20000")
        with before_others():
            final = final_of(run("trainer", *SHORT, *WINDOW, *flags))

        assert final["threads"]["pt_switcher"]["nvcsw"] >= 200

    def test_new_and_mapped_memory_is_used_in_each_step(self, tmp_path: Path) -> None:
        """The step thread uses more CPU time than without it."""
        data = tmp_path / "data"
        data.write_bytes(bytes(1 << 20))
        flags = ("--touch-bytes=64000000", f"--map-file={data}", "--map-bytes=1000000")

        def least_cpu_ns(*flags: str) -> int:
            lines = run("trainer", *SHORT, "--ranks=1", "--steps=10", *flags)
            return min(int(step["cpu_ns"]) for step in steps_of(lines).values())

        assert least_cpu_ns(*flags) > least_cpu_ns() + MS

    def test_out_of_memory_ends_the_process(self) -> None:
        """At its step, with one failed allocation, an error message, and exit code 1."""
        code, said = died(*WINDOW, "--ranks=1", "--fault=oom")

        assert code == 1
        assert "rank 0: CUDA out of memory" in said

    def test_out_of_memory_can_be_survived(self) -> None:
        """One allocation fails, the smaller one after it does not, and all steps are made."""
        final = final_of(run("trainer", *SHORT, *WINDOW, "--ranks=1", "--fault=oom-retry"))
        clean = final_of(run("trainer", *SHORT, *WINDOW, "--ranks=1"))

        assert final["steps"] == 10
        assert final["calls"]["runtime"]["cudaMalloc"]["errors"] == 1
        assert counts(final, "runtime")["cudaMalloc"] == counts(clean, "runtime")["cudaMalloc"] + 2

    def test_a_missing_rank_hangs_the_others(self) -> None:
        """Rank 1 stops before the backward pass of step 5: no rank finishes it."""
        with subprocess.Popen(
            [str(standin.build_dir() / "trainer"), *SHORT, "--fault=hang", "--fault-rank=1", "--fault-from-step=5"],
            stdout=subprocess.PIPE,
            text=True,
        ) as training:
            assert training.stdout is not None
            steps = [training.stdout.readline() for _ in range(8)]
            time.sleep(0.3)
            training.send_signal(signal.SIGINT)
            rest = training.stdout.readlines()

        assert all('"type":"step"' in line for line in steps)
        assert [('"type":"final"' in line, '"steps":4,' in line) for line in rest] == [(True, True), (True, True)]

    @pytest.mark.parametrize(
        "flags", [("--fault=loader-read",), ("--fault=nonsense",), ("--fault-threads=65",), ("--fault-factor=0",)]
    )
    def test_invalid_flags_are_one_line_and_exit_2(self, flags: tuple[str, ...]) -> None:
        """Before anything runs."""
        code, said = died(*flags)

        assert code == 2
        assert len(said.splitlines()) == 1
