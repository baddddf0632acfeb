"""Frozen records for the outputs. Values are in seconds and bytes; only timestamps are in nanoseconds.

A Snapshot is all that an output needs: families in catalogue order, each with its points.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from exporter.catalog import Metric
from exporter.clock import Moment
from exporter.text import untrusted
from exporter.text.printable import printable
from exporter.totals import Counts

MAX_LABEL_CHARACTERS = 128

T = TypeVar("T")


def label_value(text: str) -> str:
    """`text` cut to the length of a label, printable."""
    return printable(text[:MAX_LABEL_CHARACTERS])


@dataclass(frozen=True, slots=True)
class Identity:
    """The five labels of every workload series; "" for unknown, never guessed.

    Values are made printable, can be encoded as UTF-8 and have at most MAX_LABEL_CHARACTERS characters.
    """

    node: str = ""
    rank: str = ""
    container: str = ""
    namespace: str = ""
    pod: str = ""

    def __post_init__(self) -> None:
        for one in fields(self):
            object.__setattr__(self, one.name, label_value(getattr(self, one.name)))

    @classmethod
    def from_document(cls, document: Any) -> Identity | None:
        """The identity whose fields became this document; None for null. Raises ValueError."""
        if document is None:
            return None
        known = untrusted.mapping(document)
        return cls(*(untrusted.text(untrusted.member(known, one.name), MAX_LABEL_CHARACTERS) for one in fields(cls)))

    @property
    def tenant(self) -> str:
        """Whose it is: its namespace; the user, where the container's name is marked with one; else the container, such as a job
        of Slurm; "" if not known.
        """
        _, mark, user = self.container.rpartition(" (uid ")
        return self.namespace or (f"{mark}{user}" if mark else self.container)

    def values(self) -> tuple[str, str, str, str, str]:
        """In the order of catalog.COMMON_LABELS."""
        return (self.node, self.rank, self.container, self.namespace, self.pod)


@dataclass(frozen=True, slots=True)
class Exemplar:
    """One call of a histogram, or one chain of a counter. labels: which one. at_unix_ns: its end."""

    labels: tuple[tuple[str, str], ...]
    seconds: float
    at_unix_ns: int


@dataclass(frozen=True, slots=True)
class Histogram:
    """An exponential histogram. `_count` is the sum of its counts."""

    counts: Counts
    sum_seconds: float
    exemplar: Exemplar | None = None


@dataclass(frozen=True, slots=True)
class Point:
    """One series of a family. identity: None for the exporter itself. labels: values of the metric's own labels, in its order."""

    identity: Identity | None
    labels: tuple[str, ...]
    value: int | float | Histogram


@dataclass(frozen=True, slots=True)
class Family:
    """All series of one metric. exemplars: of counters, by identity and labels; a histogram has its own."""

    metric: Metric
    points: tuple[Point, ...]
    exemplars: Mapping[tuple[Identity | None, tuple[str, ...]], Exemplar] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All series at one moment. started_unix_ns: when the counters and histograms of an identity started at 0."""

    taken_at: Moment
    families: tuple[Family, ...]
    started_unix_ns: Mapping[Identity | None, int] = field(default_factory=dict)


def fairly(worst_first: Iterable[T], owner: Callable[[T], Hashable]) -> list[T]:
    """So that one owner of many cannot take every place: the first of each owner, then the second of each, and so on.

    Those with the same place stay in the order given.
    """
    seen: Counter[Hashable] = Counter()
    placed: list[tuple[int, T]] = []
    for one in worst_first:
        placed.append((seen[owner(one)], one))
        seen[owner(one)] += 1
    return [one for _, one in sorted(placed, key=lambda pair: pair[0])]
