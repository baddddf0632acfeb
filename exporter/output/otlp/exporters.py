"""All pushes of one configuration: the metrics of each receiver, and the chains for those that take them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from exporter.chains.event import ChainEvent
from exporter.config.otlp import Receiver
from exporter.model import Snapshot
from exporter.output.otlp.chain_exporter import ChainExporter
from exporter.output.otlp.metric_exporter import MetricExporter
from exporter.output.otlp.points import Origin
from exporter.output.own_metrics import OwnMetrics


class OtlpExporters:
    """Raises BadInput when a certificate or a proxy of a receiver cannot be used. with_chains: whether there are any."""

    def __init__(
        self,
        receivers: Sequence[Receiver],
        snapshot: Callable[[], Snapshot],
        own: OwnMetrics,
        origin: Origin,
        *,
        with_chains: bool,
    ) -> None:
        self._deliveries = [MetricExporter(one, snapshot, own, origin) for one in receivers]
        self._announcer = ChainExporter(receivers, own, origin) if with_chains else None

    @property
    def _all(self) -> list[MetricExporter | ChainExporter]:
        return [*self._deliveries, *([self._announcer] if self._announcer else [])]

    def on_chain_event(self, report: ChainEvent) -> None:
        """What happens to chains."""
        if self._announcer:
            self._announcer.on_chain_event(report)

    def start(self) -> None:
        """Begin, each in a thread of its own."""
        for one in self._all:
            one.start()

    def finish(self) -> None:
        """The last push to every receiver, to all at the same time; returns when they have it or are given up."""
        for one in self._all:
            one.stop()
        for one in self._all:
            one.join()

    def finish_apart(self) -> None:
        """The same, and returns at once."""
        threading.Thread(target=self.finish, name="last push", daemon=True).start()
