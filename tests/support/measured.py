"""Runs commands and reports what each took: a small process of its own, since a child's peak memory includes that of its parent.

In: a JSON array of arguments on each line of standard input. Out: a line of JSON for each.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, NamedTuple

# As in tests/support/patience.py, which an isolated interpreter cannot import.
SECONDS_MAX = float(os.environ.get("TEST_PATIENCE", "120"))
_OUTPUT_BYTES = 4 << 20


class Measured(NamedTuple):
    """peak_mib: of resident memory. code: negative for a signal. cpu_seconds: of the process and its children."""

    code: int
    seconds: float
    peak_mib: float
    stdout: str
    stderr: str
    cpu_seconds: float


def waited_for(tgid: int, began_seconds: float, output: IO[bytes], errors: IO[bytes]) -> Measured:
    """What a child took that writes to these files; killed when its time is over."""
    while True:
        ended, status, usage = os.wait4(tgid, os.WNOHANG)
        seconds = time.monotonic() - began_seconds
        if ended:
            break
        if seconds > SECONDS_MAX:
            os.kill(tgid, signal.SIGKILL)
        time.sleep(0.005)
    texts = []
    for file in (output, errors):
        file.seek(0)
        texts.append(file.read(_OUTPUT_BYTES).decode("utf-8", "backslashreplace"))
    code = os.waitstatus_to_exitcode(status)
    return Measured(code, seconds, usage.ru_maxrss / 1024, *texts, usage.ru_utime + usage.ru_stime)


def _run(arguments: Sequence[str]) -> Measured:
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        began_seconds = time.monotonic()
        child = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=output, stderr=errors)
        done = waited_for(child.pid, began_seconds, output, errors)
        child.returncode = done.code
        return done


class Runner:
    """Runs commands by a small process."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        self._child = child

    def run(self, *arguments: str) -> Measured:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(json.dumps(arguments) + "\n")
        self._child.stdin.flush()
        return Measured(*json.loads(self._child.stdout.readline()))


@contextmanager
def runner() -> Iterator[Runner]:
    """The process, until the end of the block."""
    command = [sys.executable, "-I", "-S", __file__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        yield Runner(child)
        assert child.stdin is not None
        child.stdin.close()


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(_run(json.loads(line))), flush=True)
