"""Makes one ChainEvent of whatever happens to a chain and hands it to every sink: log, history, recording, OTLP.

In: transitions and evidence, with the process they are about. Out: ChainEvents, in the order of the sinks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from itertools import zip_longest
from operator import itemgetter
from typing import Final, NamedTuple

from exporter.chains.chain import Chain, Change, Transition
from exporter.chains.event import ChainEvent, ChainProcess, ChainSink
from exporter.chains.evidence import EvidenceSource
from exporter.chains.remedies.context import ProcessContext
from exporter.clock import Moment
from exporter.errors import NotPossibleHere, ProcessGone
from exporter.host.processes import Processes
from exporter.pipeline.process_context import process_context
from exporter.pipeline.running_processes import RunningProcesses
from exporter.units import BOOT_TICKS, NANOSECONDS

REPEAT_NS: Final = 10 * NANOSECONDS
"""A chain without a change is sent so often: its duration and what is lost in it grow."""
UPDATE_NS: Final = NANOSECONDS
"""A chain that changes at every tick is sent so often."""
UPDATES_MAX: Final = 8
"""In one tick; the others follow in the next one."""
READS_MAX: Final = 4
"""Chains whose processes are read in one tick for an update: of jobs with many threads it takes milliseconds."""


class _Known(NamedTuple):
    """What was last sent of an open chain, and what was read of its processes for that."""

    figures: tuple[object, ...]
    sent_ns: int
    context: ProcessContext | None = None
    read_ns: int = 0


def _shown(chain: Chain) -> tuple[object, ...]:
    """What a reader would see: percents, tenths of a slowdown, names."""
    present = chain.present
    shares = tuple(round(100 * share) for share in (present.lost_share, chain.lost_share))
    slowdown = round(10 * present.slowdown) if present.slowdown is not None else None
    return chain.cause, chain.severity, shares, slowdown, [name for name, _ in present.culprits], chain.detail


def _boot_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class ChainEvents:
    """processes: of /proc, for the numbers in a remedy's commands. sources: of evidence, none where no living process is there.

    boot_ns: CLOCK_BOOTTIME, which start times of processes are of. keepers: those of the sinks that receive what holds now of a
    chain that goes on.
    running: None without a node, whose commands are not known.
    """

    def __init__(
        self,
        processes: Processes,
        sinks: Sequence[ChainSink],
        sources: Sequence[EvidenceSource] = (),
        *,
        boot_ns: Callable[[], int] = _boot_ns,
        keepers: Sequence[ChainSink] = (),
        running: RunningProcesses | None = None,
    ) -> None:
        self._processes = processes
        self._sinks = tuple(sinks)
        self._keepers = tuple(keepers)
        self._known: dict[str, _Known] = {}  # by id of an open chain
        self._sources = tuple(sources)
        self._boot_ns = boot_ns
        self._running = running

    def transition(self, transition: Transition, process: ChainProcess, now: Moment) -> None:
        """A chain has opened, changed or ended."""
        self._send(transition, process, now)

    def update(self, open_chains: Collection[Chain], process_of: Callable[[Chain], ChainProcess], now: Moment) -> None:
        """Send open chains as they are now to the keepers: those that have changed, and each once in REPEAT_NS."""
        if not self._keepers:
            return
        now_ns, due, reads_left = now.monotonic_ns, [], READS_MAX
        just_sent = _Known((), now_ns)  # to every sink, as it was opened
        self._known = {
            chain.id: self._known.get(chain.id) or just_sent._replace(figures=_shown(chain)) for chain in open_chains
        }
        for chain in open_chains:
            last = self._known[chain.id]
            age_ns = now_ns - last.sent_ns
            if age_ns >= REPEAT_NS or (age_ns >= UPDATE_NS and last.figures != _shown(chain)):
                due.append((last.sent_ns, chain))
        for _, chain in sorted(due, key=itemgetter(0))[:UPDATES_MAX]:
            last, process = self._known[chain.id], process_of(chain)
            context, read_ns = last.context, last.read_ns
            is_other = context is None or context.culprit_tgids != process.culprit_tgids
            if (is_other or now_ns - read_ns >= REPEAT_NS) and reads_left:
                context, read_ns, reads_left = self._context(chain, process, now), now_ns, reads_left - 1
            elif context is None or is_other:
                continue  # in the next tick, before the others: what is known of its processes is of other culprits
            self._known[chain.id] = _Known(_shown(chain), now_ns, context, read_ns)
            event = ChainEvent.from_transition(Transition(Change.UPDATED, chain), process.identity, context, now)
            for keeper in self._keepers:
                keeper.on_chain_event(event)

    def evidence(
        self,
        open_chains: Collection[Chain],
        transitions: Collection[Transition],
        process_of: Callable[[Chain], ChainProcess],
        now: Moment,
    ) -> None:
        """Request evidence about open chains, and send what has been found since the last tick, with each chain as it is now."""
        newest = {chain.id: chain for chain in open_chains}
        for source in self._sources:
            for found in source.tick(open_chains, transitions, process_of, now.monotonic_ns):
                chain = newest.get(found.chain.id, found.chain)
                self._send(Transition(Change.EVIDENCE, chain), found.process, now, found.lines)

    def _send(self, transition: Transition, process: ChainProcess, now: Moment, evidence: tuple[str, ...] = ()) -> None:
        context = self._context(transition.chain, process, now)
        event = ChainEvent.from_transition(transition, process.identity, context, now, evidence)
        for sink in self._sinks:
            sink.on_chain_event(event)

    def _context(self, chain: Chain, process: ChainProcess, now: Moment) -> ProcessContext:
        context = process_context(self._processes, process.tgid)._replace(
            start_ticks=self._start_ticks(process.tgid, 0),
            culprit_tgids=process.culprit_tgids,
            culprit_start_ticks=tuple(
                self._start_ticks(tgid, now.monotonic_ns - since_ns if since_ns else None)
                for tgid, since_ns in zip_longest(process.culprit_tgids, process.charged_since_ns, fillvalue=0)
            ),
        )
        return (
            self._running.add_to(context, chain.cause, process.traced_tgids, now.monotonic_ns)
            if self._running
            else context
        )

    def _start_ticks(self, tgid: int, charged_for_ns: int | None) -> int:
        """When the process was started; 0 if that is not known, or if it is younger than what is charged to its id."""
        if charged_for_ns is None:
            return 0
        try:
            start_ticks = self._processes.start_time_ticks(tgid)
        except (ProcessGone, NotPossibleHere):
            return 0
        age_ns = self._boot_ns() - start_ticks * NANOSECONDS // BOOT_TICKS
        return start_ticks if age_ns >= charged_for_ns else 0
