"""The frozen records that travel from collectors to outputs. Seconds and bytes from here on; no nanoseconds.

A Snapshot is all that an output needs: families in catalogue order, each with its points.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from exporter.catalog import Metric
from exporter.clock import Moment
from exporter.text.printable import printable
from exporter.totals import Counts

MAX_LABEL_CHARACTERS = 128


def label_value(text: str) -> str:
    """`text` cut to the length of a label, printable."""
    return printable(text[:MAX_LABEL_CHARACTERS])


@dataclass(frozen=True, slots=True)
class Identity:
    """The five labels that every workload series carries, always all of them; "" for unknown, never guessed.

    Whatever is passed in, the values are printable, encode as UTF-8 and have at most MAX_LABEL_CHARACTERS characters.
    """

    node: str = ""
    rank: str = ""
    container: str = ""
    namespace: str = ""
    pod: str = ""

    def __post_init__(self) -> None:
        for one in fields(self):
            object.__setattr__(self, one.name, label_value(getattr(self, one.name)))

    def values(self) -> tuple[str, str, str, str, str]:
        """In the order of catalog.COMMON_LABELS."""
        return (self.node, self.rank, self.container, self.namespace, self.pod)


@dataclass(frozen=True, slots=True)
class Exemplar:
    """One of those that a series counted: a call of a histogram, an episode of a counter. labels: which. at_unix_ns: its end."""

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
    """All series of one metric. exemplars: of a counter's, by identity and labels; a histogram holds its own."""

    metric: Metric
    points: tuple[Point, ...]
    exemplars: Mapping[tuple[Identity | None, tuple[str, ...]], Exemplar] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What was known at one moment. started_unix_ns: since when the counters and histograms of an identity count."""

    taken_at: Moment
    families: tuple[Family, ...]
    started_unix_ns: Mapping[Identity | None, int] = field(default_factory=dict)
