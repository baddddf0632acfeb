"""A causal chain: one incident of one workload, with its cause, effect, severity and culprits.

A Chain is frozen: the engine makes a new one of the same id when something changes.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import NamedTuple

from exporter.causes import Cause, largest_culprit


class Effect(enum.StrEnum):
    """What takes longer than its baseline."""

    LAUNCH = "launch"
    SYNC = "sync"
    MEMCPY = "memcpy"
    ALLOC = "alloc"
    GRAPH = "graph"
    COLLECTIVE = "collective"
    GAP = "gap"  # between two calls
    STEP = "step"  # the step as a whole
    EXIT = "exit"  # nothing: the process has ended


class Severity(enum.IntEnum):
    """By the share of time lost; the numbers are those of gpustall_chain_severity."""

    NONE = 0
    LOW = 1
    MEDIUM = 2
    HIGH = 3
    CRITICAL = 4


class ChainState(enum.StrEnum):
    OPEN = "open"
    RESOLVED = "resolved"


class End(enum.StrEnum):
    """Why a chain is resolved."""

    RECOVERED = "recovered"
    JOB_ENDED = "job_ended"
    CHANGED = "changed"  # it has lasted for a minute without a cause on the host: steps are like this now


def span_id(chain_id: str) -> str:
    """Id of the chain's span in its trace: 16 hexadecimal digits, not all of them 0, as in the chain's id."""
    first, second = chain_id[:16], chain_id[16:]
    return first if first.strip("0") else second


def blamed(peer: str, culprits: tuple[tuple[str, float], ...]) -> str:
    """Who is most to blame, as `rank 3` or `stress-ng`; "" if nothing is known. peer, culprits: as of Chain."""
    return f"rank {peer}" if peer else largest_culprit(culprits)


class Present(NamedTuple):
    """What holds now, as the mean of the last ten seconds, or since the onset. The fields are as those of Chain."""

    lost_share: float
    slowdown: float | None
    culprits: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class Chain:
    """One incident of one process.

    id: 32 hexadecimal digits, a trace id as well. Times are of CLOCK_MONOTONIC. began_ns: onset; opened_ns: detection.
    resolved_ns: 0 while the chain is open.
    severity, slowdown, lost_share, contribution, shares, culprits: of its worst ten seconds, or since the onset while it is
    younger. So they belong together: the severity is that of the lost share. now: None where it was always as now, and once it is
    resolved.
    slowdown: of a step against its baseline, 1.0 for twice as long; None without a rhythm of steps or while none ends.
    usual_step_ns: the baseline; 0 without a rhythm. lost_share: of the wall time, lost to this cause beyond the baseline.
    contribution: share of all that was lost with this cause. shares: the same of every cause, largest first; they add up to 1 at
    most. culprits: programs that the time of this cause is charged to, with their shares, largest first.
    lost_ns: since the onset. Growth of gpustall_lost_seconds_total under this cause; for one that no lost time is charged to, by
    how much longer steps took because of it.
    peer: the rank that is waited for now, "" without one. detail: more about the cause, in words: how a process ended, why a
    GPU's clocks are held down; "" without any.
    is_chronic: there was no better time since the process was first seen.
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
    now: Present | None = None

    @property
    def present(self) -> Present:
        """What holds now; of a resolved chain, its worst time."""
        return self.now or Present(self.lost_share, self.slowdown, self.culprits)

    @property
    def culprit(self) -> str:
        """Who is most to blame now, as of blamed()."""
        return blamed(self.peer, self.present.culprits)

    @property
    def state(self) -> ChainState:
        return ChainState.RESOLVED if self.resolved_ns else ChainState.OPEN

    def resolved(self, resolved_ns: int, end: End) -> Transition:
        updated_ns = max(resolved_ns, self.updated_ns)
        chain = replace(self, resolved_ns=resolved_ns, updated_ns=updated_ns, end=end, now=None)
        return Transition(Change.RESOLVED, chain)


class Change(enum.StrEnum):
    """A change of a chain."""

    OPENED = "opened"
    ESCALATED = "escalated"
    UPDATED = "updated"  # the chain goes on: what holds now
    RESOLVED = "resolved"
    EVIDENCE = "evidence"  # the chain is unchanged: where its threads are stuck
    CONFIRMED = "confirmed"  # by an experiment: without the culprit the job was as fast as its baseline
    REFUTED = "refuted"


class Transition(NamedTuple):
    """A chain after a change."""

    change: Change
    chain: Chain
