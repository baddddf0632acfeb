"""What differs between two time spans: two Explanations in, differences of each workload out, those with most lost time first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from exporter.explain.explanation import Explanation
from exporter.explain.sums import RATIO_MIN, ProcessSum, mean_ns
from exporter.history.window import ProcessLabels

SHARE_MIN: Final = 0.005
"""Share of the time: a smaller change of what is lost to a cause is not listed."""

CALL_SHARE_MIN: Final = 0.01
"""Share of the time of a process: calls that take less in both spans are not listed."""


class Difference(NamedTuple):
    """A figure in the earlier span and in the later one; None where there is none. ratio: later to earlier, None without both."""

    earlier: float | None
    later: float | None

    @property
    def ratio(self) -> float | None:
        return self.later / self.earlier if self.earlier and self.later is not None else None

    @property
    def is_notable(self) -> bool:
        """Whether it is so much longer or shorter that it is listed."""
        return self.ratio is not None and not 1 / RATIO_MIN < self.ratio < RATIO_MIN


class NamedChange(NamedTuple):
    """name: of a cause, or of an operation. culprit: with most of the growth of a cause, "" if there is none."""

    name: str
    change: Difference
    culprit: str = ""


@dataclass(frozen=True, slots=True)
class WorkloadChange:
    """labels: of the later span. is_in_earlier, is_in_later: whether it did anything there.

    lost_ratio: lost time, of the time. step_ns, operations: mean lengths; only operations of which they differ. causes: shares
    of the time, those that differ, the largest change first.
    """

    labels: ProcessLabels
    is_in_earlier: bool
    is_in_later: bool
    step_ns: Difference
    lost_ratio: Difference
    causes: tuple[NamedChange, ...]
    operations: tuple[NamedChange, ...]

    @property
    def is_notable(self) -> bool:
        return (
            not (self.is_in_earlier and self.is_in_later)
            or self.step_ns.is_notable
            or bool(self.causes)
            or bool(self.operations)
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """earlier, later: spans of the same length."""

    earlier: Explanation
    later: Explanation
    workloads: tuple[WorkloadChange, ...]


def compared(earlier: Explanation, later: Explanation) -> Comparison:
    """Both with operations. A workload is the same if its labels are; where several have the same, also the process id."""
    before, now = _by_workload(earlier), _by_workload(later)
    changes = [_workload_change(before.get(key), now.get(key)) for key in dict.fromkeys((*now, *before))]
    return Comparison(earlier, later, tuple(sorted(changes, key=_size, reverse=True)))


def _by_workload(explanation: Explanation) -> dict[object, ProcessSum]:
    """The one with most time, where a workload had several processes in turn."""
    found: dict[object, ProcessSum] = {}
    for one in explanation.processes:
        key = one.labels.identity if one.labels.identity.rank else (one.labels.identity, one.labels.tgid)
        known = found.get(key)
        if known is None or one.covered_ns > known.covered_ns:
            found[key] = one
    return found


def _workload_change(before: ProcessSum | None, now: ProcessSum | None) -> WorkloadChange:
    one = now or before
    assert one is not None  # noqa: S101 - the key is of one of them
    return WorkloadChange(
        one.labels,
        before is not None,
        now is not None,
        Difference(before.step_ns if before else None, now.step_ns if now else None),
        Difference(before.lost_share if before else None, now.lost_share if now else None),
        tuple(_causes(before, now)) if before and now else (),
        tuple(_operations(before, now)) if before and now else (),
    )


def _causes(before: ProcessSum, now: ProcessSum) -> Iterator[NamedChange]:
    """A cause that is missing in a span took nothing there."""
    found = []
    for cause in dict.fromkeys((*now.lost_ns, *before.lost_ns)):
        change = Difference(*(one.lost_ns[cause] / max(one.covered_ns, 1) for one in (before, now)))
        if abs((change.later or 0.0) - (change.earlier or 0.0)) >= SHARE_MIN:
            found.append(NamedChange(cause, change, _culprit(cause, before, now)))
    yield from sorted(found, key=lambda one: -abs((one.change.later or 0.0) - (one.change.earlier or 0.0)))


def _culprit(cause: str, before: ProcessSum, now: ProcessSum) -> str:
    """Who is charged with most of the growth."""
    grown = {
        name: ns / max(now.covered_ns, 1) - before.culprits_ns[cause, name] / max(before.covered_ns, 1)
        for (of, name), ns in now.culprits_ns.items()
        if of == cause and name
    }
    name = max(grown, key=lambda one: grown[one], default="")
    return name if name and grown[name] >= SHARE_MIN else ""


def _operations(before: ProcessSum, now: ProcessSum) -> Iterator[NamedChange]:
    """Those whose calls take another time, and take a part of the process's; the largest change first."""
    found = []
    for key in now.operations.keys() & before.operations.keys():
        spent = [one.operations[key].timed.sum_ns / max(one.covered_ns, 1) for one in (before, now)]
        change = Difference(*(mean_ns(one.operations[key].timed) for one in (before, now)))
        if change.is_notable and max(spent) >= CALL_SHARE_MIN:
            found.append((abs(spent[1] - spent[0]), NamedChange(key[1], change)))
    yield from (named for _, named in sorted(found, key=lambda one: (-one[0], one[1].name)))


def _size(change: WorkloadChange) -> tuple[bool, float]:
    """Notable ones first, by how much more they lose."""
    return change.is_notable, abs((change.lost_ratio.later or 0.0) - (change.lost_ratio.earlier or 0.0))
