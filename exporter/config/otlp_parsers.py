"""Text of OTLP settings -> values, in the notation of flags and files and in that of OpenTelemetry's environment variables."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote, urlsplit

from exporter.config.parsers import Choice, in_any_case, readable_file
from exporter.config.setting import SecretValueError
from exporter.config.url import http_url

METRICS, LOGS, TRACES = "metrics", "logs", "traces"
MIN_INTERVAL_SECONDS = 0.2

Headers = tuple[tuple[str, str], ...]
T = TypeVar("T")

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_OWN_HEADERS = {
    *("accept-encoding", "connection", "content-encoding", "content-length", "content-type"),
    *("expect", "host", "proxy-authorization", "transfer-encoding"),
}


class OtlpProtocol(enum.StrEnum):
    """Encoding of the bodies. gRPC is not supported."""

    JSON = "http/json"
    PROTOBUF = "http/protobuf"


class Compression(enum.StrEnum):
    """Compression of the bodies."""

    GZIP = "gzip"
    NONE = "none"


class Temporality(enum.StrEnum):
    """Whether a counter is pushed as its total or as the increase since the last push."""

    CUMULATIVE = "cumulative"
    DELTA = "delta"


class HistogramForm(enum.StrEnum):
    """Exponential histograms keep the resolution of the kernel; explicit ones have the buckets of /metrics."""

    EXPONENTIAL = "exponential"
    EXPLICIT = "explicit"


def url(text: str) -> str:
    """A URL to post to."""
    return http_url(text, example="http://localhost:4318", credentials_flag="--otlp.headers-file", with_query=True)


def url_below(signal: str) -> Callable[[str], str]:
    """A parser for the base URL of all signals: http://localhost:4318 -> http://localhost:4318/v1/metrics.

    The path of the metrics at the end of the base is replaced by that of the signal.
    """

    def parse(text: str) -> str:
        parts = urlsplit(url(text))
        path = parts.path.rstrip("/").removesuffix(path_of(METRICS))
        return parts._replace(path=path + path_of(signal)).geturl()

    return parse


def path_of(signal: str) -> str:
    """`logs` -> `/v1/logs`."""
    return f"/v1/{signal}"


protocol = Choice(
    {one.value: one for one in OtlpProtocol},
    hints={"grpc": "gRPC is not supported; want http/protobuf or http/json, usually on port 4318"},
)

temporality = Choice({**{one.value: one for one in Temporality}, "lowmemory": Temporality.DELTA})
"""`lowmemory` is delta here: a delta counter needs no more memory than a cumulative one."""

aggregation = in_any_case(
    Choice(
        {
            "explicit_bucket_histogram": HistogramForm.EXPLICIT,
            "base2_exponential_bucket_histogram": HistogramForm.EXPONENTIAL,
        }
    )
)
"""OpenTelemetry's names of histogram aggregations."""


def headers(text: str) -> Headers:
    """`api-key=secret,x-scope=a%20b`, percent-encoded values, as in OTEL_EXPORTER_OTLP_HEADERS."""
    pairs = [(f"header {n}", part.strip()) for n, part in enumerate(text.split(","), 1) if part.strip()]
    return tuple(_header(where, pair, unquote) for where, pair in pairs)


def headers_file(text: str) -> Headers:
    """One `name=value` per line, not encoded. Empty lines and lines that begin with # are skipped."""
    try:
        content = readable_file(text).read_text(encoding="utf-8-sig")
        lines = content.encode("ascii").decode().splitlines()
    except UnicodeError:
        raise ValueError("want ASCII: one name=value per line") from None
    pairs = [(f"line {n} of {text}", line.strip()) for n, line in enumerate(lines, 1) if line.strip()]
    return tuple(_header(where, pair, str) for where, pair in pairs if not pair.startswith("#"))


def certificates_file(text: str) -> Path:
    """A file that has certificates. For variables: what is wrong with the file of a flag is found when it is used."""
    path = readable_file(text)
    if b"-----BEGIN CERTIFICATE-----" not in path.read_bytes():
        raise ValueError("holds no certificates (PEM)")
    return path


def _header(where: str, pair: str, decode: Callable[[str], str]) -> tuple[str, str]:
    header, equals, value = pair.partition("=")
    header, value = header.strip(), decode(value.strip())
    if not equals:
        raise SecretValueError(f"{where} has no `=`; want name=value")
    if not _HEADER_NAME.fullmatch(header):
        raise SecretValueError(f"{where} has an invalid name")
    if header.lower() in _OWN_HEADERS:
        raise SecretValueError(f"{where} sets {header.lower()}, which the exporter sets itself")
    if not (value.isascii() and value.isprintable()):
        raise SecretValueError(f"the value of {where} has characters that a header must not have")
    return header, value


def attributes(text: str) -> Headers:
    """`deployment.environment.name=prod,team=a%20b`, as in OTEL_RESOURCE_ATTRIBUTES. The last value of a key counts."""
    found = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = pair.partition("=")
        key, value = unquote(key.strip()), unquote(value.strip())
        if not (equals and key and (key + value).isprintable()):
            raise ValueError("want comma-separated key=value pairs with percent-encoded values")
        found[key] = value
    return tuple(found.items())


def names_otlp(text: str) -> bool:
    """Whether a list of exporters names OTLP: `otlp` and `console,otlp` do, `none` does not."""
    return "otlp" in (one.strip() for one in text.split(","))


def interval(parse: Callable[[str], float]) -> Callable[[str], float]:
    """A parser with a lower bound: one snapshot is served for 200 ms, and two pushes of it would be equal."""

    def parse_interval(text: str) -> float:
        seconds = parse(text)
        if seconds < MIN_INTERVAL_SECONDS:
            raise ValueError("want at least 200 milliseconds")
        return seconds

    return parse_interval


def variables(suffix: str, parse: Callable[[str], T]) -> dict[str, Callable[[str], T]]:
    """OpenTelemetry's variable for metrics, which takes precedence, and the one for all signals."""
    return dict.fromkeys((f"OTEL_EXPORTER_OTLP_METRICS_{suffix}", f"OTEL_EXPORTER_OTLP_{suffix}"), parse)


def choice_variables(suffix: str, parse: Callable[[str], T]) -> dict[str, Callable[[str], T]]:
    """The same for values that are words, in upper or lower case."""
    return variables(suffix, in_any_case(parse))
