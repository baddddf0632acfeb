"""workload_cgroups: the cgroups that traced processes run in."""

from __future__ import annotations

from pathlib import Path

from exporter.host.cgroups import Hierarchy
from exporter.host.processes import Processes
from exporter.hostmetrics.workload_cgroups import PATHS_MAX, WorkloadCgroups
from exporter.model import Identity
from tests.support.cgroups import traced
from tests.unit.host.process_tree import process

CONTAINER = Identity("n", container="c")


def cgroups(tmp_path: Path, *, version: int = 1) -> WorkloadCgroups:
    """Two processes of one container, and a hierarchy of the memory controller."""
    process(tmp_path / "proc", 10, cgroup=b"5:memory:/c\n4:cpu:/other\n0::/unified\n")
    process(tmp_path / "proc", 11, cgroup=b"5:memory:/c/inner\n0::/unified\n")
    (tmp_path / "memory" / "c").mkdir(parents=True)
    return WorkloadCgroups(Processes(tmp_path / "proc"), Hierarchy(tmp_path / "memory", version, "memory"))


def test_ranks_of_a_container_share_its_identity(tmp_path: Path) -> None:
    """Each with a cgroup of its own."""
    found = cgroups(tmp_path).paths([traced(10, rank="0"), traced(11, rank="1")])

    assert found == {CONTAINER: {"/c", "/c/inner"}}


def test_version_2_has_one_path_for_all_controllers(tmp_path: Path) -> None:
    """The line without controllers."""
    assert cgroups(tmp_path, version=2).paths([traced(10)]) == {CONTAINER: {"/unified"}}


def test_ended_process_and_tgid_0_are_skipped(tmp_path: Path) -> None:
    assert cgroups(tmp_path).paths([traced(12), traced(0)]) == {}


def test_numbers_named_numbers_and_words_are_read(tmp_path: Path) -> None:
    """Empty without the file."""
    found = cgroups(tmp_path)
    (tmp_path / "memory" / "c" / "memory.max").write_text("7\n", encoding="ascii")
    (tmp_path / "memory" / "c" / "cpu.max").write_text("max 100\n", encoding="ascii")
    (tmp_path / "memory" / "c" / "memory.stat").write_text("anon 1\nfile 2\n", encoding="ascii")

    assert found.number("/c", "memory.max") == 7
    assert found.words("/c", "cpu.max") == ["max", "100"]
    assert found.numbers("/c", "memory.stat") == {"anon": 1, "file": 2}
    assert (found.number("/d", "x"), found.words("/d", "x"), found.numbers("/d", "x")) == (None, [], {})


def test_without_a_hierarchy_there_are_no_cgroups(tmp_path: Path) -> None:
    """The kernel is built without the controller."""
    found = WorkloadCgroups(Processes(tmp_path), None)

    assert found.version == 0
    assert found.paths([traced(10)]) == {}
    assert (found.number("/", "x"), found.words("/", "x"), found.numbers("/", "x")) == (None, [], {})


def test_owner_of_thousands_of_cgroups_leaves_room_for_others(tmp_path: Path) -> None:
    """A user has each process in a cgroup of its own; one of a service comes last."""
    for tgid in range(10, 10 + PATHS_MAX):
        process(tmp_path / "proc", tgid, cgroup=b"0::/user.slice/user-1001.slice/%d\n" % tgid)
    process(tmp_path / "proc", 9, cgroup=b"0::/system.slice/a.service\n")
    found = WorkloadCgroups(Processes(tmp_path / "proc"), Hierarchy(tmp_path, 2, "memory")).paths(
        [traced(tgid) for tgid in (*range(10, 10 + PATHS_MAX), 9)]
    )

    assert "/system.slice/a.service" in found[CONTAINER]
    assert len(found[CONTAINER]) == PATHS_MAX
