"""Control groups without a kernel: what their files say, and which traced processes are in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from exporter.host.cgroups import keyed_numbers
from exporter.model import Identity
from exporter.series.host_totals import TracedProcess


@dataclass
class FakeGroups:
    """files: (path, name) -> text. by_tgid: the group that a process is in."""

    version: int = 2
    files: dict[tuple[str, str], str] = field(default_factory=dict)
    by_tgid: dict[int, str] = field(default_factory=dict)

    def paths(self, traced: Sequence[TracedProcess]) -> dict[Identity, set[str]]:
        """By place."""
        found: dict[Identity, set[str]] = {}
        for one in traced:
            if one.tgid in self.by_tgid:
                found.setdefault(replace(one.identity, rank=""), set()).add(self.by_tgid[one.tgid])
        return found

    def numbers(self, path: str, name: str) -> Mapping[str, int]:
        """Of a file with a name and a number in each line."""
        return keyed_numbers(self.files.get((path, name), ""))

    def number(self, path: str, name: str) -> int | None:
        """Of a file with one number."""
        text = self.files.get((path, name), "")
        return int(text) if text.isdecimal() else None

    def words(self, path: str, name: str) -> list[str]:
        """Of a file with one line."""
        return self.files.get((path, name), "").split()


def traced(tgid: int, container: str = "c", rank: str = "0") -> TracedProcess:
    """A process of rank 0 in a container; its number is its tgid."""
    return TracedProcess(tgid, tgid, Identity("n", rank=rank, container=container))
