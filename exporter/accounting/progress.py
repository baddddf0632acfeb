"""Progress of a process: steps, calls and lost time, as the chain engine reads it at every tick."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from exporter.causes import Cause
from exporter.kernel.abi import ThreadState
from exporter.units import NANOSECONDS

_WAITS_FOR_INPUT = (ThreadState.POLL, ThreadState.OTHER)
"""Outside of calls: a notebook waits for its user, an interpreter for its terminal, a server for a request."""

_WAITS_FOR_CPU = (ThreadState.RUNNABLE, ThreadState.THROTTLED)

_DOES = {
    ThreadState.ON_CPU: "computes",
    ThreadState.RECLAIM: "frees memory",
    ThreadState.RUNNABLE: "waits for a CPU",
    ThreadState.THROTTLED: "is throttled by the quota of its cgroup",
    ThreadState.IO: "waits for a disk",
    ThreadState.MEMORY: "waits for memory",
    ThreadState.FAULT: "waits for a page",
    ThreadState.LOCK: "waits for a lock",
    ThreadState.PIPE: "waits for a pipe or Unix socket",
    ThreadState.SOCKET: "waits for a socket",
    ThreadState.POLL: "waits for an event",
    ThreadState.SLEEP: "sleeps",
    ThreadState.CHILD: "waits for a child process",
    ThreadState.STOPPED: "is stopped by a signal",
    ThreadState.OUTPUT: "is blocked in writing its output",
}


class Standing(NamedTuple):
    """The thread that fed the GPU last, at this moment. operation: of its open call, "" outside of calls. for_ns: how long that
    call, or its time outside of calls, has lasted.
    """

    tid: int
    operation: str
    state: ThreadState
    for_ns: int

    @property
    def has_work(self) -> bool:
        """Whether it should make progress: it waits neither for something to do nor for a CPU, which is a cause of its own."""
        return self.state not in _WAITS_FOR_CPU and (bool(self.operation) or self.state not in _WAITS_FOR_INPUT)

    @property
    def sentence(self) -> str:
        """`thread 4711 has been in cudaStreamSynchronize for 11.8 s`, `thread 4711 sleeps outside of CUDA and NCCL calls`"""
        if self.operation:
            return f"thread {self.tid} has been in {self.operation} for {self.for_ns / NANOSECONDS:.1f} s"
        does = _DOES.get(self.state, "is in an unknown state")
        return f"thread {self.tid} {does} outside of CUDA and NCCL calls"


class WorkloadProgress(NamedTuple):
    """Totals since the process was first seen.

    lost_ns: by (cause, culprit). exposed_ns: the part that delayed synchronising calls. undecided_ns: lost as well, waiting for
    CPUs, with no culprit yet.
    steps: that were seen to end. steps_ns: their durations. step_began_ns: CLOCK_MONOTONIC when the open step began, 0
    while no rhythm is known. missed_beats: steps went unseen where this has grown. calls: that hit a probe, in whole dozens.
    stopped_ns: how long the thread that feeds the GPU has been stopped by a signal in its open call or gap; 0 when threads were
    not read. kernels: launched, in graphs or not. standing: None when threads were not read.
    typical_step_ns: the median of the last steps. pauses, pause_ns: steps that took many times as long, and the time beyond it.
    resized: how often steps began to make the same copies and collectives with other sizes.
    """

    lost_ns: Mapping[tuple[Cause, str], int]
    exposed_ns: int = 0
    undecided_ns: int = 0
    steps: int = 0
    steps_ns: int = 0
    step_began_ns: int = 0
    missed_beats: int = 0
    typical_step_ns: int = 0
    pauses: int = 0
    pause_ns: int = 0
    resized: int = 0
    calls: int = 0
    stopped_ns: int = 0
    kernels: int = 0
    standing: Standing | None = None


NO_PROGRESS = WorkloadProgress({})
"""Progress of an unknown process."""
