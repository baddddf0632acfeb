"""What an answer of NCCL's RAS says, as lines of evidence of a chain.

In: a Report. Out: lines, of bounded number and length.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from operator import attrgetter
from typing import Final

from exporter.ras.job import KnownJob
from exporter.ras.line import line
from exporter.ras.report import Absence, LaunchGroup, MissingRank, RasCommunicator, Report, UnequalLaunches

LINES_MAX: Final = 12
_RANKS_SHOWN_MAX: Final = 8
_GROUPS_SHOWN_MAX: Final = 4

_ABSENCES: Final = {
    Absence.DEAD: ("is dead for NCCL", "are dead for NCCL"),
    Absence.SILENT: ("does not answer", "do not answer"),
    Absence.LEFT: ("has left the communicator", "have left the communicator"),
    Absence.UNKNOWN: ("is missing", "are missing"),
}


def lines_of(report: Report, job: KnownJob) -> tuple[str, ...]:
    """The job's own communicators first, the largest first; then others of the same job, which are on other nodes."""
    noteworthy = sorted(
        (one for one in report.communicators if one.is_noteworthy),
        key=lambda one: (one.size not in job.sizes, -one.missing_count, -one.size, one.hash),
    )
    facts = [*_about_processes(report), *(text for one in noteworthy for text in _about(one))]
    if not facts:
        facts = ["no rank is missing, and all ranks have launched the same collectives; RAS does not see every hang"]
    left_out = len(facts) - (LINES_MAX - 1)
    if left_out > 0:
        facts = [*facts[: LINES_MAX - 2], f"and {left_out + 1} more lines"]
    return tuple(map(line, (_head(report), *facts)))


def _head(report: Report) -> str:
    count = len(report.sizes)
    of = f"{count} communicator{'s' if count != 1 else ''}"
    largest = f", the largest of {max(report.sizes)} ranks" if report.sizes else ""
    return f"NCCL {report.version} reports {of}{largest}"


def _about_processes(report: Report) -> Iterator[str]:
    if report.timeouts:
        yield f"NCCL itself got no answer {_times(report.timeouts)}: what follows may be incomplete"
    if report.dead:
        yield f"{_processes(report.dead)} dead for NCCL"
    if report.unheard:
        yield f"{_processes(report.unheard)} silent"


def _about(communicator: RasCommunicator) -> Iterator[str]:
    of = f"of {communicator.size} in communicator {communicator.hash:016x}"
    for absence, group in groupby(sorted(communicator.missing, key=_by_absence), key=attrgetter("absence")):
        ranks = list(group)
        yield f"{_ranks(map(_with_process, ranks), len(ranks))} {of} {_ABSENCES[absence][len(ranks) > 1]}"
    unnamed = communicator.missing_count - len(communicator.missing)
    if unnamed > 0:
        yield f"{unnamed} {'more ' if communicator.missing else ''}ranks {of} are missing"
    for unequal in communicator.unequal:
        yield f"{_launches(unequal, communicator.size)} ({of.removeprefix('of ')})"
    if communicator.failed:
        yield (
            f"{communicator.failed} ranks {of} report an error"
            if communicator.failed > 1
            else f"1 rank {of} reports an error"
        )


def _by_absence(missing: MissingRank) -> tuple[int, int]:
    return list(Absence).index(missing.absence), missing.rank


def _with_process(missing: MissingRank) -> str:
    where = f" on {missing.host}" if missing.host else ""
    return f"{missing.rank} (process {missing.tgid}{where})" if missing.tgid else f"{missing.rank}"


def _ranks(ranks: Iterable[str], count: int) -> str:
    """`rank 3`, `ranks 3, 4 and 12 more`"""
    shown = list(islice(ranks, _RANKS_SHOWN_MAX))
    more = f" and {count - len(shown)} more" if count > len(shown) else ""
    return f"rank{'s' if count > 1 else ''} {', '.join(shown)}{more}"


def _launches(unequal: UnequalLaunches, size: int) -> str:
    """`AllReduce: 7 ranks of 8 have launched 1042, rank 3 has launched 1041`"""
    first, *others = unequal.groups
    shown = [f"{first.size} rank{'s' if first.size > 1 else ''} of {size} launched {first.launched}"]
    shown += [_launched(one) for one in others[: _GROUPS_SHOWN_MAX - 1]]
    left_out = len(unequal.groups) - len(shown)
    more = f", and {left_out} other counts" if left_out > 0 else ""
    name = "all collectives" if unequal.operation == "collective" else unequal.operation
    return f"{name}: {', '.join(shown)}{more}"


def _launched(group: LaunchGroup) -> str:
    who = _ranks(map(str, group.ranks), group.size) if group.ranks else f"{group.size} ranks"
    return f"{who} launched {group.launched}"


def _processes(count: int) -> str:
    return "1 process of the job is" if count == 1 else f"{count} processes of the job are"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
