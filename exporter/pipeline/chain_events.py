"""Makes one ChainEvent of whatever happens to a chain and hands it to every sink: log, history, recording, OTLP.

In: transitions and stack evidence, with the process they are about. Out: ChainEvents, in the order of the sinks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from exporter.chains.chain import Chain, Change, Transition
from exporter.chains.event import ChainEvent, ChainProcess, ChainSink
from exporter.clock import Moment
from exporter.host.processes import Processes
from exporter.pipeline.process_context import process_context
from exporter.stacks.collector import StackCollector


class ChainEvents:
    """processes: of /proc, for the numbers in a remedy's commands. stacks: None where no living process can be sampled."""

    def __init__(self, processes: Processes, sinks: Sequence[ChainSink], stacks: StackCollector | None = None) -> None:
        self._processes = processes
        self._sinks = tuple(sinks)
        self._stacks = stacks

    def transition(self, transition: Transition, process: ChainProcess, now: Moment) -> None:
        """A chain has opened, changed or ended."""
        self._send(transition, process, now)

    def evidence(
        self,
        open_chains: Collection[Chain],
        transitions: Collection[Transition],
        process_of: Callable[[Chain], ChainProcess],
        now: Moment,
    ) -> None:
        """Have threads of open chains sampled, and send what has been found since the last tick."""
        if self._stacks is None:
            return
        for found in self._stacks.tick(open_chains, transitions, process_of, now.monotonic_ns):
            self._send(Transition(Change.EVIDENCE, found.chain), found.process, now, found.lines)

    def _send(self, transition: Transition, process: ChainProcess, now: Moment, evidence: tuple[str, ...] = ()) -> None:
        identity, tgid, culprit_tgids = process
        context = process_context(self._processes, tgid)._replace(culprit_tgids=culprit_tgids)
        event = ChainEvent.from_transition(transition, identity, context, now, evidence)
        for sink in self._sinks:
            sink.on_chain_event(event)
