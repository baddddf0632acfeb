"""The encoding of log records and spans for a receiver, and a request without any, which tests it."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from exporter.config.otlp import Target
from exporter.config.otlp_parsers import LOGS, OtlpProtocol
from exporter.output.otlp import json_records
from exporter.output.otlp.points import Origin
from exporter.output.otlp.response import PushResult
from exporter.output.otlp.retry import compressed, send_once
from exporter.output.otlp.transport import OtlpTransport


def codec_of(target: Target) -> ModuleType:
    """json_records or protobuf_records."""
    if target.protocol is OtlpProtocol.JSON:
        return json_records
    from exporter.output.otlp import protobuf_records  # noqa: PLC0415 - 6 MiB, for receivers of protobuf only

    return protobuf_records


def encoder(codec: ModuleType, signal: str) -> Any:
    """The function of a codec that makes a body of records and their Origin. signal: logs or traces."""
    return codec.encode_logs if signal == LOGS else codec.encode_spans


def probe(target: Target, signal: str) -> PushResult:
    """The result of a request without records. Raises BadInput like OtlpTransport."""
    codec = codec_of(target)
    body, headers = compressed(encoder(codec, signal)((), Origin("", "")), target.compression, codec.CONTENT_TYPE)
    return send_once(OtlpTransport(target), body, headers, target.timeout_seconds, codec)
