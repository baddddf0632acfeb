"""When this node's ranks entered collectives: by these marks `merge` compares the clocks of nodes that share a communicator."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, Self

from exporter.text import untrusted

MARKS_MAX: Final = 16
"""Communicators of one interval, those used last."""

_COMMUNICATOR_BITS: Final = 64


class CollectiveMark(NamedTuple):
    """communicator: its hash. number: of the collective on it, the same on all ranks."""

    communicator: int
    number: int
    at_unix_ns: int

    def to_row(self) -> tuple[int, int, int]:
        """Values in the order of the fields."""
        return signed(self.communicator), self.number, self.at_unix_ns

    @classmethod
    def from_row(cls, communicator: Any, number: Any, at_unix_ns: Any) -> Self:
        """Raises ValueError."""
        values = [untrusted.integer(one) for one in (communicator, number, at_unix_ns)]
        return cls(unsigned(values[0]), *values[1:])


def signed(communicator: int) -> int:
    """A hash as SQLite's integers hold it: they have a sign."""
    half = 1 << _COMMUNICATOR_BITS - 1
    return (communicator + half) % (2 * half) - half


def unsigned(communicator: int) -> int:
    """The inverse of signed()."""
    return communicator % (1 << _COMMUNICATOR_BITS)
