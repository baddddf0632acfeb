"""The frozen records that travel from collectors to outputs. Seconds and bytes from here on; no nanoseconds.

A Snapshot is all that an output needs: families in catalogue order, each with its points.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from exporter.catalog import Metric

MAX_LABEL_CHARACTERS = 128


def label_value(text: str) -> str:
    """`text` cut to a label's length; control characters, newlines and lone surrogates become U+FFFD."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text[:MAX_LABEL_CHARACTERS])


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
        for field in fields(self):
            object.__setattr__(self, field.name, label_value(getattr(self, field.name)))

    def values(self) -> tuple[str, str, str, str, str]:
        """In the order of catalog.COMMON_LABELS."""
        return (self.node, self.rank, self.container, self.namespace, self.pod)


@dataclass(frozen=True, slots=True)
class Histogram:
    """An exponential histogram. counts: one per slot of units.SLOTS; `_count` is their sum."""

    counts: tuple[int, ...]
    sum_seconds: float


@dataclass(frozen=True, slots=True)
class Point:
    """One series of a family. labels: values of the metric's own labels, in its order."""

    identity: Identity
    labels: tuple[str, ...]
    value: int | float | Histogram


@dataclass(frozen=True, slots=True)
class Family:
    """All series of one metric."""

    metric: Metric
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What was known at one moment. taken_at: CLOCK_MONOTONIC seconds."""

    taken_at: float
    families: tuple[Family, ...]
