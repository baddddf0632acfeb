"""Holds processes, and lets go of them whatever happens: when the time is up, when it is told to, when whoever asked is gone.

A program of its own, in a session of its own, so that a signal to the one who asked does not reach it. In: a line of JSON on
standard input. Out: `held` when they are; it ends when they are let go. Only the standard library, and nothing of this package.
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

_START_TIME_FIELD = 19
_STATE_FIELD = 0
_SETTLE_SECONDS = 1.0
_CAN_COME_BACK = (os.SCHED_OTHER, os.SCHED_BATCH, os.SCHED_FIFO, os.SCHED_RR)
"""Policies that a thread can be given again."""


class _Told(Exception):
    """A signal wants this to end."""


def _stat(tgid: int) -> list[str]:
    return Path(f"/proc/{tgid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()


class Frozen:
    """Stopped by SIGSTOP. One that was stopped before is left as it is."""

    def __init__(self) -> None:
        self._held: list[int] = []  # pidfds, which never mean another process
        self._told: list[int] = []

    def hold(self, tgid: int, start_time_ticks: int) -> None:
        """Nothing happens to a process that has ended, or whose number another one has by now."""
        with suppress(OSError, IndexError, ValueError):
            pidfd = os.pidfd_open(tgid)
            stat = _stat(tgid)
            if int(stat[_START_TIME_FIELD]) != start_time_ticks or stat[_STATE_FIELD] in "Tt":
                os.close(pidfd)
                return
            self._held.append(pidfd)  # before it is stopped: to go on does no harm
            signal.pidfd_send_signal(pidfd, signal.SIGSTOP)
            self._told.append(tgid)

    def settle(self) -> None:
        """A process that runs on another CPU takes a moment to stop."""
        until = time.monotonic() + _SETTLE_SECONDS
        while time.monotonic() < until and not all(map(_has_stopped, self._told)):
            time.sleep(0.001)

    def adopt(self, tgid: int, start_time_ticks: int) -> None:
        """Somebody else has stopped it."""
        with suppress(OSError, IndexError, ValueError):
            pidfd = os.pidfd_open(tgid)
            if int(_stat(tgid)[_START_TIME_FIELD]) == start_time_ticks:
                self._held.append(pidfd)

    def let_go(self) -> None:
        """All of them."""
        for pidfd in self._held:
            with suppress(OSError):
                signal.pidfd_send_signal(pidfd, signal.SIGCONT)


class Lightened:
    """Every thread of them gets a CPU only when nobody else of its control group wants it (SCHED_IDLE)."""

    def __init__(self) -> None:
        self._before: dict[int, dict[int, tuple[int, os.sched_param]]] = {}

    def hold(self, tgid: int, start_time_ticks: int) -> None:
        """The same as above."""
        with suppress(OSError, IndexError, ValueError):
            if int(_stat(tgid)[_START_TIME_FIELD]) != start_time_ticks:
                return
            before = self._before[tgid] = {}
            for tid in _tids(tgid):
                with suppress(OSError):
                    policy = os.sched_getscheduler(tid)
                    if policy & ~os.SCHED_RESET_ON_FORK in _CAN_COME_BACK:
                        before[tid] = (policy, os.sched_getparam(tid))
                        os.sched_setscheduler(tid, os.SCHED_IDLE, os.sched_param(0))

    def settle(self) -> None:
        """It is so at once."""

    def adopt(self, tgid: int, start_time_ticks: int) -> None:
        """Somebody else has done so, and what its threads were is not known: they become ordinary ones."""
        with suppress(OSError, IndexError, ValueError):
            if int(_stat(tgid)[_START_TIME_FIELD]) == start_time_ticks:
                self._before[tgid] = {}

    def let_go(self) -> None:
        """Threads that have begun since are as the first one was."""
        for tgid, before in self._before.items():
            usual = before.get(tgid, (os.SCHED_OTHER, os.sched_param(0)))
            for tid in _tids(tgid):
                with suppress(OSError):
                    if os.sched_getscheduler(tid) & ~os.SCHED_RESET_ON_FORK == os.SCHED_IDLE:
                        os.sched_setscheduler(tid, *before.get(tid, usual))


def _has_stopped(tgid: int) -> bool:
    """Or ended."""
    try:
        return _stat(tgid)[_STATE_FIELD] in "TtZX"
    except (OSError, IndexError):
        return True


def _tids(tgid: int) -> list[int]:
    try:
        return [int(task.name) for task in Path(f"/proc/{tgid}/task").iterdir()]
    except OSError:
        return []


def main() -> None:
    """Holds what it is told to, for so many seconds at the most."""

    def end(_number: int, _frame: FrameType | None) -> None:
        raise _Told

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, end)
    asked = json.loads(sys.stdin.buffer.readline())
    holder = Frozen() if asked["how"] == "freeze" else Lightened()
    try:
        for tgid, start_time_ticks in asked["processes"]:
            holder.hold(tgid, start_time_ticks)
        holder.settle()
        print("held", flush=True)
        select.select([sys.stdin], [], [], asked["seconds"])  # an end of file is news as well
    except (_Told, BrokenPipeError):
        pass
    finally:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        holder.let_go()


if __name__ == "__main__":
    main()
