"""What is stored: a window of a process, an event of a chain, and a whole chain. Rows of the tables in schema.py.

Fields are in the order of the columns. Times are nanoseconds since 1970 by the clock of the node, lengths are seconds, and texts
are printable and bounded. Lists that belong together, such as `lost_causes` and `lost_seconds`, have equal lengths.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class WindowRow(NamedTuple):
    """What a process did in a window. run, process, began_unix_ns: its id, which no other window has.

    job: hash of the communicator with most ranks, the first of equals; RUN-PROCESS without one.
    bucket_first: number of the first slot of units.py that bucket_counts has. communicator_lags: None for one that is not known.
    call_timed: calls whose time call_seconds has. overhead_seconds: None if not known.
    """

    run: str
    process: int
    began_unix_ns: int
    ended_unix_ns: int
    node: str
    rank: str
    container: str
    namespace: str
    pod: str
    pid: int
    command: str
    job: str
    duration_seconds: float
    steps: int
    step_seconds: float
    bucket_first: int
    bucket_counts: tuple[int, ...]
    lost_causes: tuple[str, ...]
    lost_seconds: tuple[float, ...]
    culprit_causes: tuple[str, ...]
    culprit_names: tuple[str, ...]
    culprit_seconds: tuple[float, ...]
    states: tuple[str, ...]
    state_seconds: tuple[float, ...]
    communicator_hashes: tuple[str, ...]
    communicator_ranks: tuple[int, ...]
    communicator_sizes: tuple[int, ...]
    communicator_operations: tuple[int, ...]
    communicator_lags: tuple[float | None, ...]
    call_apis: tuple[str, ...]
    call_operations: tuple[str, ...]
    call_counts: tuple[int, ...]
    call_errors: tuple[int, ...]
    call_timed: tuple[int, ...]
    call_seconds: tuple[float, ...]
    overhead_seconds: float | None


class ChainEventRow(NamedTuple):
    """A change of a chain. at_unix_ns: when it happened; observed_unix_ns: when it was detected. sentence: for people."""

    chain_id: str
    change: str
    at_unix_ns: int
    observed_unix_ns: int
    node: str
    rank: str
    container: str
    namespace: str
    pod: str
    pid: int
    cause: str
    effect: str
    severity: str
    culprit: str
    peer: str
    detail: str
    end_reason: str
    lost_share: float
    lost_seconds: float
    contribution: float
    duration_seconds: float
    remedy: str
    commands: tuple[str, ...]
    sentence: str


class ChainSpanRow(NamedTuple):
    """A chain from its begin to its end, with its earlier changes. error: its sentence, "" below medium severity."""

    chain_id: str
    began_unix_ns: int
    ended_unix_ns: int
    node: str
    rank: str
    container: str
    namespace: str
    pod: str
    pid: int
    cause: str
    effect: str
    severity: str
    culprit: str
    peer: str
    detail: str
    end_reason: str
    lost_share: float
    lost_seconds: float
    contribution: float
    duration_seconds: float
    remedy: str
    commands: tuple[str, ...]
    error: str
    change_names: tuple[str, ...]
    change_unix_ns: tuple[int, ...]
    change_causes: tuple[str, ...]
    change_severities: tuple[str, ...]
    change_lost_shares: tuple[float, ...]


class Batch(NamedTuple):
    """The rows of one request. sender: the name of its token. arrived_unix_ns: by the clock of the store."""

    sender: str
    arrived_unix_ns: int
    windows: Sequence[WindowRow] = ()
    events: Sequence[ChainEventRow] = ()
    spans: Sequence[ChainSpanRow] = ()

    @property
    def row_count(self) -> int:
        return len(self.windows) + len(self.events) + len(self.spans)


class Stored(NamedTuple):
    """What became of a batch. duplicates: rows that the store had already. refused: rows of processes beyond the limit."""

    rows: int
    duplicates: int
    refused: int
