"""A job as this node knows it, and whether an answer of NCCL's RAS is about it.

In: rows of processes and communicators; a Report. Out: Jobs. Jobs of one user on one node share the port of RAS, and NCCL's own
hash of a communicator is not that of the exporter: so ranks, sizes and process ids are compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from exporter.kernel.process_rows import CommunicatorRow
from exporter.ras.report import RankProcess, Report


class LocalJob(NamedTuple):
    """processes: numbers of those on this node that share communicators, ascending. hashes: of their communicators."""

    processes: tuple[int, ...]
    hashes: frozenset[int] = frozenset()


class KnownJob(NamedTuple):
    """What an answer is compared with. sizes: of its communicators. members, tgids: with ids of the job's own PID namespaces.

    members and sizes have those communicators whose creation was traced.
    """

    sizes: frozenset[int]
    members: frozenset[RankProcess]
    tgids: frozenset[int]


def job_of(process: int, communicators: Mapping[int, Iterable[CommunicatorRow]]) -> LocalJob:
    """The job of a process: with those that share a communicator with it, or with one of them."""
    hashes_of = {one: frozenset(row.hash for row in rows if row.hash) for one, rows in communicators.items()}
    processes, hashes = {process}, set(hashes_of.get(process, ()))
    while True:
        found = {one for one, known in hashes_of.items() if known & hashes} - processes
        if not found:
            return LocalJob(tuple(sorted(processes)), frozenset(hashes))
        processes |= found
        hashes.update(*(hashes_of[one] for one in found))


def known_job(
    job: LocalJob, communicators: Mapping[int, Iterable[CommunicatorRow]], tgid_of: Mapping[int, int]
) -> KnownJob:
    """tgid_of: process number -> its id in its own PID namespace."""
    members = {
        RankProcess(row.ranks, row.rank, tgid_of[process])
        for process in job.processes
        for row in communicators.get(process, ())
        if process in tgid_of and row.rank >= 0 and row.ranks > 0
    }
    sizes = frozenset(one.size for one in members)
    return KnownJob(sizes, frozenset(members), frozenset(tgid_of[one] for one in job.processes if one in tgid_of))


def is_about(report: Report, job: KnownJob) -> bool:
    """Whether the report can be about the job.

    By a rank that both have in a process of the same id. Where the creation of no communicator was traced: by a process id.
    A text form names few processes: by the sizes of communicators.
    """
    if not report.has_all_members:
        return job.sizes <= set(report.sizes)
    if job.members:
        return not job.members.isdisjoint(report.members)
    return not job.tgids.isdisjoint(one.tgid for one in report.members)
