"""Tells every receiver of causal chains: by log records and by spans, as far as each wants them.

In: Reports, as they come. Out: what the couriers bring. A receiver that is slow or gone delays nothing here.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import partial
from types import ModuleType
from typing import Any

from exporter.chains.event import ChainEvent
from exporter.config.otlp import Receiver, Target
from exporter.config.otlp_parsers import LOGS, TRACES, OtlpProtocol
from exporter.output.otlp import json_records
from exporter.output.otlp.batch_queue import BatchQueue
from exporter.output.otlp.chain_records import ChainSpans, LogRecord, SpanRecord, log_record
from exporter.output.otlp.points import Origin
from exporter.output.otlp.response import PushResult
from exporter.output.otlp.retry import packed, send
from exporter.output.otlp.transport import OtlpTransport
from exporter.output.own_metrics import OwnMetrics


def probe(target: Target, signal: str) -> PushResult:
    """What a receiver says to a request without a record. Raises BadInput like OtlpTransport."""
    wire = _wire(target)
    body, headers = packed(_encode(wire, signal)((), Origin("", "")), target.compression, wire.CONTENT_TYPE)
    return send(OtlpTransport(target), body, headers, target.timeout_seconds, wire)


class ChainExporter:
    """Has a courier for each signal of each receiver. Raises BadInput like OtlpTransport."""

    def __init__(self, receivers: Iterable[Receiver], own: OwnMetrics, origin: Origin) -> None:
        self._episodes = ChainSpans()
        self._logs: list[BatchQueue[LogRecord]] = []
        self._traces: list[BatchQueue[SpanRecord]] = []
        for receiver in receivers:
            for signal, target, couriers in (
                (LOGS, receiver.logs, self._logs),
                (TRACES, receiver.traces, self._traces),
            ):
                if target is not None:
                    wire = _wire(target)
                    encode = partial(_encode(wire, signal), origin=origin)
                    couriers.append(
                        BatchQueue(target, signal, encode, wire, own, retry_seconds=receiver.interval_seconds)
                    )

    def on_chain_event(self, report: ChainEvent) -> None:
        """Takes no time to speak of."""
        record = log_record(report)
        for courier in self._logs:
            courier.bring(record)
        span = self._episodes.hear(report)
        if span is not None:
            self._bring(span)

    def start(self) -> None:
        """Begin."""
        for courier in self._couriers():
            courier.start()

    def stop(self) -> None:
        """Nothing more will be heard. What waits is brought within FLUSH_SECONDS; join() waits for it."""
        for span in self._episodes.left_open(time.time_ns()):
            self._bring(span)
        for courier in self._couriers():
            courier.stop()

    def join(self) -> None:
        """Wait for the last pushes."""
        for courier in self._couriers():
            courier.join()

    def _bring(self, span: SpanRecord) -> None:
        for courier in self._traces:
            courier.bring(span)

    def _couriers(self) -> list[BatchQueue[Any]]:
        return [*self._logs, *self._traces]


def _wire(target: Target) -> ModuleType:
    """What encodes bodies and reads responses."""
    if target.protocol is OtlpProtocol.JSON:
        return json_records
    from exporter.output.otlp import protobuf_records  # noqa: PLC0415 - 6 MiB for those who want it

    return protobuf_records


def _encode(wire: ModuleType, signal: str) -> Any:
    return wire.encode_logs if signal == LOGS else wire.encode_spans
