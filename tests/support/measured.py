"""Runs commands and reports what each took: a small process of its own, since a child's peak memory includes that of its parent.

In: a JSON array of arguments on each line of standard input. Out: a line of JSON for each.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

SECONDS_MAX = 30.0
_OUTPUT_BYTES = 4 << 20


class Measured(NamedTuple):
    """peak_mib: of resident memory. code: negative for a signal."""

    code: int
    seconds: float
    peak_mib: float
    stdout: str
    stderr: str


def _run(arguments: Sequence[str]) -> Measured:
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        began = time.monotonic()
        child = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=output, stderr=errors)
        while True:
            tgid, status, usage = os.wait4(child.pid, os.WNOHANG)
            seconds = time.monotonic() - began
            if tgid:
                break
            if seconds > SECONDS_MAX:
                child.kill()
            time.sleep(0.005)
        child.returncode = os.waitstatus_to_exitcode(status)
        texts = []
        for file in (output, errors):
            file.seek(0)
            texts.append(file.read(_OUTPUT_BYTES).decode("utf-8", "backslashreplace"))
        return Measured(child.returncode, seconds, usage.ru_maxrss / 1024, *texts)


class Runner:
    """Runs commands in the small process."""

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
