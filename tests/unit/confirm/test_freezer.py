"""freezer: processes are paused and resumed, by a signal or by a scheduling policy. On children of the test."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from exporter.confirm.freezer import SchedIdlePause, SigstopPause
from exporter.host.processes import Processes
from tests.support.traced import eventually


@pytest.fixture
def child() -> Iterator[int]:
    """A process that sleeps."""
    process = subprocess.Popen(["sleep", "60"])
    yield process.pid
    process.kill()
    process.wait()


WITHOUT_MAIN_THREAD = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(60,)).start()
print(threading.get_native_id(), flush=True)
ctypes.CDLL(None).pthread_exit(None)
"""


@pytest.fixture
def child_without_main_thread() -> Iterator[int]:
    """A process whose main thread has ended while another one sleeps."""
    process = subprocess.Popen([sys.executable, "-c", WITHOUT_MAIN_THREAD], stdout=subprocess.PIPE)
    eventually(lambda: Processes().stat(process.pid).state == "Z", "its main thread has ended")
    yield process.pid
    process.kill()
    process.communicate()


def start_time(tgid: int) -> int:
    return Processes().start_time_ticks(tgid)


def is_stopped(tgid: int) -> bool:
    return Processes().stat(tgid).state == "T"


class TestSigstopPause:
    def test_process_is_stopped_and_resumed(self, child: int) -> None:
        pause = SigstopPause()
        pause.pause(child, start_time(child))
        pause.wait()
        was_stopped = is_stopped(child)
        pause.resume()

        assert (was_stopped, is_stopped(child)) == (True, False)

    def test_process_with_another_start_time_is_not_touched(self, child: int) -> None:
        """Its id was reused."""
        pause = SigstopPause()
        pause.pause(child, start_time(child) + 1)
        pause.wait()

        assert not is_stopped(child)

    def test_process_that_was_stopped_before_stays_stopped(self, child: int) -> None:
        """Another person or program has stopped it."""
        earlier = SigstopPause()
        earlier.pause(child, start_time(child))
        earlier.wait()
        pause = SigstopPause()
        pause.pause(child, start_time(child))
        pause.resume()

        assert is_stopped(child)

    def test_process_without_its_main_thread_is_as_any_other(self, child_without_main_thread: int) -> None:
        """Its other thread is stopped when wait() returns. One that was stopped before stays so."""
        tgid = child_without_main_thread
        thread = Processes().readable_id(tgid)
        assert thread != tgid
        earlier, pause = SigstopPause(), SigstopPause()
        earlier.pause(tgid, start_time(tgid))
        earlier.wait()
        was_stopped = is_stopped(thread)
        pause.pause(tgid, start_time(tgid))
        pause.resume()

        assert (was_stopped, is_stopped(thread)) == (True, True)

    def test_adopted_process_is_resumed(self, child: int) -> None:
        """The freezer that stopped it was killed."""
        killed = SigstopPause()
        killed.pause(child, start_time(child))
        killed.wait()
        pause = SigstopPause()
        pause.adopt(child, start_time(child))
        pause.resume()

        assert not is_stopped(child)


class TestSchedIdlePause:
    def test_policy_is_changed_and_restored(self, child: int) -> None:
        pause = SchedIdlePause()
        pause.pause(child, start_time(child))
        during = os.sched_getscheduler(child)
        pause.resume()

        assert (during, os.sched_getscheduler(child)) == (os.SCHED_IDLE, os.SCHED_OTHER)

    def test_adopted_process_gets_the_default_policy(self, child: int) -> None:
        """Its earlier policy is not known."""
        os.sched_setscheduler(child, os.SCHED_IDLE, os.sched_param(0))
        pause = SchedIdlePause()
        pause.adopt(child, start_time(child))
        pause.resume()

        assert os.sched_getscheduler(child) == os.SCHED_OTHER

    def test_process_with_another_start_time_is_not_touched(self, child: int) -> None:
        """Its id was reused."""
        pause = SchedIdlePause()
        pause.pause(child, start_time(child) + 1)

        assert os.sched_getscheduler(child) == os.SCHED_OTHER
