"""All OTLP exporters of one configuration: the metrics of each receiver, and the chains for receivers that want them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from exporter.chains.event import ChainEvent
from exporter.config.otlp import Receiver
from exporter.model import Snapshot
from exporter.output.otlp.chain_exporter import ChainExporter
from exporter.output.otlp.metric_exporter import MetricExporter
from exporter.output.otlp.points import Origin
from exporter.own_metrics.store import OwnMetrics


class OtlpExporters:
    """with_chains: whether chains are detected. Raises BadInput when a certificate or a proxy of a receiver cannot be used."""

    def __init__(
        self,
        receivers: Sequence[Receiver],
        snapshot: Callable[[], Snapshot],
        own: OwnMetrics,
        origin: Origin,
        *,
        with_chains: bool,
    ) -> None:
        self._chains = ChainExporter(receivers, own, origin) if with_chains else None
        self._all: list[MetricExporter | ChainExporter] = [
            MetricExporter(receiver, snapshot, own, origin) for receiver in receivers
        ]
        if self._chains:
            self._all.append(self._chains)

    def on_chain_event(self, event: ChainEvent) -> None:
        """Queue the event for every receiver."""
        if self._chains:
            self._chains.on_chain_event(event)

    def start(self) -> None:
        """Start the thread of each exporter."""
        for exporter in self._all:
            exporter.start()

    def shutdown(self) -> None:
        """The last push to all receivers at the same time; returns when it is over, after FLUSH_SECONDS at most."""
        for exporter in self._all:
            exporter.stop()
        for exporter in self._all:
            exporter.join()

    def shutdown_in_background(self) -> None:
        """The same in a thread of its own."""
        threading.Thread(target=self.shutdown, name="last push", daemon=True).start()
