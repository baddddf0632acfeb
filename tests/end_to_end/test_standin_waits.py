"""How the stand-in waits: asleep in poll() like a real driver; and what its programs report about waits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import gpustall_standin as standin
from tests.support.patience import PATIENCE_SECONDS, line_of
from tests.support.priority import before_others
from tests.support.standin_gpu import MS, Gpu, counts, run

pytestmark = [pytest.mark.end_to_end, pytest.mark.usefixtures("build")]
FORKED = """
import os, sys
from pathlib import Path
from tests.support.standin_gpu import MS, Gpu

gpu = Gpu(Path(sys.argv[1]))
stream = gpu.stream()
gpu.launch(stream, MS)
gpu("cudaStreamSynchronize", stream)
child = os.fork()
gpu.launch(stream, 3_600_000 * MS if child else 500 * MS)
gpu("cudaStreamSynchronize", stream)
print("parent" if child else "child", flush=True)
os._exit(0)
"""


@contextmanager
def waiting(**variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program that waits for a kernel of a minute, blocking; killed at the end."""
    with subprocess.Popen(
        [str(standin.build_dir() / "calls"), "--sync=block", "sync:1:60s"],
        env={**os.environ, **variables},
        stdout=subprocess.DEVNULL,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def comes_true(condition: Callable[[], bool]) -> bool:
    """Whether it becomes true."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if condition():  # asked once: a moment later it may be over
            return True
        time.sleep(0.01)
    return False


def sleeps_in(tgid: int, function: str) -> bool:
    """Whether the main thread comes to sleep in a kernel function with this in its name."""
    return comes_true(lambda: function in Path(f"/proc/{tgid}/wchan").read_text())


def timers(tgid: int | str) -> int:
    """Descriptors of timers that a process has open."""
    found = 0
    for path in Path(f"/proc/{tgid}/fd").iterdir():
        try:
            found += str(path.readlink()) == "anon_inode:[timerfd]"
        except FileNotFoundError:
            continue
    return found


class TestBlocking:
    """A wait with cudaDeviceScheduleBlockingSync."""

    def test_it_sleeps_in_poll_on_a_timer(self) -> None:
        """The kernel sees a thread that polls a descriptor, not one that sleeps for a time."""
        with waiting() as process:
            assert sleeps_in(process.pid, "poll")
            assert timers(process.pid) == 1

    def test_polling_sleeps_for_a_time(self) -> None:
        """With STANDIN_POLL_US the thread polls no descriptor."""
        with waiting(STANDIN_POLL_US="1000") as process:
            assert sleeps_in(process.pid, "nanosleep")
            assert timers(process.pid) == 0

    def test_spinning_first_can_avoid_sleeping(self) -> None:
        """Most of 101 waits of 10 ms sleep; with STANDIN_SPIN_US beyond their length they do not sleep."""
        (blocked,) = run("calls", "--sync=block", "wait:101:10ms")
        (spun,) = run("calls", "--sync=block", "wait:101:10ms", STANDIN_SPIN_US="1000000")

        assert blocked["threads"]["calls"]["nvcsw"] > 50
        assert spun["threads"]["calls"]["nvcsw"] < 50

    def test_polling_checks_repeatedly(self) -> None:
        """5 waits of 100 ms with a check each millisecond: more sleeps than waits, and no wait ends early."""
        with before_others():
            (final,) = run("calls", "--sync=block", "wait:5:100ms", STANDIN_POLL_US="1000")

        assert final["threads"]["calls"]["nvcsw"] > 10
        assert final["waits"]["delay_ns"] >= 0

    def test_a_timer_is_closed_with_its_thread(self, gpu: Gpu) -> None:
        """Ten threads wait and end: as many descriptors as before."""
        stream = gpu.stream()
        before = timers("self")

        def wait() -> None:
            gpu.launch(stream, MS)
            gpu("cudaStreamSynchronize", stream)

        for _ in range(10):
            thread = threading.Thread(target=wait)
            thread.start()
            thread.join()

        # Python joins a thread a moment before it ends.
        assert comes_true(lambda: timers("self") == before)

    def test_a_child_does_not_set_the_timer_of_its_parent(self, build: Path) -> None:
        """After fork() a child waits half a second while its parent waits for an hour: neither ends the other's wait."""
        command = [sys.executable, "-c", FORKED, str(build)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as parent:
            assert line_of(parent) == "child\n"
            time.sleep(0.1)  # in which a parent whose wait has ended would print
            parent.kill()
            assert parent.communicate()[0] == ""


class TestWaits:
    """`wait`: waits that the program measures itself."""

    def test_23_waits_are_23(self) -> None:
        """Each is a launch and a synchronisation."""
        (final,) = run("calls", "--sync=block", "wait:23:1ms")

        assert final["waits"]["count"] == 23
        assert counts(final, "runtime") == {"cudaLaunchKernel": 23, "cudaStreamSynchronize": 23}

    def test_the_wall_time_is_the_kernels_and_the_delay(self) -> None:
        """What is not delay was waited for on the GPU: at most the kernels, less what passes before each wait."""
        (final,) = run("calls", "--sync=spin", "wait:23:5ms")
        waits = final["waits"]

        assert 0 <= waits["wall_ns"] - waits["delay_ns"] <= 23 * 5 * MS
        assert waits["wall_ns"] <= final["calls"]["runtime"]["cudaStreamSynchronize"]["sum_ns"] + 23 * 5 * MS

    @pytest.mark.acceptance
    def test_a_spinning_wait_is_late_only_without_a_cpu(self) -> None:
        """The best of five runs: below 0.2 ms per wait, apart from the time without a CPU."""

        def late_ns() -> int:
            (final,) = run("calls", "--sync=spin", "wait:23:2ms")
            return int(final["waits"]["delay_ns"] - final["threads"]["calls"]["run_delay_ns"])

        assert min(late_ns() for _ in range(5)) < 23 * MS // 5

    def test_jitter_stays_within_its_percentage(self) -> None:
        """101 kernels of 1 ms, plus or minus 50 %: their sum is between half and one and a half times 101 ms."""
        (final,) = run("calls", "--sync=spin", "wait:101:1ms:50")
        gpu_ns = final["waits"]["wall_ns"] - final["waits"]["delay_ns"]

        assert gpu_ns <= 101 * MS * 3 // 2

    def test_waits_of_all_threads_are_summed(self) -> None:
        """Three ranks in one process, five waits each; their threads still exist."""
        (final,) = run("calls", "--ranks=3", "--ranks-as=threads", "wait:5:100us")

        assert final["waits"]["count"] == 15
        assert final["threads"]["calls"]["wall_ns"] > 0


class TestBesideTheCalls:
    """Orders that make no call, or leave one without returning."""

    @pytest.mark.parametrize("order", ["pipe:23", "fork:5", "yield:1000", "spin:3:1ms", "sleep:3:1ms"])
    def test_they_call_nothing(self, order: str) -> None:
        """Only the preparation is counted."""
        (final,) = run("calls", order)

        assert final["calls"] == {"runtime": {}, "driver": {}, "nccl": {}}

    def test_round_trips_give_up_the_cpu(self) -> None:
        """Not each of 1,009 answers has arrived before the thread waits for it."""
        (final,) = run("calls", "pipe:1009")

        assert final["threads"]["calls"]["nvcsw"] >= 23

    def test_spinning_uses_the_cpu_and_sleeping_does_not(self) -> None:
        """300 ms of each."""
        (spun,), (slept,) = run("calls", "spin:3:100ms"), run("calls", "sleep:3:100ms")

        assert spun["threads"]["calls"]["cpu_ns"] > slept["threads"]["calls"]["cpu_ns"]
        assert slept["threads"]["calls"]["wall_ns"] >= 290 * MS

    def test_a_call_left_by_a_jump_never_returns(self) -> None:
        """3 launches, 3 jumps, and no synchronisation that came back; the next call works."""
        (final,) = run("calls", "--sync=block", "jump:3:1s", "cudaMalloc:1:64")

        assert final["jumps"] == 3
        assert counts(final, "runtime") == {"cudaLaunchKernel": 3, "cudaMalloc": 1}

    def test_a_process_can_end_within_a_call(self) -> None:
        """Long before the kernel, and with a final line."""
        (final,) = run("calls", "--sync=block", "exitcall:1:3600s")

        assert counts(final, "runtime") == {"cudaLaunchKernel": 1}

    def test_ending_within_a_call_needs_no_second_line(self) -> None:
        """With --hold, the line that starts the calls is the last one that is read."""
        with subprocess.Popen(
            [str(standin.build_dir() / "calls"), "--hold", "--sync=block", "exitcall:1:3600s"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as held:
            answer, _ = held.communicate("\n", timeout=PATIENCE_SECONDS)

        assert held.returncode == 0
        assert json.loads(answer.splitlines()[-1])["type"] == "final"

    def test_a_name_that_is_not_text_is_reported_as_bytes(self, tmp_path: Path) -> None:
        """A quote, a backslash and a byte that is not UTF-8, each as \\u00XX."""
        link = tmp_path / os.fsdecode(b'q"\\\xff')
        link.symlink_to(standin.build_dir() / "calls")
        done = subprocess.run(
            [os.fsencode(link), "yield:1"], env=standin.environment(), capture_output=True, check=True
        )

        assert list(json.loads(done.stdout)["threads"]) == ['q"\\\xff']
