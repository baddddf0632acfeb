"""Pauses processes for a moment through the program freezer.py, which resumes them whatever happens to this process.

In: processes that may be paused. Out: a block during which they are.
"""

from __future__ import annotations

import enum
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from exporter.confirm import freezer
from exporter.confirm.eligibility import ProcessFacts
from exporter.errors import ExporterError

FREEZER = Path(freezer.__file__)
_SPARE_SECONDS = 2.0
_EXIT_TIMEOUT_SECONDS = 5.0


class PauseMethod(enum.StrEnum):
    """SIGSTOP stops processes; SCHED_IDLE leaves them the CPUs that no other thread of their cgroup wants."""

    SIGSTOP = freezer.SIGSTOP
    SCHED_IDLE = freezer.SCHED_IDLE


class PauseFailed(ExporterError):
    """The freezer has not started."""


@contextmanager
def paused(processes: Sequence[ProcessFacts], method: PauseMethod, seconds: float) -> Iterator[None]:
    """They are resumed at the end of the block, or after `seconds` and two more. Raises PauseFailed."""
    child = subprocess.Popen(
        [sys.executable, "-I", str(FREEZER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert child.stdin is not None  # noqa: S101 - a pipe
    assert child.stdout is not None  # noqa: S101
    request = {
        "method": method.value,
        "seconds": seconds + _SPARE_SECONDS,
        "processes": [(one.tgid, one.start_time_ticks) for one in processes],
    }
    try:
        child.stdin.write(json.dumps(request).encode() + b"\n")
        child.stdin.flush()
        if child.stdout.readline() != freezer.PAUSED_LINE.encode():
            raise PauseFailed("the process that pauses the culprits has ended")
        yield
    except BrokenPipeError:
        raise PauseFailed("the process that pauses the culprits has ended") from None
    finally:
        with suppress(BrokenPipeError):
            child.stdin.close()
        child.stdout.close()
        if child.wait(_EXIT_TIMEOUT_SECONDS) != 0:  # it was killed
            _resume(processes, method)


def _resume(processes: Sequence[ProcessFacts], method: PauseMethod) -> None:
    """Instead of a freezer that was killed."""
    pause = freezer.pause_of(method)
    for one in processes:
        pause.adopt(one.tgid, one.start_time_ticks)
    pause.resume()
