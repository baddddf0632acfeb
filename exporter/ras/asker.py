"""Queries the RAS of a job once when a chain of it opens, in a thread of its own: a tick requests, a later tick gets the answer.

In: chains and their transitions. Out: Evidence. A chain that opens soon afterwards in the same job gets the same answer.
"""

from __future__ import annotations

import logging
import queue
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from exporter.causes import Cause
from exporter.chains.chain import Chain, Change, Transition
from exporter.chains.event import ChainProcess
from exporter.chains.evidence import Evidence
from exporter.kernel.process_rows import CommunicatorRow, ProcessRow
from exporter.ras.asking import FAILED, LEFT_OUT, RasResult
from exporter.ras.job import LocalJob, job_of
from exporter.ras.view import JobRows
from exporter.threads.on_demand import OnDemandThread
from exporter.units import NANOSECONDS

log = logging.getLogger(__name__)

CAUSES: Final = frozenset((Cause.NCCL_HANG, Cause.STALLED, Cause.SLOW_RANK, Cause.GPU))
"""Chains of which NCCL may know more: a rank is late, or nothing on this host explains the wait: it may be for another node."""
AGAIN_NS: Final = 60 * NANOSECONDS
"""A job is queried once within this time. After it NCCL may have given up a process that it only missed before."""
QUEUE_MAX: Final = 8
"""Jobs that wait for their query. If chains open in more jobs at once, they have a cause in common."""

ReadCommunicators = Callable[[], Mapping[int, list[CommunicatorRow]]]
ReadProcesses = Callable[[], Mapping[int, ProcessRow]]
Count = Callable[[str], None]
"""Takes one of asking.RESULTS; called from any thread."""


@dataclass
class _Request:
    """waiting: chains that get the answer. asked: None until it is there."""

    job: LocalJob
    at_ns: int
    waiting: list[tuple[Chain, ChainProcess]] = field(default_factory=list)
    asked: RasResult | None = None

    def is_of(self, job: LocalJob) -> bool:
        return not (self.job.hashes.isdisjoint(job.hashes) and set(self.job.processes).isdisjoint(job.processes))


class RasAsker:
    """One for all jobs. tick() and close() are called from one thread; ask() is, in another one, for one job at a time.

    on_idle: called when no request is left.
    """

    def __init__(
        self,
        read_processes: ReadProcesses,
        read_communicators: ReadCommunicators,
        ask: Callable[[JobRows], RasResult],
        count: Count,
        *,
        on_idle: Callable[[], None] = lambda: None,
    ) -> None:
        self._read_processes = read_processes
        self._read_communicators = read_communicators
        self._ask = ask
        self._count = count
        self._requests: list[_Request] = []
        self._answers: queue.SimpleQueue[tuple[_Request, RasResult]] = queue.SimpleQueue()
        self._thread = OnDemandThread("nccl-ras", QUEUE_MAX, on_idle)

    def tick(
        self,
        _chains: Collection[Chain],
        transitions: Collection[Transition],
        process_of: Callable[[Chain], ChainProcess],
        now_ns: int,
    ) -> list[Evidence]:
        """Requests answers for chains that have opened or escalated, and returns those that have come."""
        self._requests = [one for one in self._requests if one.asked is None or now_ns - one.at_ns < AGAIN_NS]
        due = [chain for change, chain in transitions if change in (Change.OPENED, Change.ESCALATED)]
        due = [chain for chain in due if chain.cause in CAUSES]
        found = list(self._request(due, process_of, now_ns)) if due else []
        return [*found, *self._answered()]

    def close(self) -> None:
        """Drops the requests that wait."""
        self._thread.close()
        self._thread.join()

    def _request(
        self, due: Collection[Chain], process_of: Callable[[Chain], ChainProcess], now_ns: int
    ) -> Iterator[Evidence]:
        """Yields what is known already."""
        communicators = self._read_communicators()
        tgids = {number: row.tgid for number, row in self._read_processes().items()}
        for chain in due:
            if not communicators.get(chain.process):
                continue  # no job of NCCL
            job, process = job_of(chain.process, communicators), process_of(chain)
            request = next((one for one in self._requests if one.is_of(job)), None)
            if request is None:
                request = _Request(job, now_ns)
                if not self._thread.run(partial(self._answer, request, JobRows(job, tgids, communicators))):
                    self._count(LEFT_OUT)
                    continue
                self._requests.append(request)
            if request.asked is not None:
                yield Evidence(chain, process, request.asked.lines)
            elif all(known.id != chain.id for known, _ in request.waiting):
                request.waiting.append((chain, process))

    def _answered(self) -> Iterator[Evidence]:
        while True:
            try:
                request, asked = self._answers.get_nowait()
            except queue.Empty:
                return
            request.asked = asked
            for chain, process in request.waiting:
                yield Evidence(chain, process, asked.lines)
            request.waiting.clear()

    def _answer(self, request: _Request, rows: JobRows) -> None:
        try:
            asked = self._ask(rows)
        except Exception:  # a defect must not leave the job without a result
            log.exception("asking NCCL's RAS failed: internal error (bug)")
            asked = RasResult(FAILED, ())
        self._count(asked.result)
        self._answers.put((request, asked))
