"""Opens perf events with CAP_SYS_ADMIN, its only capability. A program of its own, started by event_opener.py."""

from __future__ import annotations

import resource
import socket
import sys
from collections.abc import Sequence
from typing import Any

from exporter.errors import KernelRefused
from exporter.host import capabilities
from exporter.host.answering import answer_requests
from exporter.host.privileges import PLACING
from exporter.kernel.event_source import OWN_EVENTS


def opened(request: Any, descriptors: Sequence[int]) -> tuple[Any, Sequence[int]]:
    """None and the events, or [message, remedy].

    request: [offsets, whether they are returns], with the library as a descriptor; or the arguments of software().
    """
    try:
        if descriptors:
            offsets, is_return = request
            return None, OWN_EVENTS.uprobes(descriptors[0], offsets, is_return=is_return)
        event, cpu, period, flags, watermark = request
        return None, (OWN_EVENTS.software(event, cpu, period=period, flags=flags, watermark=watermark),)
    except KernelRefused as error:
        return [str(error), error.remedy], ()


def main() -> None:
    capabilities.keep_only((PLACING,))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answer_requests(socket.socket(fileno=int(sys.argv[2])), opened)
