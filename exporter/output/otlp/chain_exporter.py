"""Exports causal chains to every receiver: as log records and as spans, as its settings say.

Chain events are queued in a BatchQueue for each signal of each receiver, so a slow receiver delays nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import partial
from typing import Any

from exporter.chains.event import ChainEvent
from exporter.config.otlp import Receiver
from exporter.config.otlp_parsers import LOGS, TRACES
from exporter.output.otlp.batch_queue import BatchQueue
from exporter.output.otlp.chain_records import ChainSpans, log_record
from exporter.output.otlp.points import Origin
from exporter.output.otlp.record_codecs import codec_of, encoder
from exporter.output.otlp.records import LogRecord, SpanRecord
from exporter.own_metrics.store import OwnMetrics


class ChainExporter:
    """Raises BadInput like OtlpTransport."""

    def __init__(self, receivers: Iterable[Receiver], own: OwnMetrics, origin: Origin) -> None:
        self._spans = ChainSpans()
        self._log_queues: list[BatchQueue[LogRecord]] = []
        self._span_queues: list[BatchQueue[SpanRecord]] = []
        for receiver in receivers:
            for signal, target, queues in (
                (LOGS, receiver.logs, self._log_queues),
                (TRACES, receiver.traces, self._span_queues),
            ):
                if target is not None:
                    codec = codec_of(target)
                    encode = partial(encoder(codec, signal), origin=origin)
                    queues.append(
                        BatchQueue(target, signal, encode, codec, own, retry_seconds=receiver.interval_seconds)
                    )

    def on_chain_event(self, event: ChainEvent) -> None:
        """Queue a log record, and the span of a chain that has ended. Never waits."""
        record = log_record(event)
        for queue in self._log_queues:
            queue.enqueue(record)
        span = self._spans.on_chain_event(event)
        if span is not None:
            self._enqueue(span)

    def start(self) -> None:
        """Start the thread of each queue."""
        for queue in self._queues():
            queue.start()

    def stop(self) -> None:
        """Export what is queued and the spans of open chains within FLUSH_SECONDS. Returns at once; join() waits."""
        for span in self._spans.end_all(time.time_ns()):
            self._enqueue(span)
        for queue in self._queues():
            queue.stop()

    def join(self) -> None:
        """Wait for the last pushes."""
        for queue in self._queues():
            queue.join()

    def _enqueue(self, span: SpanRecord) -> None:
        for queue in self._span_queues:
            queue.enqueue(span)

    def _queues(self) -> list[BatchQueue[Any]]:
        return [*self._log_queues, *self._span_queues]
