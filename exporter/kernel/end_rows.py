"""Forks and ends of processes as rows: the tables that bpf/process.bpf.c, bpf/sched.bpf.c and bpf/lib/operation.bpf.h fill.

In: MapReaders by map name. Out: rows by key. A map that is not there is an empty one.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from exporter.kernel import abi
from exporter.kernel.maps import MapReader


class LastError(NamedTuple):
    """Value of `last_errors`. at_ns: CLOCK_MONOTONIC. operation: row number of operations.OPERATIONS."""

    at_ns: int
    code: int
    operation: int


class ExitKey(NamedTuple):
    """Key of `exits`. process: number of the traced process. is_worker: not that one ended, but one that worked for it.

    status: as wait(2) tells it. is_victim: the kernel ended it because there was no memory left.
    """

    process: int
    status: int
    is_worker: int
    is_victim: int

    @property
    def signal(self) -> int:
        """That ended it; 0 where it ended by itself."""
        return os.WTERMSIG(self.status) if os.WIFSIGNALED(self.status) else 0

    @property
    def code(self) -> int:
        """Its exit code; 0 where a signal ended it."""
        return os.WEXITSTATUS(self.status) if os.WIFEXITED(self.status) else 0


class ExitRow(NamedTuple):
    """Value of `exits`. at_ns: of the last one, CLOCK_MONOTONIC."""

    exits: int
    at_ns: int


class ForkKey(NamedTuple):
    """Key of `forks`, whose value is how many. is_thread: else it was a process."""

    process: int
    is_thread: int


def read_exits(table: MapReader | None) -> dict[ExitKey, ExitRow]:
    """How processes have ended, of those whose rows are still there."""
    return {
        ExitKey(*abi.EXIT_KEY.unpack(key)): ExitRow(*abi.EXIT_ROW.unpack(value))
        for key, value in (table.items() if table else ())
    }


def read_forks(table: MapReader | None) -> dict[ForkKey, int]:
    """How many threads and processes the traced ones have made."""
    return {
        ForkKey(*abi.FORK_KEY.unpack(key)): abi.COUNT.unpack(value)[0]
        for key, value in (table.items() if table else ())
    }


def read_last_errors(table: MapReader | None) -> dict[int, LastError]:
    """Process number -> the last error that it was given."""
    return {
        abi.NUMBER.unpack(key)[0]: LastError(*abi.LAST_ERROR.unpack(value))
        for key, value in (table.items() if table else ())
    }
