"""What one process did within ten seconds: a Window, which converts to a small JSON document and back.

Histograms keep their exact buckets, so that windows can be added up to any time span. Stacks of call sites stand elsewhere in the
file, once, and a document has their numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

from exporter.model import Identity
from exporter.python.call_site import OTHER_STACKS, STACK_NUMBER_MAX, CallSite, CallStack
from exporter.text import untrusted
from exporter.totals import Counts, HistogramTotal
from exporter.units import SLOTS

NO_STEPS = HistogramTotal(Counts(), 0)

_FIELDS_1: Final = 8  # of a document in a file of version 1
_FIELDS: Final = 9
NAMES_MAX: Final = 64
"""Culprits, causes, states, operations or call sites of one window."""


StackOf = Callable[[int], CallStack]
"""The stack with a number; OTHER_STACKS for one that the file does not have."""


def no_stacks(_number: int) -> CallStack:
    """StackOf of a file without stacks."""
    return OTHER_STACKS


class ProcessLabels(NamedTuple):
    """tgid: in the exporter's pid namespace, 0 if it is not in it. comm: name of its command, "" if not known."""

    identity: Identity
    tgid: int
    comm: str

    @classmethod
    def from_document(cls, document: Any) -> Self:
        """Raises ValueError."""
        values, tgid, comm = untrusted.sequence(document, length=len(cls._fields))
        return cls(_identity_of(values), untrusted.count(tgid), untrusted.text(comm))


class Switches(NamedTuple):
    """Context switches of a process's threads that make traced calls: into a sleep, and by preemption."""

    voluntary: int
    involuntary: int


NO_SWITCHES = Switches(0, 0)


class OperationTime(NamedTuple):
    """One operation of a process. calls, errors: all of them. timed: the calls that were timed. api: "nccl" for NCCL's."""

    api: str
    name: str
    calls: int
    errors: int
    timed: HistogramTotal


class CommunicatorWindow(NamedTuple):
    """The place of a process in a communicator. communicator: its hash. operations: entered so far.

    lag_ns: delay behind the node's first rank in this window, summed over its operations; None where no other
    rank of the communicator is on the node.
    """

    communicator: int
    rank: int
    ranks: int
    operations: int
    lag_ns: int | None


@dataclass(frozen=True, slots=True)
class Window:
    """process: its number in this run of the exporter. steps: count and durations of those that ended.

    culprits_ns: (cause, culprit, lost time), largest first. states_ns: time of threads that make traced calls, by state; between
    calls only of threads that launch or synchronise. operations: those that took most time and those that failed; one entry
    for all others. communicators and probe_cost_ns, what probes cost its threads, are not recorded in documents.
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
    call_sites: tuple[CallSite, ...] = ()
    communicators: tuple[CommunicatorWindow, ...] = ()
    probe_cost_ns: int | None = None

    @property
    def duration_ns(self) -> int:
        return self.ended_unix_ns - self.began_unix_ns

    def to_document(self) -> list[Any]:
        """A small JSON value: the fields as a list, without the times, which the windows of an interval share."""
        return [
            self.process,
            [list(self.labels.identity.values()), self.labels.tgid, self.labels.comm],
            _histogram(self.steps),
            dict(self.lost_ns),
            [list(culprit) for culprit in self.culprits_ns],
            dict(self.states_ns),
            list(self.switches),
            [[one.api, one.name, one.calls, one.errors, _histogram(one.timed)] for one in self.operations],
            [one.to_document(one.stack.number if one.stack.frames else 0) for one in self.call_sites],
        ]

    @classmethod
    def from_document(
        cls,
        document: Any,
        began_unix_ns: int,
        ended_unix_ns: int,
        stack_of: StackOf = no_stacks,
        names_max: int = NAMES_MAX,
    ) -> Self:
        """The inverse of to_document(): text is printable and bounded. Raises ValueError for other documents.

        names_max: of culprits, causes, states, operations or call sites each.
        """
        fields = untrusted.sequence(document, _FIELDS)
        if len(fields) == _FIELDS_1:
            fields = (*fields, ())
        process, labels, steps, lost_ns, culprits_ns, states_ns, switches, operations, call_sites = untrusted.sequence(
            fields, length=_FIELDS
        )
        stack = _numbered(stack_of)
        return cls(
            untrusted.count(process),
            ProcessLabels.from_document(labels),
            began_unix_ns,
            ended_unix_ns,
            _histogram_of(steps),
            _named_ns(lost_ns, names_max),
            tuple(map(_culprit_of, untrusted.sequence(culprits_ns, names_max))),
            _named_ns(states_ns, names_max),
            Switches(*map(untrusted.count, untrusted.sequence(switches, length=len(Switches._fields)))),
            tuple(map(_operation_of, untrusted.sequence(operations, names_max))),
            tuple(CallSite.from_document(one, stack) for one in untrusted.sequence(call_sites, names_max)),
        )


def _identity_of(values: Any) -> Identity:
    return Identity(*map(untrusted.text, untrusted.sequence(values, length=len(Identity.__slots__))))


def _named_ns(document: Any, names_max: int) -> dict[str, int]:
    """Name of a cause or state -> nanoseconds."""
    return {untrusted.text(name): untrusted.integer(ns) for name, ns in untrusted.mapping(document, names_max).items()}


def _culprit_of(document: Any) -> tuple[str, str, int]:
    cause, culprit, ns = untrusted.sequence(document, length=3)
    return untrusted.text(cause), untrusted.text(culprit), untrusted.integer(ns)


def _operation_of(document: Any) -> OperationTime:
    api, name, calls, errors, timed = untrusted.sequence(document, length=len(OperationTime._fields))
    return OperationTime(
        untrusted.text(api),
        untrusted.text(name),
        untrusted.integer(calls),
        untrusted.integer(errors),
        _histogram_of(timed),
    )


def _numbered(stack_of: StackOf) -> Callable[[Any], CallStack]:
    """The stack of a document's number, 0 for other stacks."""

    def stack(document: Any) -> CallStack:
        number = untrusted.count(document, STACK_NUMBER_MAX)
        return stack_of(number) if number else OTHER_STACKS

    return stack


def _histogram(total: HistogramTotal) -> list[Any]:
    """Sum, number of the first bucket, counts: `[1234, 161, [3, 0, 1]]`."""
    return [total.sum_ns, total.counts.begin, list(total.counts.held)]


def _histogram_of(document: Any) -> HistogramTotal:
    sum_ns, begin, held = untrusted.sequence(document, length=3)
    counts = untrusted.counts(held, SLOTS)
    return HistogramTotal(Counts(untrusted.count(begin, SLOTS - len(counts)), counts), untrusted.integer(sum_ns))
