"""The page call-sites beside the metrics: lines of Python that made slow calls, for `top`. As labels they would all be series.

In: the slow calls of each process so far. Out: one JSON document of bounded size. Its sums only grow while a process lives.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from exporter.model import Identity
from exporter.output.web.messages import Response
from exporter.python.call_site import CallSite
from exporter.units import seconds

NAME: Final = "call-sites"
"""The page stands in the folder of the metrics, so that it is found through a proxy as well."""
VERSION: Final = 1
OF_PROCESS_MAX: Final = 64
ALL_MAX: Final = 4_096
LINE_CHARACTERS_MAX: Final = 200
_CUT: Final = "…"
_LABELS: Final = ("node", "rank", "container", "namespace", "pod")


class ProcessCallSites(NamedTuple):
    """The slow calls of one process since it was first seen."""

    identity: Identity
    tgid: int
    call_sites: tuple[CallSite, ...]


class CallSitesReading(NamedTuple):
    """What the exporter knows of all processes. read_ns: when it read the kernel's sums last, CLOCK_MONOTONIC."""

    read_ns: int
    processes: Sequence[ProcessCallSites]


NO_READING: Final = CallSitesReading(0, ())


def page(reading: CallSitesReading) -> Response:
    """Those with the most time in slow calls, of each process."""
    document = {
        "version": VERSION,
        "read_monotonic_seconds": seconds(reading.read_ns),
        "processes": list(_bounded(reading.processes)),
    }
    return Response(
        200, (("Content-Type", "application/json"),), (json.dumps(document, separators=(",", ":")).encode(),)
    )


def _bounded(processes: Iterable[ProcessCallSites]) -> Iterator[dict[str, Any]]:
    left = ALL_MAX
    for one in processes:
        known = [site for site in one.call_sites if site.stack.frames]
        found = sorted(known, key=lambda site: -site.total_ns)[: min(OF_PROCESS_MAX, left)]
        left -= len(found)
        if found:
            labels = dict(zip(_LABELS, one.identity.values(), strict=True))
            yield {**labels, "pid": one.tgid, "call_sites": [_document(site) for site in found]}


def _document(site: CallSite) -> dict[str, Any]:
    line = site.stack.place
    return {
        "api": site.api,
        "operation": site.operation,
        "slow_calls": site.calls,
        "slow_seconds": seconds(site.total_ns),
        "slow_from_seconds": seconds(site.slow_from_ns),
        "line": line if len(line) <= LINE_CHARACTERS_MAX else line[: LINE_CHARACTERS_MAX - len(_CUT)] + _CUT,
    }
