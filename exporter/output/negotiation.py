"""The format and encoding that a client accepts, from Accept and Accept-Encoding with their q values. Pure.

Prometheus names its formats in the order of its liking: with native histograms on, protobuf comes first.

prometheus-client's choose_encoder() takes the first match and ignores q, so the order of equal offers decides here only.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

_MAX_HEADER_CHARACTERS = 4096


class Format(enum.Enum):
    """An exposition format and its content type."""

    TEXT = "text/plain; version=0.0.4; charset=utf-8"
    OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
    PROTOBUF = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"


_PROTOBUF = {"proto": "io.prometheus.client.MetricFamily", "encoding": "delimited"}


def offers(header: str) -> list[tuple[float, str, dict[str, str]]]:
    """`text/plain;version=0.0.4;q=0.5, */*` -> [(1.0, "*/*", {}), (0.5, "text/plain", {"version": "0.0.4"})].

    Best first; equal q in the order given. A q that is no number in 0..1 makes the offer unusable (0).
    """
    found = []
    for part in header[:_MAX_HEADER_CHARACTERS].split(","):
        name, *parameters = (item.strip() for item in part.split(";"))
        pairs = {key.strip().lower(): value.strip(' "') for key, _, value in (p.partition("=") for p in parameters)}
        if name:
            found.append((_quality(pairs.pop("q", "1")), name.lower(), pairs))
    return sorted(found, key=lambda offer: -offer[0])


def _quality(text: str) -> float:
    try:
        quality = float(text)
    except ValueError:
        return 0.0
    return quality if 0.0 <= quality <= 1.0 else 0.0


def choose_format(accept: str) -> Format:
    """The client's preferred known format; text 0.0.4 if it names no known one."""
    for quality, name, parameters in offers(accept):
        if quality == 0.0:
            continue
        if name == "application/vnd.google.protobuf" and _PROTOBUF.items() <= parameters.items():
            return Format.PROTOBUF
        if name == "application/openmetrics-text" and parameters.get("version", "1.0.0") == "1.0.0":
            return Format.OPENMETRICS
        if name in ("text/plain", "text/*", "*/*") and parameters.get("version", "0.0.4") == "0.0.4":
            return Format.TEXT
    return Format.TEXT


def accepts_gzip(headers: Mapping[str, str]) -> bool:
    """Whether Accept-Encoding allows gzip: `*` does, `gzip;q=0` does not, whatever `*` says beside it."""
    qualities = {name: quality for quality, name, _ in reversed(offers(headers.get("accept-encoding", "")))}
    return qualities.get("gzip", qualities.get("*", 0.0)) > 0.0
