"""Makes a Report of what has happened to a chain, and says it to all who want to hear it; the log is one of them.

In: Transitions, and whose they are. Out: Reports; log records with fields that machines read.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from exporter.chains.chain import Chain, Change, Transition
from exporter.chains.event import ChainEvent, ChainEventHandler
from exporter.chains.remedies import ProcessContext
from exporter.clock import Moment
from exporter.errors import NotPossibleHere, ProcessGone
from exporter.host.processes import Processes
from exporter.model import Identity, label_value
from exporter.stacks.collector import ChainProcess

log = logging.getLogger(__name__)

_STATUS_BYTES = 16 * 1024


class Narrator:
    """processes: of /proc, where commands that help get their numbers. hearers: called in this order."""

    def __init__(self, processes: Processes, hearers: Iterable[ChainEventHandler]) -> None:
        self._processes = processes
        self._hearers = tuple(hearers)

    def tell(
        self,
        transition: Transition,
        identity: Identity | None,
        tgid: int,
        culprit_tgids: tuple[int, ...],
        now: Moment,
    ) -> None:
        """identity: None while the process is held back. tgid: 0 where it is out of sight."""
        place = place_of(self._processes, tgid)._replace(culprit_tgids=culprit_tgids)
        self._say(ChainEvent.from_transition(transition, identity, place, now))

    def tell_evidence(self, chain: Chain, whose: ChainProcess, lines: tuple[str, ...], now: Moment) -> None:
        """lines: see Report.evidence."""
        identity, tgid, culprit_tgids = whose
        place = place_of(self._processes, tgid)._replace(culprit_tgids=culprit_tgids)
        self._say(ChainEvent.from_transition(Transition(Change.EVIDENCE, chain), identity, place, now, lines))

    def _say(self, report: ChainEvent) -> None:
        for hear in self._hearers:
            hear(report)


def place_of(processes: Processes, tgid: int) -> ProcessContext:
    """Of a process; where it is not there, no more than its number."""
    try:
        cgroup = _cgroup_path(processes.cgroup(tgid))
        status = processes.read(tgid, "status", _STATUS_BYTES)
    except (ProcessGone, NotPossibleHere):
        return ProcessContext(tgid)
    return ProcessContext(tgid, cgroup, _allowed_cpus(status))


def write_to_log(report: ChainEvent) -> None:
    """One line; with what to do when something has begun, and where it is stuck when that is known."""
    told = report.fields()
    if report.change is Change.EVIDENCE:
        told["evidence"] = _on_one_line(report.evidence)
    if report.change is Change.OPENED:
        told |= {"remedy": report.remedy, "commands": "; ".join(report.commands)}
    level = logging.INFO if report.change is Change.RESOLVED else logging.WARNING
    log.log(level, f"chain {report.change.value}: %s", report.sentence, extra={"fields": told})


def _on_one_line(evidence: Iterable[str]) -> str:
    """("called by", "  inner", "  outer", "it is at", "  read") -> `called by inner < outer; it is at read`."""
    told = ""
    was_frame = True
    for line in evidence:
        is_frame = line.startswith(" ")
        told += (" < " if was_frame else " ") + line.strip() if is_frame else f"; {line}"
        was_frame = is_frame
    return told.removeprefix("; ")


def _cgroup_path(text: str) -> str:
    """Of the unified hierarchy; where there is none, of the one for CPUs."""
    paths = {controllers: path for _, controllers, path in (line.split(":", 2) for line in text.splitlines())}
    of_cpus = next((path for controllers, path in paths.items() if "cpu" in controllers.split(",")), "")
    return label_value(of_cpus or paths.get("", "")).rstrip("/")


def _allowed_cpus(status: bytes) -> str:
    """`0-3,8`."""
    for line in status.decode(errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name == "Cpus_allowed_list":
            return value.strip()
    return ""
