"""The program that talks to RAS sockets: for one job, in a process of its own, which has no privileges by then.

In: one request. Out: a result and its lines. A tenant's process is at the other end: whatever it sends reaches neither the
exporter's capabilities nor its memory, and is decoded where no tick waits for the interpreter. Partner: view.py, which starts it.
"""

from __future__ import annotations

import resource
import socket
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from exporter.errors import NotPossibleHere
from exporter.host import capabilities
from exporter.host.answering import answer_requests
from exporter.host.network_namespaces import opened_inside
from exporter.ras.asking import CONNECTIONS_MAX, NAMESPACE, RasResult, asked
from exporter.ras.job import KnownJob
from exporter.ras.line import line
from exporter.ras.report import RankProcess

_MEMORY_BYTES_MAX: Final = 768 << 20
_DESCRIPTORS_MAX: Final = 32


def answer(proc: str, request: Any, _descriptors: Sequence[int]) -> tuple[Any, Sequence[int]]:
    """request: see request_of(). A result and its lines. Afterwards this process has no capabilities."""
    address, port, is_ipv6, inside, job = request
    make = partial(socket.socket, socket.AF_INET6 if is_ipv6 else socket.AF_INET)
    try:
        opening = partial(opened_inside, proc, inside, make) if inside else make
        sockets = [opening() for _ in range(CONNECTIONS_MAX)]
    except NotPossibleHere:
        return list(not_entered()), ()
    capabilities.keep_only(())
    return list(asked(sockets, (address, port), _job_of(job))), ()


def not_entered() -> RasResult:
    text = "not queried: the job is in another network namespace; --collector.network.namespaces allows it"
    return RasResult(NAMESPACE, (line(text),))


def request_of(address: tuple[str, int], job: KnownJob, *, is_ipv6: bool, inside: int) -> list[Any]:
    """inside: a process whose network namespace to enter; 0 for that of the exporter."""
    return [*address, is_ipv6, inside, [sorted(job.sizes), sorted(job.members), sorted(job.tgids)]]


def _job_of(document: Any) -> KnownJob:
    sizes, members, tgids = document
    return KnownJob(frozenset(sizes), frozenset(RankProcess(*one) for one in members), frozenset(tgids))


def main() -> None:
    """Arguments: the folder of the package, the descriptor of the socket, the root of /proc."""
    stream, proc = socket.socket(fileno=int(sys.argv[2])), sys.argv[3]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES_MAX, _MEMORY_BYTES_MAX))
    resource.setrlimit(resource.RLIMIT_NOFILE, (_DESCRIPTORS_MAX, _DESCRIPTORS_MAX))
    answer_requests(stream, partial(answer, proc))
