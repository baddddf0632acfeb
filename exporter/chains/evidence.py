"""Evidence about a chain: lines of text that a thread of its own has collected, since a tick must not wait for it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, Protocol

from exporter.chains.chain import Chain, Transition
from exporter.chains.event import ChainProcess


class Evidence(NamedTuple):
    """chain, process: as they were when the evidence was requested."""

    chain: Chain
    process: ChainProcess
    lines: tuple[str, ...]


class EvidenceSource(Protocol):
    """Requests evidence at one tick, and has the result at a later one."""

    def tick(
        self,
        chains: Collection[Chain],
        transitions: Collection[Transition],
        process_of: Callable[[Chain], ChainProcess],
        now_ns: int,
    ) -> Sequence[Evidence]:
        """Evidence since the last tick. chains: all open ones. It must not block."""
