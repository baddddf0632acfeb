"""What did one process do within ten seconds? A Window, which becomes a small document of JSON and comes back from one.

Its histograms are kept as they are counted, so that windows can be added up to any span without loss.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from exporter.model import Identity
from exporter.totals import Counts, HistogramTotal

NO_STEPS = HistogramTotal(Counts(), 0)


class ProcessLabels(NamedTuple):
    """Who a process is. tgid: as the exporter sees it, 0 out of sight. comm: name of its command, "" if not known."""

    identity: Identity
    tgid: int
    comm: str


class Switches(NamedTuple):
    """Of a process's threads that make traced calls: from the CPU into a sleep, and taken off it."""

    voluntary: int
    involuntary: int


NO_SWITCHES = Switches(0, 0)


class OperationTime(NamedTuple):
    """One operation of a process. timed: those calls that were; errors of all of them. api: "nccl" for NCCL's."""

    api: str
    name: str
    calls: int
    errors: int
    timed: HistogramTotal


@dataclass(frozen=True, slots=True)
class Window:
    """process: its number in this run of the exporter. culprits: by (cause, culprit), largest first.

    steps: how many ended, and how long they took. states_ns: of its threads that make traced calls, without those that neither
    launch nor synchronise between their calls. operations: those that took most time, and those that failed; all others are one.
    """

    process: int
    labels: ProcessLabels
    began_unix_ns: int
    ended_unix_ns: int
    steps: HistogramTotal
    lost_ns: Mapping[str, int]
    culprits_ns: tuple[tuple[str, str, int], ...]
    states_ns: Mapping[str, int]
    switches: Switches
    operations: tuple[OperationTime, ...]

    @property
    def duration_ns(self) -> int:
        """Its length."""
        return self.ended_unix_ns - self.began_unix_ns

    def to_document(self) -> list[Any]:
        """What JSON can hold, small: a list in the order of the fields, without the times, which all windows of a cut share."""
        return [
            self.process,
            [list(self.labels.identity.values()), self.labels.tgid, self.labels.comm],
            _histogram(self.steps),
            dict(self.lost_ns),
            [list(culprit) for culprit in self.culprits_ns],
            dict(self.states_ns),
            list(self.switches),
            [[one.api, one.name, one.calls, one.errors, _histogram(one.timed)] for one in self.operations],
        ]

    @classmethod
    def from_document(cls, document: Any, began_unix_ns: int, ended_unix_ns: int) -> Self:
        """The Window that became this document. Raises TypeError or ValueError if none did."""
        process, (values, tgid, comm), steps, lost_ns, culprits_ns, states_ns, switches, operations = document
        return cls(
            process,
            ProcessLabels(Identity(*values), tgid, comm),
            began_unix_ns,
            ended_unix_ns,
            _histogram_of(steps),
            lost_ns,
            tuple((cause, culprit, ns) for cause, culprit, ns in culprits_ns),
            states_ns,
            Switches(*switches),
            tuple(
                OperationTime(api, name, calls, errors, _histogram_of(timed))
                for api, name, calls, errors, timed in operations
            ),
        )


def _histogram(total: HistogramTotal) -> list[Any]:
    """Sum, slot of the first count, counts: `[1234, 161, [3, 0, 1]]`."""
    return [total.sum_ns, total.counts.begin, list(total.counts.held)]


def _histogram_of(document: Any) -> HistogramTotal:
    sum_ns, begin, held = document
    return HistogramTotal(Counts(begin, tuple(held)), sum_ns)
