"""Label values of states and culprits: closed sets, and the names of other programs.

In: numbers of the kernel's rows, names that programs gave themselves. Out: label values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from exporter.causes import Cause
from exporter.kernel.abi import Culprit, ThreadState
from exporter.kernel.thread_rows import BlameKey
from exporter.text.printable import printable
from exporter.text.reserved import NameOf, marked_word

STATE_LABEL = {state: state.name.lower() for state in ThreadState}
UNRESOLVED = "unresolved"
"""A value beside the states: sleep for which it is unknown what the waker was doing."""

NO_CULPRIT = ""
"""Culprit of a cause that has none."""

OUTSIDE = "outside"
"""A culprit outside of the exporter's pid namespace: another pod, or the kernel itself."""

HYPERVISOR = "hypervisor"
"""The hypervisor gave the CPU to another virtual machine: steal."""

EXPORTER = "gpu-stall-exporter"
"""This program. No other has this name: it is longer than a name that a process can give itself."""

OTHER = "other"

NameOfGroup = Callable[[int], str]
"""Id of a cgroup -> the systemd unit, pod or container, "" if unknown."""


def no_names(_cgroup_id: int) -> str:
    """Where cgroups cannot be looked up, as in a replay."""
    return ""


class GroupNames(NamedTuple):
    """Names of cgroups in the hierarchies of two controllers, which on version 2 are one."""

    cpu: NameOfGroup = no_names
    io: NameOfGroup = no_names


NO_GROUP_NAMES = GroupNames()


CAUSE_OF_STATE = dict.fromkeys(ThreadState, Cause.OTHER) | {
    ThreadState.RECLAIM: Cause.MEMORY_RECLAIM,
    ThreadState.THROTTLED: Cause.CPU_QUOTA,
    ThreadState.IO: Cause.BLOCK_IO,
    ThreadState.MEMORY: Cause.MEMORY_RECLAIM,
    ThreadState.FAULT: Cause.MAJOR_FAULT,
    ThreadState.LOCK: Cause.LOCK,
    ThreadState.SOCKET: Cause.NETWORK,
    ThreadState.STOPPED: Cause.PAUSED,
    ThreadState.OUTPUT: Cause.BLOCKED_OUTPUT,
    ThreadState.PIPE: Cause.OWN_WAIT,
    ThreadState.POLL: Cause.OWN_WAIT,
    ThreadState.SLEEP: Cause.OWN_WAIT,
    ThreadState.CHILD: Cause.OWN_WAIT,
}
"""State -> cause, where nothing more is known. A wait for a CPU has the cause of the culprit that held it.

What comes through a pipe comes from a program that the job waits for of its own accord, unless a worker of the job wrote it.
"""

CAUSE_OF_WAKER_STATE = {
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
}
"""State of a waker -> cause, where a thread that feeds the GPU slept until the waker was done.

In other states only the kind of waker counts: a worker process is the data loader, and where a thread of the same process or the
holder of a file's lock computed or slept, the sleep that it ended keeps its own cause.
"""

CAUSE_OF_CULPRIT = {
    Culprit.TASK: Cause.CPU_CONTENTION,
    Culprit.OWN: Cause.CPU_OVERSUBSCRIBED,
    Culprit.IDLE: Cause.WAKEUP_LATENCY,
    Culprit.IRQ: Cause.IRQ,
    Culprit.UNKNOWN: Cause.UNKNOWN,
    Culprit.OUTSIDE: Cause.CPU_CONTENTION,
    Culprit.HYPERVISOR: Cause.CPU_CONTENTION,
    Culprit.EXPORTER: Cause.EXPORTER,
}


def culprit_name(blamed: BlameKey) -> str:
    """Name of the program that held the CPU; "" where none did."""
    if blamed.culprit is Culprit.OUTSIDE:
        return OUTSIDE
    if blamed.culprit is Culprit.HYPERVISOR:
        return HYPERVISOR
    if blamed.culprit is Culprit.EXPORTER:
        return EXPORTER
    return program_name(blamed.comm) if blamed.culprit in (Culprit.TASK, Culprit.OWN) else NO_CULPRIT


def program_name(comm: bytes) -> str:
    """The label value of a name: unprintable characters become U+FFFD; `other` for a program with an empty name.

    The kernel has one thread of a kind per CPU: `ksoftirqd/0` and `ksoftirqd/1` are both `ksoftirqd`. A program that calls itself
    `hypervisor`, or by the name of a unit, a container or a pod, is `hypervisor (program)`.
    """
    text = comm.decode(errors="replace")
    text = text.partition("/")[0] or text
    return marked_word(printable(text), NameOf.PROGRAM) if text else OTHER
