"""Forks and ends of traced processes."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from exporter.kernel.end_rows import ExitKey, ForkKey, read_last_errors
from exporter.kernel.operations import OPERATIONS
from tests.faults.injectors import NotPossible, cgroups
from tests.faults.injectors.cpu import in_groups
from tests.support import accounts, scripted_process
from tests.support.traced import Tracer, eventually

MIB = 1 << 20


def exits(tracer: Tracer) -> dict[ExitKey, int]:
    """Number of such ends."""
    return {key: row.exits for key, row in tracer.tables.read_exits().items()}


class TestForks:
    def test_23_children_are_forked_and_end(self, account_tracer: Tracer, waits_program: Path) -> None:
        """Each with exit code 0, and the program itself as well."""
        accounts.probe(account_tracer, waits_program)
        accounts.run(account_tracer, waits_program, "gap", "forks", "23")
        forks = account_tracer.tables.read().forks

        assert forks[ForkKey(1, is_thread=0)] == 23
        assert exits(account_tracer) == {ExitKey(1, 0, 1, 0): 23, ExitKey(1, 0, 0, 0): 1}


class TestEnds:
    """The end of the traced process."""

    def test_signal_is_in_the_status(self, account_tracer: Tracer, waits_program: Path) -> None:
        """As from wait(2), except the bit for a core file."""
        accounts.probe(account_tracer, waits_program)
        with accounts.running(waits_program, "gap", "nap", "1000", "10000") as process:
            eventually(account_tracer.tables.read_processes, "a traced process")
            process.send_signal(signal.SIGSEGV)
            process.wait()
        ((key, count),) = exits(account_tracer).items()

        assert (key.signal, key.code, count) == (signal.SIGSEGV, 0, 1)

    def test_exit_code_is_in_the_status(self, account_tracer: Tracer, own_standin: Path) -> None:
        """For a program that exits, with any last error."""
        scripted_process.attach(account_tracer, own_standin)
        environment = {"STANDIN_FAIL": "cudaMalloc:2:*"}
        done = subprocess.run(
            [own_standin / "calls", "cudaMalloc:3"], env=environment, check=False, capture_output=True
        )
        ((key, _),) = exits(account_tracer).items()
        (last,) = read_last_errors(account_tracer.kernel.maps["last_errors"]).values()

        assert (key.signal, key.code) == (0, done.returncode)
        assert (OPERATIONS[last.operation].name, last.code) == ("cudaMalloc", 2)

    def test_process_killed_for_lack_of_memory_is_a_victim(self, account_tracer: Tracer, waits_program: Path) -> None:
        """A traced process that needs more memory than its cgroup has."""
        accounts.probe(account_tracer, waits_program)
        try:
            with cgroups.group("memory", "victim") as group:
                group.write("memory.limit_in_bytes" if group.version == 1 else "memory.max", 24 * MIB)
                command = [*in_groups([group.path]), waits_program, "gap", "eats", "1000", "0"]
                done = subprocess.run(command, check=False, capture_output=True)
        except NotPossible as reason:
            pytest.skip(str(reason))
        ((key, _),) = exits(account_tracer).items()

        assert done.returncode == -signal.SIGKILL
        assert (key.signal, key.is_victim) == (signal.SIGKILL, 1)
