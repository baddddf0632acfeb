"""Starts, forks and exits of the processes of a job.

In: a Reading of the tables that bpf/process.bpf.c and bpf/sched.bpf.c fill. Out: Totals of each traced process. Cost: a look-up
for each fork of a watched thread and each end of any process; bpf/README.md.
"""

from __future__ import annotations

import signal

from exporter import catalog
from exporter.kernel.end_rows import ExitKey
from exporter.kernel.readings import Reading
from exporter.totals import Series, Totals, add

MEMBERS = ("traced", "worker")
"""A process that calls CUDA or NCCL, and one that such a process has forked."""


def collect(reading: Reading) -> Totals:
    totals: Totals = {process: {Series(catalog.process.STARTS, ()): 1} for process in reading.processes}
    for fork, count in reading.forks.items():
        if fork.process in totals:
            add(totals, fork.process, catalog.process.FORKS, ("thread" if fork.is_thread else "process",), count)
    for key, row in reading.exits.items():
        if key.process in totals:
            labels = (MEMBERS[key.is_worker], outcome(key), code_label(key))
            add(totals, key.process, catalog.process.EXITS, labels, row.exits)
    return totals


def outcome(key: ExitKey) -> str:
    """`ok` with exit code 0, `error` with another, `signal`, or `oom_killed`."""
    if key.is_victim:
        return "oom_killed"
    return "signal" if key.signal else "error" if key.code else "ok"


def code_label(key: ExitKey) -> str:
    """`SIGSEGV`, or the exit code."""
    return signal_name(key.signal) if key.signal else str(key.code)


def signal_name(number: int) -> str:
    """`SIGSEGV`; `SIG34` for one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"
