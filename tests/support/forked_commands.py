"""Runs commands of the exporter on many files: most runs are forks of a process that has imported the command.

A fork calls the same main() as a user's process: arguments, reading, printing and the exit code are the same. It leaves out the
start of the interpreter and the imports. One run in `STARTED_EVERY` of a command starts a process as a user does.

In: the name of a command; a JSON array of arguments on each line of standard input. Out: a line of JSON for each.
"""

from __future__ import annotations

import gc
import importlib
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from exporter.__main__ import main
from tests.support.measured import Measured, Runner, runner, waited_for

STARTED_EVERY = 20
_COMMAND = (sys.executable, "-m", "exporter")
_HELP = "--help"
_STDIN, _STDOUT, _STDERR = range(3)


class Commands:
    """Runs commands. Their CPU time and peak memory are those beyond a process that prints its help.

    start_cpu_seconds: of such a process, as fast as this machine is now. cpu_seconds_max: what a test allows.
    """

    def __init__(self, stack: ExitStack) -> None:
        """stack: of the processes that fork and measure."""
        self._stack = stack
        self._started = stack.enter_context(runner())
        self._forking: dict[str, tuple[Runner, float]] = {}
        self._runs: dict[str, int] = {}
        started = self._started.run(*_COMMAND, "explain", _HELP)
        self.start_cpu_seconds, self._start_mib = started.cpu_seconds, started.peak_mib
        self.cpu_seconds_max = math.inf

    def run(self, command: str, *arguments: str) -> Measured:
        """A command, in a fork or in a process of its own."""
        number = self._runs[command] = self._runs.get(command, -1) + 1
        if number % STARTED_EVERY == 0:
            return self.start(*_COMMAND, command, *arguments)
        forking, idle_mib = self._forking_of(command)
        done = forking.run(command, *arguments)
        return done._replace(peak_mib=done.peak_mib - idle_mib)

    def start(self, *arguments: str) -> Measured:
        """A process of its own."""
        done = self._started.run(*arguments)
        return done._replace(
            cpu_seconds=done.cpu_seconds - self.start_cpu_seconds, peak_mib=done.peak_mib - self._start_mib
        )

    def _forking_of(self, command: str) -> tuple[Runner, float]:
        if command not in self._forking:
            forking = self._stack.enter_context(_forking(command))
            self._forking[command] = forking, forking.run(command, _HELP).peak_mib
        return self._forking[command]


@contextmanager
def commands() -> Iterator[Commands]:
    """Until the end of the block."""
    with ExitStack() as stack:
        yield Commands(stack)


@contextmanager
def _forking(command: str) -> Iterator[Runner]:
    """Runs one command in forks."""
    arguments = [sys.executable, "-m", __name__, command]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        yield Runner(child)
        assert child.stdin is not None
        child.stdin.close()


def _serve() -> int | None:
    """Returns what a fork exits with, and None in the process that forks."""
    for line in sys.stdin:
        arguments = json.loads(line)
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            began_seconds = time.monotonic()
            tgid = os.fork()
            if tgid == 0:
                nothing = os.open(os.devnull, os.O_RDONLY)
                for descriptor, to in ((nothing, _STDIN), (output.fileno(), _STDOUT), (errors.fileno(), _STDERR)):
                    os.dup2(descriptor, to)
                return main(arguments)
            done = waited_for(tgid, began_seconds, output, errors)
        print(json.dumps(done), flush=True)
    return None


if __name__ == "__main__":
    importlib.import_module(f"exporter.commands.{sys.argv[1]}")
    gc.freeze()  # a fork that ends would copy every page of the modules
    sys.exit(_serve())
