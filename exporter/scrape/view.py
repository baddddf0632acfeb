"""Frozen records for display, which rates makes of two scrapes and top renders.

Shares are parts of the wall time: 1 is all of it. An unknown figure is None, never 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from exporter.chains.chain import Severity
from exporter.model import Identity


class CauseLoss(NamedTuple):
    """Time lost to one cause. culprits: with their shares, the largest first; empty for a cause without culprits."""

    cause: str
    share: float
    culprits: tuple[tuple[str, float], ...] = ()


class Process(NamedTuple):
    """A process of a workload. pid: in the pid namespace of the exporter."""

    pid: str
    comm: str


class OpenChain(NamedTuple):
    """A causal chain, or several of one workload with the same cause and effect.

    lost_share, worst_lost_share: of the time, now and at the worst, the largest of them; None beyond the chains that are exported
    with their ids.
    """

    identity: Identity
    cause: str
    effect: str
    severity: Severity
    culprits: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    lost_share: float | None = None
    worst_lost_share: float | None = None


class OperationRates(NamedTuple):
    """Calls of one function. communicator: of NCCL, else "". busy_share: time in timed calls, summed over threads.

    quantiles_seconds: p50, p95, p99; None where no call was timed.
    """

    name: str
    communicator: str
    calls_per_second: float
    busy_share: float
    quantiles_seconds: tuple[float, float, float] | None
    errors_per_second: float = 0.0


class SlowLine(NamedTuple):
    """A line of Python whose calls of one operation were slow in the window, summed over processes.

    busy_share: time in these calls, summed over threads. slow_from_seconds: calls are slow that take longer.
    """

    operation: str
    line: str
    calls_per_second: float
    busy_share: float
    slow_from_seconds: float

    @property
    def mean_seconds(self) -> float:
        """The mean length of the slow calls."""
        return self.busy_share / self.calls_per_second if self.calls_per_second else 0.0


class FailedNode(NamedTuple):
    """A node of several without figures. failure: a word for programs. message: a phrase for people."""

    node: str
    failure: str
    message: str

    @property
    def line(self) -> str:
        return f"{self.node}: {self.failure.replace('_', ' ')}: {self.message}"


@dataclass(frozen=True, slots=True)
class Workload:
    """One identity. window_seconds: the time that the rates cover; None, like the rates, if unknown.

    steps: that ended in the window. step_seconds: their mean length, else the last known one (is_step_old).
    lost: the largest first, of the mean process; None without accounting in the exporter. late_seconds: mean time by which it
    enters a collective after the first rank. operations: the most time first.
    is_sampled: 1 in 64 kernel launches is timed, in at least one of its processes. slow_lines: the most time first.
    """

    identity: Identity
    processes: tuple[Process, ...]
    window_seconds: float | None
    step_seconds: float | None = None
    is_step_old: bool = False
    lost: tuple[CauseLoss, ...] | None = None
    late_seconds: float | None = None
    calls_per_second: float = 0.0
    operations: tuple[OperationRates, ...] = ()
    is_sampled: bool = False
    steps: int = 0
    slow_lines: tuple[SlowLine, ...] = ()

    @property
    def lost_share(self) -> float | None:
        """The sum of all causes."""
        return None if self.lost is None else sum(loss.share for loss in self.lost)


@dataclass(frozen=True, slots=True)
class View:
    """Everything to display. window_seconds: between the two scrapes; None: totals since the start.

    at_unix_seconds: by the exporter's clock. workloads: in the order of their labels. chains: the worst first.
    notes: reasons why figures are incomplete, a line each. failed_nodes: of several, those that are missing.
    """

    at_unix_seconds: float
    window_seconds: float | None
    workloads: tuple[Workload, ...]
    chains: tuple[OpenChain, ...]
    notes: tuple[str, ...] = ()
    failed_nodes: tuple[FailedNode, ...] = ()
