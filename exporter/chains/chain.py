"""What is a causal chain? One episode in which a job is slower than it was: who, since when, how bad, why, and through whom.

A Chain is frozen: the engine makes a new one of the same id when there is more to say.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import NamedTuple

from exporter.causes import Cause


class Effect(enum.StrEnum):
    """What takes longer than it did."""

    LAUNCH = "launch"
    SYNC = "sync"
    MEMCPY = "memcpy"
    ALLOC = "alloc"
    GRAPH = "graph"
    COLLECTIVE = "collective"
    GAP = "gap"  # between two calls
    EXIT = "exit"  # nothing does: the process has ended


class Severity(enum.IntEnum):
    """By the part of the time that is lost; the numbers are those of gpustall_chain_severity."""

    NONE = 0
    LOW = 1
    MEDIUM = 2
    HIGH = 3
    CRITICAL = 4


class ChainState(enum.StrEnum):
    """Of an episode."""

    OPEN = "open"
    RESOLVED = "resolved"


class End(enum.StrEnum):
    """Why a chain is resolved."""

    RECOVERED = "recovered"
    JOB_ENDED = "job_ended"
    NEW_NORMAL = "new_normal"  # it has been so for long, and is no fault of the host


def span_id(chain_id: str) -> str:
    """Of the one span of the trace that a chain's id names: 16 hexadecimal digits, not all of them 0, since the id's are not."""
    first, second = chain_id[:16], chain_id[16:]
    return first if first.strip("0") else second


@dataclass(frozen=True, slots=True)
class Chain:
    """One episode of one process.

    id: 32 hexadecimal digits, a trace id as well. Times are of CLOCK_MONOTONIC. began_ns: since when it is slower; opened_ns:
    when that was certain. resolved_ns: 0 while it is open.
    slowdown: by which part a step takes longer than usual, 1.0 for twice as long; None without a rhythm of steps or while none
    ends. usual_step_ns: 0 without a rhythm. lost_share: of the wall time since it began, what was lost beyond the usual.
    contribution: the part of that which has this cause. shares: the same of every cause, largest first. culprits: the programs
    that the time of this cause is charged to, with their parts of it, largest first. lost_ns: what gpustall_lost_seconds_total
    has grown by under this cause since it began; 0 of a cause that is not among its own.
    peer: the rank that is waited for, "" where there is none. detail: what else is known of the cause, in words: how a process
    ended, by what a GPU is held down; "" where there is no more to say.
    is_chronic: it has been so for as long as it is known.
    """

    id: str
    process: int
    cause: Cause
    effect: Effect
    severity: Severity
    began_ns: int
    opened_ns: int
    updated_ns: int
    slowdown: float | None
    usual_step_ns: int
    lost_share: float
    contribution: float
    shares: tuple[tuple[str, float], ...] = ()
    culprits: tuple[tuple[str, float], ...] = ()
    peer: str = ""
    detail: str = ""
    is_chronic: bool = False
    lost_ns: int = 0
    resolved_ns: int = 0
    end: End | None = None

    @property
    def state(self) -> ChainState:
        """Open until it is resolved."""
        return ChainState.RESOLVED if self.resolved_ns else ChainState.OPEN

    def resolved(self, resolved_ns: int, end: End) -> Transition:
        """It is over."""
        chain = replace(self, resolved_ns=resolved_ns, updated_ns=max(resolved_ns, self.updated_ns), end=end)
        return Transition(Change.RESOLVED, chain)


class Change(enum.StrEnum):
    """What happened to a chain."""

    OPENED = "opened"
    ESCALATED = "escalated"
    RESOLVED = "resolved"
    EVIDENCE = "evidence"  # nothing new of the chain itself, but where its threads are stuck
    CONFIRMED = "confirmed"  # by an intervention: without the culprit the job was as fast as usual
    REFUTED = "refuted"


class Transition(NamedTuple):
    """A chain, and what has just happened to it."""

    change: Change
    chain: Chain
