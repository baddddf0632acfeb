"""All OTLP exporters of one configuration: the metrics of each receiver, and chains and windows for receivers that want them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from exporter.chains.event import ChainEvent
from exporter.config.otlp import Receiver
from exporter.history.window_batch import WindowBatch
from exporter.model import Snapshot
from exporter.output.otlp.chain_exporter import ChainExporter
from exporter.output.otlp.metric_exporter import MetricExporter
from exporter.output.otlp.points import Origin
from exporter.output.otlp.window_exporter import WindowExporter
from exporter.own_metrics.store import OwnMetrics


class OtlpExporters:
    """run_id: of the ids of windows. with_chains: whether chains are detected.

    Raises BadInput when a certificate or a proxy of a receiver cannot be used.
    """

    def __init__(
        self,
        receivers: Sequence[Receiver],
        snapshot: Callable[[], Snapshot],
        own: OwnMetrics,
        origin: Origin,
        *,
        run_id: str,
        with_chains: bool,
    ) -> None:
        self._chains = ChainExporter(receivers, own, origin) if with_chains else None
        self._windows = WindowExporter(receivers, own, origin, run_id)
        self._all: list[MetricExporter | ChainExporter | WindowExporter] = [
            *(MetricExporter(receiver, snapshot, own, origin) for receiver in receivers),
            self._windows,
        ]
        if self._chains:
            self._all.append(self._chains)

    def on_chain_event(self, event: ChainEvent) -> None:
        """Queue the event for every receiver."""
        if self._chains:
            self._chains.on_chain_event(event)

    @property
    def wants_windows(self) -> bool:
        """Whether a receiver takes windows."""
        return self._windows.wants_windows

    def on_windows(self, batch: WindowBatch) -> None:
        """Queue the windows for every receiver that takes them."""
        self._windows.on_windows(batch)

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
