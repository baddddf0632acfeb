"""Forks, last errors and ends of processes. Partners in C: bpf/sched.bpf.c, bpf/lib/operation.bpf.h, bpf/process.bpf.c.

In: MapReaders, None for a map whose programs are not loaded. Out: rows by key.
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
    """Key of `exits`. process: number of the traced process. is_worker: a process that worked for it has ended, not itself.

    status: as wait(2) returns it. is_victim: the kernel killed it for lack of memory.
    """

    process: int
    status: int
    is_worker: int
    is_victim: int

    @property
    def signal(self) -> int:
        """Signal that killed it; 0 if it exited."""
        return os.WTERMSIG(self.status) if os.WIFSIGNALED(self.status) else 0

    @property
    def code(self) -> int:
        """Exit code; 0 if a signal killed it."""
        return os.WEXITSTATUS(self.status) if os.WIFEXITED(self.status) else 0


class ExitRow(NamedTuple):
    """Value of `exits`. at_ns: of the last one, CLOCK_MONOTONIC."""

    exits: int
    at_ns: int


class ForkKey(NamedTuple):
    """Key of `forks`, whose value is a count. is_thread: a thread was created, not a process."""

    process: int
    is_thread: int


def read_exits(table: MapReader | None) -> dict[ExitKey, ExitRow]:
    """Ends of processes that the kernel has not evicted."""
    return {
        ExitKey(*abi.EXIT_KEY.unpack(key)): ExitRow(*abi.EXIT_ROW.unpack(value))
        for key, value in (table.items() if table else ())
    }


def read_forks(table: MapReader | None) -> dict[ForkKey, int]:
    """How many threads and processes the traced ones have created."""
    return {
        ForkKey(*abi.FORK_KEY.unpack(key)): abi.COUNT.unpack(value)[0]
        for key, value in (table.items() if table else ())
    }


def read_last_errors(table: MapReader | None) -> dict[int, LastError]:
    """Process number -> the last error that CUDA or NCCL returned to it."""
    return {
        abi.NUMBER.unpack(key)[0]: LastError(*abi.LAST_ERROR.unpack(value))
        for key, value in (table.items() if table else ())
    }
