"""Cgroups without a kernel: contents of their files, and which traced processes run in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from exporter.host.cgroups import Hierarchy, keyed_numbers
from exporter.model import Identity
from exporter.series.host_totals import TracedProcess


@dataclass
class FakeCgroups:
    """In place of WorkloadCgroups. files: (path, name) -> text. by_tgid: path of the cgroup that a process runs in."""

    version: int = 2
    files: dict[tuple[str, str], str] = field(default_factory=dict)
    by_tgid: dict[int, str] = field(default_factory=dict)

    def paths(self, traced: Sequence[TracedProcess]) -> dict[Identity, set[str]]:
        found: dict[Identity, set[str]] = {}
        for one in traced:
            if one.tgid in self.by_tgid:
                found.setdefault(replace(one.identity, rank=""), set()).add(self.by_tgid[one.tgid])
        return found

    def numbers(self, path: str, file: str) -> Mapping[str, int]:
        return keyed_numbers(self.files.get((path, file), ""))

    def number(self, path: str, file: str) -> int | None:
        text = self.files.get((path, file), "")
        return int(text) if text.isdecimal() else None

    def words(self, path: str, file: str) -> list[str]:
        return self.files.get((path, file), "").split()


def traced(tgid: int, container: str = "c", rank: str = "0") -> TracedProcess:
    """A process of rank 0 in a container; its number is its tgid."""
    return TracedProcess(tgid, tgid, Identity("n", rank=rank, container=container))


def hierarchy_in(root: Path, own_id: int | None = None) -> Hierarchy:
    """Folders that stand for cgroups of version 2: the number of a folder's inode is the id."""
    return Hierarchy(root, 2, "memory", own_id, by_inode, by_inode)


def by_inode(root: str, cgroup_id: int) -> str | None:
    """As cgroup_handles.path_by_id()."""
    for folder in (Path(root), *Path(root).rglob("*")):
        if folder.stat().st_ino == cgroup_id:
            return "/" + folder.relative_to(root).as_posix().removeprefix(".")
    raise FileNotFoundError(cgroup_id)
