"""The OTLP exporters of the configuration in force: a sink of chain events and windows that a reload replaces.

The exporters are imported when a receiver is configured: TLS, HTTP and retries take 10 MiB.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING

from exporter.chains.event import ChainEvent
from exporter.config import Config
from exporter.history.window_batch import WindowBatch
from exporter.model import Snapshot
from exporter.output.otlp.points import Origin
from exporter.own_metrics.store import OwnMetrics

if TYPE_CHECKING:
    from exporter.output.otlp.exporters import OtlpExporters


RUN_ID_BYTES = 8


class OtlpPush:
    """Raises BadInput when a receiver cannot be used. snapshot: what is pushed."""

    def __init__(self, config: Config, snapshot: Callable[[], Snapshot], own: OwnMetrics) -> None:
        self._snapshot = snapshot
        self._own = own
        self._config = config
        self._run_id = secrets.token_hex(RUN_ID_BYTES)
        self._exporters = self._make(config)

    @property
    def is_wanted(self) -> bool:
        """Whether there is a receiver."""
        return self._exporters is not None

    def on_chain_event(self, event: ChainEvent) -> None:
        """Queued for every receiver that takes chains."""
        if self._exporters:
            self._exporters.on_chain_event(event)

    @property
    def wants_windows(self) -> bool:
        """Whether a receiver takes windows."""
        return self._exporters is not None and self._exporters.wants_windows

    def on_windows(self, batch: WindowBatch) -> None:
        """Queued for every receiver that takes windows."""
        if self._exporters:
            self._exporters.on_windows(batch)

    def start(self) -> None:
        """Push at intervals, each receiver from a thread of its own."""
        if self._exporters:
            self._exporters.start()

    def finish(self) -> None:
        """Push once more to every receiver, and stop."""
        if self._exporters:
            self._exporters.shutdown()

    def prepare(self, config: Config) -> Callable[[], None]:
        """What puts a new configuration in force. Raises BadInput when a receiver cannot be used, and changes nothing then."""
        if config.otlp == self._config.otlp:
            return lambda: None
        exporters = self._make(config)

        def replace() -> None:
            before, self._exporters, self._config = self._exporters, exporters, config
            self.start()
            if before:
                before.shutdown_in_background()

        return replace

    def _make(self, config: Config) -> OtlpExporters | None:
        if not config.otlp.receivers:
            return None
        from exporter.output.otlp.exporters import OtlpExporters  # noqa: PLC0415

        origin = Origin(config.node, config.otlp.resource.service_name, config.otlp.resource.attributes)
        with_chains = "chains" in config.collectors.enabled
        return OtlpExporters(
            config.otlp.receivers, self._snapshot, self._own, origin, run_id=self._run_id, with_chains=with_chains
        )
