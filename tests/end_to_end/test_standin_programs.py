"""The stand-in's programs: `calls`, and the training job `trainer`."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gpustall_standin as standin
from tests.support.patience import PATIENCE_SECONDS
from tests.support.standin_gpu import MS, counts, run

pytestmark = [pytest.mark.end_to_end, pytest.mark.usefixtures("build")]


class TestCalls:
    """It makes exactly the calls on its command line."""

    def test_the_ordered_calls_are_made_and_reported(self) -> None:
        """23 copies of 65,536 bytes, 5 allocations, and nothing else after the preparation."""
        (final,) = run("calls", "memcpy_h2d:23:65536", "cudaMalloc:5:4096")

        assert counts(final, "runtime") == {"cudaMalloc": 5, "cudaMemcpyAsync": 23}
        assert final["bytes"] == {"h2h": 0, "h2d": 23 * 65536, "d2h": 0, "d2d": 0}

    def test_times_are_at_least_the_kernels_waited_for(self) -> None:
        """23 waits for 5 ms each, less what passes between a launch and its wait."""
        (final,) = run("calls", "--sync=block", "sync:23:5ms")

        assert counts(final, "runtime") == {"cudaLaunchKernel": 23, "cudaStreamSynchronize": 23}
        assert final["calls"]["runtime"]["cudaStreamSynchronize"]["sum_ns"] >= 5 * MS

    def test_injected_errors_are_counted(self) -> None:
        """The fourth cudaMalloc of the process fails; two of them are preparation."""
        (final,) = run("calls", "cudaMalloc:5:4096", STANDIN_FAIL="cudaMalloc:2:4")

        assert final["calls"]["runtime"]["cudaMalloc"]["errors"] == 1

    def test_a_failed_copy_moves_no_bytes(self) -> None:
        """Every driver copy fails: the runtime's calls fail with it and nothing is counted as moved."""
        (final,) = run("calls", "memcpy_h2d:23:64", STANDIN_FAIL="cuMemcpyHtoDAsync:719:*")

        assert final["calls"]["runtime"]["cudaMemcpyAsync"]["errors"] == 23
        assert final["bytes"]["h2d"] == 0

    def test_it_waits_before_and_after_the_calls(self) -> None:
        """ "ready" names the process; the calls come after the first line, the end after the second."""
        with subprocess.Popen(
            [str(standin.build_dir() / "calls"), "--hold", "launch:3:1us"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as held:
            assert held.stdin is not None
            assert held.stdout is not None
            assert held.stdout.readline() == f"ready {held.pid}\n"
            held.stdin.write("\n")
            held.stdin.flush()
            assert counts(json.loads(held.stdout.readline()), "runtime") == {"cudaLaunchKernel": 3}
            assert held.poll() is None
            held.stdin.write("\n")
        assert held.returncode == 0

    @pytest.mark.parametrize(
        "argument", ["--bogus", "no_such_call:1", "launch", "launch:x", "wait:1:1ms:101", "jump:1"]
    )
    def test_invalid_orders_are_one_line_and_exit_2(self, build: Path, argument: str) -> None:
        """Before anything runs."""
        done = subprocess.run([str(build / "calls"), argument], capture_output=True, text=True, check=False)

        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1


def children(tgid: int) -> list[int]:
    """Processes started by a process, directly."""
    return [int(text) for text in Path(f"/proc/{tgid}/task/{tgid}/children").read_text().split()]


def descendants(tgid: int) -> list[int]:
    """Ranks and their loader workers."""
    return [found for child in children(tgid) for found in [child, *descendants(child)]]


def name(tgid: int) -> str:
    return Path(f"/proc/{tgid}/comm").read_text().strip()


def thread_names(tgid: int) -> list[str]:
    return sorted(path.read_text().strip() for path in Path(f"/proc/{tgid}/task").glob("*/comm"))


def is_running(tgid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{tgid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(condition: Callable[[], bool]) -> bool:
    """Whether it becomes true."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if condition():  # asked once: a moment later it may be over
            return True
        time.sleep(0.01)
    return False


def shared_memory_files() -> set[str]:
    """Files of communicators in shared memory."""
    return {path.name for path in Path("/dev/shm").glob("standin-nccl-*")}


class Training:
    """A trainer that has made its first step."""

    def __init__(self, *flags: str) -> None:
        self.process = subprocess.Popen(
            [str(standin.build_dir() / "trainer"), "--sync=block", "--kernel-us=20", "--backward-kernel-us=20", *flags],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.first = self.line()
        self.everyone = descendants(self.process.pid)

    def line(self) -> dict[str, Any]:
        """The next line."""
        assert self.process.stdout is not None
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found

    def rest(self) -> list[dict[str, Any]]:
        """All lines after the first, once it has ended."""
        assert self.process.stdout is not None
        with self.process:
            return [json.loads(line) for line in self.process.stdout]


class TestTrainer:
    """The stand-in training job."""

    SHORT = ("--sync=block", "--kernel-us=5", "--backward-kernel-us=5", "--loader-compute-us=50")

    @pytest.mark.parametrize("program", ["trainer", "trainer-static", "trainer-torch"])
    def test_the_same_seed_makes_the_same_calls(self, program: str) -> None:
        """Every count is repeatable except those of the watchdog, which follow the clock."""
        by_clock = {"cudaEventQuery", "ncclCommGetAsyncError", "cudaEventRecord"}
        flags = (*self.SHORT, "--steps=20", "--evaluate-every=5", "--jitter-percent=30", "--quiet")

        def made() -> list[dict[str, int]]:
            finals = sorted(run(program, *flags), key=lambda final: int(final["rank"]))
            return [
                {
                    symbol: count
                    for api in ("runtime", "nccl")
                    for symbol, count in counts(final, api).items()
                    if symbol not in by_clock
                }
                for final in finals
            ]

        first = made()
        assert len(first) == 2
        assert first[0]["cudaMemcpyAsync"] == 20 + 20 + 4
        assert first[0]["ncclAllReduce"] == 80
        assert made() == first

    def test_it_uses_most_probed_functions(self) -> None:
        """At least 25 different runtime operations and 8 of NCCL."""
        final = run("trainer", *self.SHORT, "--steps=20", "--evaluate-every=10", "--quiet", "--watchdog-ms=1")[0]

        assert len(final["calls"]["runtime"]) >= 25
        assert len(final["calls"]["nccl"]) >= 8

    def test_every_step_reports_its_true_end(self) -> None:
        """The GPU ends between the start of the wait and its return, and the delay is what lies behind the end."""
        lines = run("trainer", *self.SHORT, "--steps=5", "--ranks=2")
        steps = [line for line in lines if line["type"] == "step"]

        assert sorted((line["rank"], line["step"]) for line in steps) == [(r, s) for r in (0, 1) for s in range(1, 6)]
        for line in steps:
            assert line["start_ns"] <= line["sync_start_ns"] <= line["sync_return_ns"] <= line["end_ns"]
            assert line["gpu_end_ns"] <= line["sync_return_ns"]
            assert line["delay_ns"] == line["sync_return_ns"] - max(line["gpu_end_ns"], line["sync_start_ns"])

    def test_threads_and_processes_are_named_as_pytorch_names_them(self) -> None:
        """Step thread and autograd, watchdog, pin-memory threads; two loader workers."""
        threads = ["pin_memory", "pt_autograd_0", "pt_nccl_watchdg", "trainer"]
        workers = ["pt_data_worker", "pt_data_worker"]
        training = Training("--ranks=1")
        (rank,) = children(training.process.pid)
        # Each names itself when it first runs, which may be after the first step.
        are_named = wait_until(lambda: thread_names(rank) == threads and list(map(name, children(rank))) == workers)
        found = thread_names(rank), list(map(name, children(rank)))
        training.process.terminate()
        training.rest()

        assert are_named, found

    @pytest.mark.parametrize(("where", "seen"), [("env", ["RANK=0", "WORLD_SIZE=1"]), ("nccl", [])])
    def test_the_rank_is_in_the_environment_only_with_its_flag(self, where: str, seen: list[str]) -> None:
        """--rank-from=nccl leaves the communicator as the only source."""
        training = Training("--ranks=1", f"--rank-from={where}")
        (rank,) = children(training.process.pid)
        variables = Path(f"/proc/{rank}/environ").read_text().split("\0")
        training.process.terminate()
        training.rest()

        assert sorted(text for text in variables if text.startswith(("RANK=", "WORLD_SIZE="))) == seen

    def test_sigterm_ends_all_processes_and_each_rank_reports(self) -> None:
        """Exit code 0, a final line for each rank, no process and no file in shared memory left."""
        before = shared_memory_files()
        training = Training("--ranks=3")
        assert len(training.everyone) == 9
        training.process.terminate()
        finals = [line for line in training.rest() if line["type"] == "final"]

        assert training.process.returncode == 0
        assert sorted(final["rank"] for final in finals) == [0, 1, 2]
        assert wait_until(lambda: not any(map(is_running, training.everyone)))
        assert wait_until(lambda: shared_memory_files() <= before)

    def test_sigkill_of_the_parent_ends_all_processes(self) -> None:
        """Neither ranks nor workers outlive it, and no file is left."""
        before = shared_memory_files()
        training = Training("--ranks=2")
        training.process.kill()
        training.rest()

        assert wait_until(lambda: not any(map(is_running, training.everyone)))
        assert wait_until(lambda: shared_memory_files() <= before)

    def test_ranks_started_separately_find_each_other(self, tmp_path: Path) -> None:
        """With --id-file each rank is a process of its own, wherever it was started."""
        flags = (*self.SHORT, "--quiet", "--steps=3", "--world-size=2", f"--id-file={tmp_path / 'id'}")
        with subprocess.Popen(
            [str(standin.build_dir() / "trainer"), *flags, "--rank=1"], stdout=subprocess.PIPE
        ) as peer:
            (final,) = run("trainer", *flags, "--rank=0")
            peer.communicate(timeout=PATIENCE_SECONDS)

        assert (final["rank"], final["steps"], peer.returncode) == (0, 3, 0)

    def test_an_unknown_flag_is_one_line_and_exit_2(self, build: Path) -> None:
        """The line names the flag."""
        done = subprocess.run([str(build / "trainer"), "--bogus=1"], capture_output=True, text=True, check=False)

        assert done.returncode == 2
        assert "--bogus=1: unknown flag" in done.stderr
        assert len(done.stderr.splitlines()) == 1
