"""The text form of an answer of NCCL's RAS: since 2.24, with differences between versions.

In: bytes of a tenant's process. Out: a Report, or Untrusted. Lines that are not known are passed over.
Source: NCCL's user guide, Troubleshooting, RAS, Sample Output. Before 2.26 all operations are counted as one, and a list of
missing ranks has no processes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field
from typing import Final

from exporter.ras.report import (
    COMMUNICATORS_MAX,
    RANKS_MAX,
    VALUE_MAX,
    Absence,
    LaunchGroup,
    MissingRank,
    RankProcess,
    RasCommunicator,
    Report,
    UnequalLaunches,
)
from exporter.text.printable import printable
from exporter.text.untrusted import Untrusted

TEXT_BYTES_MAX: Final = 4 << 20
_LINE_CHARACTERS: Final = 2048
_LINES_MAX: Final = 100_000
_LAST_SECTION: Final = "Warnings"
_NUMBER: Final = r"([0-9]{1,20})"
_PLACE: Final = rf" -- (?:GPU [^\n]{{1,64}}? managed by process {_NUMBER} on node (\S{{1,64}})|\[[\w ]{{1,64}}\])"

_VERSION: Final = re.compile(r"\w{0,8}CCL version (\S{1,32})(?: .*)?")
_GROUP: Final = re.compile(rf" *{_NUMBER} +{_NUMBER} +[0-9]+ +[0-9]+(?:-[0-9]+)? +{_NUMBER} +[0-9]+ +[A-Z]+ +[A-Z,]+")
_COMMUNICATOR: Final = re.compile(rf"#{_NUMBER}-{_NUMBER} \(([0-9a-f]{{1,16}})\) (INCOMPLETE|ERROR|MISMATCH)")
_NO_DATA: Final = re.compile(rf"  Missing communicator data from {_NUMBER} (job process(?:es)?|ranks?)")
_DEAD: Final = re.compile(rf"  {_NUMBER} job process(?:es are| is) considered dead.*")
_PROCESS: Final = re.compile(rf"  Process {_NUMBER} on node (\S{{1,64}}) managing .*")
_UNNAMED: Final = re.compile(r"  The (?:missing|unknown) ranks?: ([0-9]{1,9}(?:,[0-9]{1,9})*)")
_FAILED: Final = re.compile(rf"  (?:Initialization|Asynchronous) errors? on {_NUMBER} ranks?")
_OPERATION: Final = re.compile(r"  Communicator ranks have different (\w{1,32}) operation counts")
_STATUS: Final = re.compile(rf"  {_NUMBER} ranks have status ([A-Z]{{1,16}})")
_LAUNCHED: Final = re.compile(
    rf"  {_NUMBER} ranks have (?:launched up to operation {_NUMBER}|not launched any operations)"
)
_RANK: Final = re.compile(rf"  Rank {_NUMBER}{_PLACE}")
_RANK_STATUS: Final = re.compile(rf"  Rank {_NUMBER} has status ([A-Z]{{1,16}})(?:{_PLACE})?")
_RANK_LAUNCHED: Final = re.compile(
    rf"  Rank {_NUMBER} has (?:launched up to operation {_NUMBER}|not launched any operations){_PLACE}"
)
_LEFT: Final = "NOCOMM"
_UNKNOWN: Final = "UNKNOWN"
"""Before 2.26, of ranks that do not answer as well."""
_TIMEOUTS: Final = re.compile(rf"  Encountered {_NUMBER} communication timeouts? .*")


def report_of_text(raw: bytes) -> Report:
    """Raises Untrusted if it is not complete: its last heading is missing."""
    if len(raw) > TEXT_BYTES_MAX:
        raise Untrusted(f"more than {TEXT_BYTES_MAX} bytes")
    reading = _Reading()
    for line in _lines(raw):
        reading.take(line)
    return reading.report()


def _lines(raw: bytes) -> Iterator[str]:
    lines = raw.decode("utf-8", "replace").split("\n")
    if len(lines) > _LINES_MAX:
        raise Untrusted(f"more than {_LINES_MAX} lines")
    for line in lines:
        yield line[:_LINE_CHARACTERS].rstrip("\r ")


@dataclass
class _Group:
    """Ranks that have launched an operation equally often, as far as it is read."""

    launched: int
    size: int
    ranks: list[int] = field(default_factory=list)


@dataclass
class _Known:
    """What is known of one communicator so far. unequal: groups by operation.

    silent: ranks of which no data came. left: ranks that answer and are no members. unknown: both, before 2.26.
    """

    hash: int
    size: int
    silent: int = 0
    left: int = 0
    unknown: int = 0
    missing: dict[int, MissingRank] = field(default_factory=dict)
    unequal: dict[str, list[_Group]] = field(default_factory=dict)
    failed: int = 0

    def count_absent(self, status: str, count: int) -> None:
        """status: as the answer names it."""
        if status == _LEFT:
            self.left += count
        elif status == _UNKNOWN:
            self.unknown += count

    def finished(self, dead: Container[tuple[int, str]]) -> RasCommunicator:
        """dead: processes that NCCL has given up."""
        missing = (
            one._replace(absence=Absence.DEAD) if (one.tgid, one.host) in dead else one for one in self.missing.values()
        )
        unequal = (
            UnequalLaunches(
                name,
                tuple(
                    LaunchGroup(one.launched, one.size, tuple(one.ranks))
                    for one in sorted(groups, key=lambda one: -one.size)
                ),
            )
            for name, groups in self.unequal.items()
            if groups
        )
        count = max(self.silent + self.left, self.unknown, len(self.missing))
        return RasCommunicator(self.hash, self.size, count, tuple(sorted(missing)), tuple(unequal), self.failed)


class _Reading:
    """Goes through the lines once. What a line means depends on the headings before it."""

    def __init__(self) -> None:
        self._version = ""
        self._sizes: list[tuple[int, int]] = []  # number of communicators, and their size; by group
        self._known: dict[tuple[int, int], _Known] = {}
        self._current: _Known | None = None
        self._kind = ""  # of the block: INCOMPLETE, ERROR, MISMATCH, DEAD, or "" outside of any
        self._operation = ""
        self._status = ""
        self._members: set[RankProcess] = set()
        self._dead_processes: set[tuple[int, str]] = set()
        self._unheard = self._dead = self._timeouts = 0
        self._is_complete = False
        self._rules: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], None]], ...] = (
            (_RANK, self._rank),
            (_RANK_LAUNCHED, self._rank_launched),
            (_LAUNCHED, self._launched),
            (_COMMUNICATOR, self._communicator),
            (_OPERATION, self._operation_begins),
            (_GROUP, self._group),
            (_NO_DATA, self._no_data),
            (_UNNAMED, self._unnamed),
            (_RANK_STATUS, self._rank_status),
            (_STATUS, self._status_begins),
            (_FAILED, self._ranks_failed),
            (_PROCESS, self._process),
            (_DEAD, self._dead_begin),
            (_TIMEOUTS, self._timed_out),
            (_VERSION, self._version_is),
        )

    def take(self, line: str) -> None:
        if line in ("INCOMPLETE", "DEAD", "TIMEOUT"):
            self._current, self._kind = None, line
        elif line == _LAST_SECTION:
            self._is_complete = True
        for pattern, meaning in self._rules:
            if match := pattern.fullmatch(line):
                meaning(match)
                return

    def report(self) -> Report:
        if not (self._version and self._is_complete):
            raise Untrusted("it is not complete, or no report")
        return Report(
            version=printable(self._version),
            sizes=tuple(size for count, size in self._sizes for _ in range(count)),
            communicators=tuple(one.finished(self._dead_processes) for one in self._known.values()),
            members=frozenset(self._members),
            has_all_members=False,
            timeouts=self._timeouts,
            unheard=self._unheard,
            dead=self._dead,
        )

    # ---- lines

    def _version_is(self, match: re.Match[str]) -> None:
        self._version = self._version or match[1]

    def _group(self, match: re.Match[str]) -> None:
        number, count, size = (_bounded(match[place], RANKS_MAX) for place in (1, 2, 3))
        if number != len(self._sizes):
            return  # the table of nodes and processes has other columns
        if sum(one for one, _ in self._sizes) + count > COMMUNICATORS_MAX:
            raise Untrusted("too many communicators")
        self._sizes.append((count, size))

    def _communicator(self, match: re.Match[str]) -> None:
        group, number = _bounded(match[1], COMMUNICATORS_MAX), _bounded(match[2], COMMUNICATORS_MAX)
        if group >= len(self._sizes) or len(self._known) >= COMMUNICATORS_MAX:
            raise Untrusted("a communicator is of no group")
        new = _Known(int(match[3], 16), self._sizes[group][1])
        self._current = self._known.setdefault((group, number), new)
        self._kind, self._operation, self._status = match[4], "", ""

    def _no_data(self, match: re.Match[str]) -> None:
        count = _bounded(match[1], RANKS_MAX)
        if self._current is None:
            self._unheard = count
        else:
            self._current.silent = count

    def _dead_begin(self, match: re.Match[str]) -> None:
        self._dead = _bounded(match[1], RANKS_MAX)

    def _process(self, match: re.Match[str]) -> None:
        if self._kind == "DEAD" and self._current is None:
            self._dead_processes.add((_bounded(match[1]), printable(match[2])))

    def _timed_out(self, match: re.Match[str]) -> None:
        self._timeouts = _bounded(match[1])

    def _ranks_failed(self, match: re.Match[str]) -> None:
        if self._current is not None:
            self._current.failed += _bounded(match[1], RANKS_MAX)

    def _operation_begins(self, match: re.Match[str]) -> None:
        self._operation, self._status = match[1], ""
        if self._current is not None:
            self._current.unequal.setdefault(self._operation, [])

    def _status_begins(self, match: re.Match[str]) -> None:
        self._operation, self._status = "", match[2]
        if self._current is not None:
            self._current.count_absent(match[2], _bounded(match[1], RANKS_MAX))

    def _unnamed(self, match: re.Match[str]) -> None:
        absence = Absence.SILENT if self._kind == "INCOMPLETE" else Absence.LEFT
        for rank in match[1].split(","):
            self._miss(_bounded(rank, RANKS_MAX), absence, None, None)

    def _rank(self, match: re.Match[str]) -> None:
        rank = _bounded(match[1], RANKS_MAX)
        if self._kind == "INCOMPLETE":
            self._miss(rank, Absence.SILENT, match[2], match[3])
        elif self._status in (_LEFT, _UNKNOWN):
            self._miss(rank, Absence.LEFT, match[2], match[3])
        elif self._current is not None:
            self._note_member(rank, match[2])
            groups = self._current.unequal.get(self._operation)
            if groups:
                groups[-1].ranks.append(rank)

    def _rank_status(self, match: re.Match[str]) -> None:
        self._operation, self._status = "", ""
        if match[2] in (_LEFT, _UNKNOWN) and self._current is not None:
            self._current.count_absent(match[2], 1)
            self._miss(_bounded(match[1], RANKS_MAX), Absence.LEFT, match[3], match[4])

    def _launched(self, match: re.Match[str]) -> None:
        self._add_group(_Group(_bounded(match[2] or "0"), _bounded(match[1], RANKS_MAX)))

    def _rank_launched(self, match: re.Match[str]) -> None:
        rank = _bounded(match[1], RANKS_MAX)
        self._note_member(rank, match[3])
        self._add_group(_Group(_bounded(match[2] or "0"), 1, [rank]))

    def _add_group(self, group: _Group) -> None:
        if self._current is not None and self._operation:
            self._current.unequal[self._operation].append(group)

    def _miss(self, rank: int, absence: Absence, tgid: str | None, host: str | None) -> None:
        if self._current is not None:
            found = MissingRank(rank, absence, _bounded(tgid or "0"), printable(host or ""))
            self._current.missing.setdefault(rank, found)
            self._note_member(rank, tgid)

    def _note_member(self, rank: int, tgid: str | None) -> None:
        if self._current is not None and tgid is not None:
            self._members.add(RankProcess(self._current.size, rank, _bounded(tgid)))


def _bounded(digits: str, most: int = VALUE_MAX) -> int:
    number = int(digits)
    if number > most:
        raise Untrusted(f"a number is larger than {most}")
    return number
