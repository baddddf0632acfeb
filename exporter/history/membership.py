"""Which place a process has in its communicators: by these the ranks of a job are brought together across nodes."""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple, Self

from exporter.history.collective_mark import signed, unsigned
from exporter.history.window import ProcessLabels
from exporter.text import untrusted

RANKS_MAX: Final = 1 << 20
_LABELS_BYTES_MAX: Final = 8 << 10


class Membership(NamedTuple):
    """A rank of a communicator, as of the end of the last window of its process.

    communicator: its hash. collectives: entered so far, the same number on all ranks that have entered the same ones.
    entered_unix_ns: when the last operation was entered; the creation of the communicator before the first one.
    """

    process: int
    communicator: int
    rank: int
    ranks: int
    collectives: int
    entered_unix_ns: int
    labels: ProcessLabels

    def to_row(self) -> tuple[Any, ...]:
        """Values in the order of the fields."""
        identity, tgid, comm = self.labels
        labels = json.dumps([list(identity.values()), tgid, comm], separators=(",", ":"))
        return (self.process, signed(self.communicator), *self[2:-1], labels)

    @classmethod
    def from_row(cls, process: Any, communicator: Any, rank: Any, ranks: Any, *rest: Any) -> Self:
        """Raises ValueError."""
        collectives, entered_unix_ns, labels = rest
        known_ranks = untrusted.count(ranks, RANKS_MAX)
        text = labels if isinstance(labels, str | bytes) else ""
        return cls(
            untrusted.count(process),
            unsigned(untrusted.integer(communicator)),
            untrusted.count(rank, max(known_ranks - 1, 0)),
            known_ranks,
            untrusted.count(collectives),
            untrusted.count(entered_unix_ns),
            ProcessLabels.from_document(untrusted.json_value(text, _LABELS_BYTES_MAX)),
        )


class RecordedMembership(NamedTuple):
    """run: id of the run that recorded it. seen_unix_ns: end of the last window in which the process had it."""

    run: int
    seen_unix_ns: int
    membership: Membership
