"""A program that pauses processes and always resumes them: after the time limit, on a signal, or when its parent has gone.

It runs in a session of its own, so that signals to its parent do not reach it. In: one line of JSON on standard input, with
`method`, `seconds` and `processes` (pairs of process id and start time). Out: the line `paused` once they are; it exits when they
are resumed. It uses only the standard library and nothing of this package.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType

SIGSTOP, SCHED_IDLE = "sigstop", "sched-idle"
"""Values of `method`."""
PAUSED_LINE = "paused\n"

_START_TIME_FIELD = 19
_STATE_FIELD = 0
_STOP_TIMEOUT_SECONDS = 1.0
_RESTORABLE = (os.SCHED_OTHER, os.SCHED_BATCH, os.SCHED_FIFO, os.SCHED_RR)
"""Scheduling policies that a thread can be given again."""


class _Terminated(Exception):
    """A signal asked this program to end."""


def _stat(tgid: int) -> list[str]:
    return Path(f"/proc/{tgid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()


def _state(tgid: int) -> str:
    """The state of the main thread; of another thread once the main thread has ended while others go on."""
    state = _stat(tgid)[_STATE_FIELD]
    for tid in _tids(tgid) if state in "ZX" else ():
        with suppress(OSError, IndexError):
            if tid != tgid and (of_thread := _stat(tid)[_STATE_FIELD]) not in "ZX":
                return of_thread
    return state


class SigstopPause:
    """Stops processes by SIGSTOP. A process that was stopped already is not touched."""

    def __init__(self) -> None:
        self._pidfds: list[int] = []  # which never refer to another process
        self._stopped: list[int] = []

    def pause(self, tgid: int, start_time_ticks: int) -> None:
        """Does nothing if the process has ended or its id belongs to another process now."""
        with suppress(OSError, IndexError, ValueError):
            pidfd = os.pidfd_open(tgid)
            stat = _stat(tgid)
            if int(stat[_START_TIME_FIELD]) != start_time_ticks or _state(tgid) in "Tt":
                os.close(pidfd)
                return
            self._pidfds.append(pidfd)  # before the signal: an extra SIGCONT does no harm
            signal.pidfd_send_signal(pidfd, signal.SIGSTOP)
            self._stopped.append(tgid)

    def wait(self) -> None:
        """A process that runs on another CPU takes a moment to stop."""
        deadline = time.monotonic() + _STOP_TIMEOUT_SECONDS
        while time.monotonic() < deadline and not all(map(_has_stopped, self._stopped)):
            time.sleep(0.001)

    def adopt(self, tgid: int, start_time_ticks: int) -> None:
        """Another process has paused it; resume() will resume it."""
        with suppress(OSError, IndexError, ValueError):
            pidfd = os.pidfd_open(tgid)
            if int(_stat(tgid)[_START_TIME_FIELD]) == start_time_ticks:
                self._pidfds.append(pidfd)

    def resume(self) -> None:
        for pidfd in self._pidfds:
            with suppress(OSError):
                signal.pidfd_send_signal(pidfd, signal.SIGCONT)


class SchedIdlePause:
    """Gives every thread of a process the policy SCHED_IDLE: it runs only when no other thread of its cgroup wants the CPU.

    A policy is set by a thread's id, which may be reused. So each change is checked afterwards, and taken back if the thread is
    not one of the process any more.
    """

    def __init__(self) -> None:
        self._pidfds: dict[int, int] = {}
        self._before: dict[int, dict[int, tuple[int, os.sched_param]]] = {}

    def pause(self, tgid: int, start_time_ticks: int) -> None:
        """Does nothing if the process has ended or its id belongs to another process now."""
        if not self._open(tgid, start_time_ticks):
            return
        before = self._before[tgid]
        for tid in _tids(tgid):
            with suppress(OSError):
                policy, parameters = os.sched_getscheduler(tid), os.sched_getparam(tid)
                if policy & ~os.SCHED_RESET_ON_FORK in _RESTORABLE:
                    os.sched_setscheduler(tid, os.SCHED_IDLE, os.sched_param(0))
                    if self._has(tgid, tid):
                        before[tid] = (policy, parameters)
                    else:
                        os.sched_setscheduler(tid, policy, parameters)

    def wait(self) -> None:
        """A policy takes effect at once."""

    def adopt(self, tgid: int, start_time_ticks: int) -> None:
        """Another process has paused it. Its earlier policies are not known: resume() sets the default one."""
        self._open(tgid, start_time_ticks)

    def resume(self) -> None:
        """Threads that were created during the pause get the policy of the first thread."""
        for tgid, before in self._before.items():
            default = before.get(tgid, (os.SCHED_OTHER, os.sched_param(0)))
            for tid in _tids(tgid):
                with suppress(OSError):
                    is_idle = os.sched_getscheduler(tid) & ~os.SCHED_RESET_ON_FORK == os.SCHED_IDLE
                    if is_idle and self._has(tgid, tid):
                        os.sched_setscheduler(tid, *before.get(tid, default))

    def _open(self, tgid: int, start_time_ticks: int) -> bool:
        """Whether the id still belongs to the process; a descriptor of it is kept."""
        with suppress(OSError, IndexError, ValueError):
            pidfd = os.pidfd_open(tgid)
            if int(_stat(tgid)[_START_TIME_FIELD]) == start_time_ticks:
                self._pidfds[tgid], self._before[tgid] = pidfd, {}
                return True
            os.close(pidfd)
        return False

    def _has(self, tgid: int, tid: int) -> bool:
        """Whether the process still runs and has this thread."""
        is_running = not select.select([self._pidfds[tgid]], [], [], 0)[0]
        return is_running and Path(f"/proc/{tgid}/task/{tid}").exists()


def pause_of(method: str) -> SigstopPause | SchedIdlePause:
    """method: SIGSTOP or SCHED_IDLE."""
    return SigstopPause() if method == SIGSTOP else SchedIdlePause()


def _has_stopped(tgid: int) -> bool:
    """Also true for a process that has ended."""
    try:
        return _state(tgid) in "TtZX"
    except (OSError, IndexError):
        return True


def _tids(tgid: int) -> list[int]:
    try:
        return [int(task.name) for task in Path(f"/proc/{tgid}/task").iterdir()]
    except OSError:
        return []


def main() -> None:
    def terminate(_number: int, _frame: FrameType | None) -> None:
        raise _Terminated

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, terminate)
    request = json.loads(sys.stdin.buffer.readline())
    pause = pause_of(request["method"])
    try:
        for tgid, start_time_ticks in request["processes"]:
            pause.pause(tgid, start_time_ticks)
        pause.wait()
        sys.stdout.write(PAUSED_LINE)
        sys.stdout.flush()
        select.select([sys.stdin], [], [], request["seconds"])  # returns early at the end of the parent's pipe
    except (_Terminated, BrokenPipeError):
        pass
    finally:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        pause.resume()


if __name__ == "__main__":
    main()
