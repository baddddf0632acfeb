"""How long a test waits for what must happen: one number for all, since a busy machine is no defect."""

from __future__ import annotations

import os
import signal
import subprocess
import threading

PATIENCE_SECONDS = float(os.environ.get("TEST_PATIENCE", "120"))


def line_of(process: subprocess.Popen[str]) -> str:
    """The next line of a program; empty if it has ended, or is killed because no line came.

    The program leads a session: its children are killed as well, since they hold the pipe.
    """
    assert process.stdout is not None
    timer = threading.Timer(PATIENCE_SECONDS, os.killpg, [process.pid, signal.SIGKILL])
    timer.start()
    try:
        return process.stdout.readline()
    finally:
        timer.cancel()
