"""Exports windows to every receiver that wants them: a log record for each process and window.

Each receiver has a BatchQueue for windows besides that of its chain events: windows are many, and in an outage they must not
drive out chains.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from exporter.config.otlp import Receiver
from exporter.config.otlp_parsers import LOGS
from exporter.history.window_batch import WindowBatch
from exporter.output.otlp.batch_queue import BatchQueue
from exporter.output.otlp.points import Origin
from exporter.output.otlp.record_codecs import codec_of, encoder
from exporter.output.otlp.records import LogRecord
from exporter.output.otlp.window_records import window_record
from exporter.own_metrics.store import OwnMetrics

WINDOWS = "windows"
"""The label `signal` of the metrics about these pushes; `logs` are those of chains."""


class WindowExporter:
    """run_id: of the ids of windows. Raises BadInput like OtlpTransport."""

    def __init__(self, receivers: Iterable[Receiver], own: OwnMetrics, origin: Origin, run_id: str) -> None:
        self._run_id = run_id
        self._queues: list[BatchQueue[LogRecord]] = []
        for receiver in receivers:
            target = receiver.windows
            if target is not None:
                codec = codec_of(target)
                encode = partial(encoder(codec, LOGS), origin=origin)
                queue = BatchQueue(target, WINDOWS, encode, codec, own, retry_seconds=receiver.interval_seconds)
                self._queues.append(queue)

    @property
    def wants_windows(self) -> bool:
        """Whether a receiver takes them."""
        return bool(self._queues)

    def on_windows(self, batch: WindowBatch) -> None:
        """Queue the windows. Never waits."""
        records = [window_record(window, self._run_id) for window in batch.windows]
        for queue in self._queues:
            queue.count_dropped(batch.dropped)
            for record in records:
                queue.enqueue(record)

    def start(self) -> None:
        """Start the thread of each queue."""
        for queue in self._queues:
            queue.start()

    def stop(self) -> None:
        """Export what is queued within FLUSH_SECONDS. Returns at once; join() waits."""
        for queue in self._queues:
            queue.stop()

    def join(self) -> None:
        """Wait for the last pushes."""
        for queue in self._queues:
            queue.join()
