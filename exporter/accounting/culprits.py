"""What states, causes and culprits are called: closed sets, and a bounded one for the names of other programs.

In: numbers of bpf/abi.h, names that programs gave themselves. Out: values of labels.
"""

from __future__ import annotations

from collections.abc import Hashable

from exporter.causes import Cause
from exporter.kernel.abi import Culprit, ThreadState
from exporter.kernel.thread_rows import BlameKey
from exporter.text.printable import printable

STATE_LABEL = {state: state.name.lower() for state in ThreadState}
UNRESOLVED = "unresolved"
"""Beside the states: sleep of which nobody knows what the one who ended it did meanwhile."""

NOBODY = ""
"""Culprit of a cause that has none."""

OUTSIDE = "outside"
"""Whoever does not belong to the exporter's pid namespace: another pod, or the kernel itself."""

HYPERVISOR = "hypervisor"
"""Who runs this machine, where it is a virtual one: he gave its CPU to another machine meanwhile. Known as steal."""

OTHER = "other"
MAX_CULPRITS = 16  # names admitted for one workload
ADMISSION_NS = 10_000_000
_MAX_OWNERS = 1_000


CAUSE_OF_STATE = dict.fromkeys(ThreadState, Cause.OTHER) | {
    ThreadState.RECLAIM: Cause.MEMORY_RECLAIM,
    ThreadState.THROTTLED: Cause.CPU_QUOTA,
    ThreadState.IO: Cause.BLOCK_IO,
    ThreadState.MEMORY: Cause.MEMORY_RECLAIM,
    ThreadState.FAULT: Cause.MAJOR_FAULT,
    ThreadState.LOCK: Cause.LOCK,
    ThreadState.SOCKET: Cause.NETWORK,
    ThreadState.STOPPED: Cause.PAUSED,
}
"""Of a state that nothing more is known about. Waiting for a CPU is of the cause of whoever held it."""

CAUSE_OF_WAKER_STATE = {
    ThreadState.PIPE: Cause.DATALOADER,
    **{
        state: CAUSE_OF_STATE[state]
        for state in (
            ThreadState.RECLAIM,
            ThreadState.THROTTLED,
            ThreadState.IO,
            ThreadState.MEMORY,
            ThreadState.FAULT,
            ThreadState.SOCKET,
            ThreadState.STOPPED,
        )
    },
}
"""Of what a thread of the job did while a thread that feeds the GPU waited for it.

One that did anything else explains no more than who it is: a worker process is the data loader, and where a thread of the same
process computed or slept, the sleep that it ended keeps its own cause.
"""

CAUSE_OF_UNRESOLVED = CAUSE_OF_STATE | {ThreadState.PIPE: Cause.DATALOADER}
"""Of the sleep itself, where the waker explains nothing: what comes through a pipe comes from a worker."""

CAUSE_OF_CULPRIT = {
    Culprit.TASK: Cause.CPU_CONTENTION,
    Culprit.OWN: Cause.CPU_OVERSUBSCRIBED,
    Culprit.IDLE: Cause.WAKEUP_LATENCY,
    Culprit.IRQ: Cause.IRQ,
    Culprit.UNKNOWN: Cause.UNKNOWN,
    Culprit.OUTSIDE: Cause.CPU_CONTENTION,
    Culprit.HYPERVISOR: Cause.CPU_CONTENTION,
}


class Culprits:
    """Names of other programs as values of a label: at most MAX_CULPRITS for one owner, all others are `other`.

    A name is admitted when it first holds a CPU for ADMISSION_NS in one tick, so that the room is not taken by the dozen
    threads of the kernel that run for a moment. Once admitted it stays: no series ever stops in favour of another. Of many
    owners the one that has not asked for longest is forgotten.
    """

    def __init__(self) -> None:
        self._admitted: dict[Hashable, set[str]] = {}

    def label(self, owner: Hashable, name: str, charged_ns: int) -> str:
        """The name, or `other`. `outside` and `hypervisor` need no admission.

        owner: whose labels they are. charged_ns: to this name, since the last time.
        """
        if name in (OUTSIDE, HYPERVISOR):
            return name
        admitted = self._admitted[owner] = self._admitted.pop(owner, set())
        if len(self._admitted) > _MAX_OWNERS:
            del self._admitted[next(iter(self._admitted))]
        if name not in admitted and charged_ns >= ADMISSION_NS and len(admitted) < MAX_CULPRITS:
            admitted.add(name)
        return name if name in admitted else OTHER


def culprit_name(blamed: BlameKey) -> str:
    """Of the program that held the CPU; NOBODY where none did."""
    if blamed.culprit is Culprit.OUTSIDE:
        return OUTSIDE
    if blamed.culprit is Culprit.HYPERVISOR:
        return HYPERVISOR
    return program_name(blamed.comm) if blamed.culprit in (Culprit.TASK, Culprit.OWN) else NOBODY


def program_name(comm: bytes) -> str:
    """As a label: what cannot be printed becomes U+FFFD; `other` for a program that has taken its name away.

    The kernel has a thread of a kind for each CPU: `ksoftirqd/0` and `ksoftirqd/1` are both `ksoftirqd`.
    """
    text = comm.decode(errors="replace")
    text = text.partition("/")[0] or text
    return printable(text) or OTHER
