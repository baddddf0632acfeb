"""One node of a fleet: where its server listens."""

from __future__ import annotations

from typing import Final, NamedTuple

PORT: Final = 10479
"""The port of `gpu-stall-exporter serve`."""


class Node(NamedTuple):
    """name: how answers call it, unique in a fleet. host: a name or an address, IPv6 without brackets."""

    name: str
    host: str
    port: int = PORT
