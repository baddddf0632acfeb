"""Sums of slow calls by line of Python, within bounds: a day of a job whose code changes has many stacks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from exporter.chains.event import ChainEvent
from exporter.explain.chain_summary import ChainSummary, with_call_sites
from exporter.history.run import RecordedWindows
from exporter.history.window import Window
from exporter.python.call_site import OTHER_STACKS, CallSite, CallStack

PLACES_MAX: Final = 256
"""Beyond it, those with the least time are added up."""

_Place = tuple[str, str, CallStack]


class SiteSums:
    """The slow calls of one process, or of one chain."""

    def __init__(self) -> None:
        self._sums: dict[_Place, CallSite] = {}

    def add(self, sites: Iterable[CallSite]) -> None:
        for one in sites:
            self._add(one)
        if len(self._sums) > PLACES_MAX:
            named = (one for one in self.largest_first() if one.stack.frames)
            for one in islice(named, PLACES_MAX // 2, None):
                del self._sums[one.place]
                self._add(one._replace(stack=OTHER_STACKS))

    def _add(self, one: CallSite) -> None:
        known = self._sums.get(one.place)
        self._sums[one.place] = one if known is None else known.plus(one)

    def largest_first(self) -> tuple[CallSite, ...]:
        """By time in slow calls; those without a line last."""
        return tuple(sorted(self._sums.values(), key=lambda one: (not one.stack.frames, -one.total_ns, one.operation)))


class ChainSites:
    """Slow calls of the chains' processes in the windows while their chains were open."""

    def __init__(self, chains: Iterable[ChainSummary]) -> None:
        self._chains = list(chains)
        self._by_process: dict[tuple[int, int], list[tuple[ChainSummary, SiteSums]]] = {}
        self._sums: dict[str, SiteSums] = {}
        for chain in self._chains:
            for one in (chain, *chain.waiting):
                self._follow(one, one.event)

    def _follow(self, chain: ChainSummary, event: ChainEvent) -> None:
        if event.tgid:
            sums = self._sums[event.chain_id] = SiteSums()
            self._by_process.setdefault((chain.run, event.tgid), []).append((chain, sums))

    def watched(self, recorded: Iterable[RecordedWindows]) -> Iterator[RecordedWindows]:
        """The same windows. Slow calls in them are added to the chains that were open."""
        for one in recorded:
            for window in one.windows:
                if window.call_sites:
                    self._add(one.run, window)
            yield one

    def _add(self, run: int, window: Window) -> None:
        for chain, sums in self._by_process.get((run, window.labels.tgid), ()):
            if chain.event.began_unix_ns < window.ended_unix_ns and window.began_unix_ns < chain.known_until_unix_ns:
                sums.add(window.call_sites)

    def chains(self) -> list[ChainSummary]:
        """The chains, with what was added."""
        found = {chain_id: sums.largest_first() for chain_id, sums in self._sums.items()}
        return [with_call_sites(chain, found) for chain in self._chains]
