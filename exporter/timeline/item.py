"""What a trace viewer shows: tracks, and on them slices, instants and values of counters. Every format is written from these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

Argument = str | int | float | bool | tuple[str, ...]
Arguments = Mapping[str, Argument]
"""What a viewer shows when an item is selected, by names of docs/timeline.md."""


@dataclass(frozen=True, slots=True, eq=False)
class Track:
    """One row, or a group of rows. number: unique in a timeline, from 1. parent: the group that it is in.

    unit: of a counter, which holds Values; None for a track of slices and instants. order: among the tracks of its parent.
    is_process: a node or a workload, for formats that have processes and no groups.
    """

    number: int
    name: str
    parent: Track | None = None
    unit: str | None = None
    order: int = 0
    is_process: bool = False


class Slice(NamedTuple):
    """Something with a length. Slices of a track lie behind or within each other. flows: a viewer joins items of one."""

    track: Track
    category: str
    name: str
    began_unix_ns: int
    ended_unix_ns: int
    arguments: Arguments
    flows: tuple[int, ...] = ()


class Instant(NamedTuple):
    """Something at one moment. flows: as of a Slice."""

    track: Track
    category: str
    name: str
    at_unix_ns: int
    arguments: Arguments
    flows: tuple[int, ...] = ()


class Value(NamedTuple):
    """A counter has this value from this moment on."""

    track: Track
    at_unix_ns: int
    value: float


Item = Slice | Instant | Value
