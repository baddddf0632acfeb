"""cgroups: ids to paths, files to numbers, over fake trees."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from exporter.host.cgroups import (
    LEVELS_MAX,
    PATHS_KEPT,
    Hierarchy,
    hierarchy_of,
    keyed_numbers,
    unified_hierarchy,
    with_ancestors,
)
from tests.support.cgroups import by_inode, hierarchy_in


class TestHierarchies:
    """Which hierarchy has a controller."""

    @pytest.fixture
    def mounts(self, tmp_path: Path) -> Path:
        """A /proc in which memory is of version 1 and disks are of version 2."""
        unified = tmp_path / "unified"
        unified.mkdir()
        (unified / "cgroup.controllers").write_text("io pids\n")
        (tmp_path / "self").mkdir()
        (tmp_path / "self" / "mounts").write_text(
            f"proc /proc proc rw 0 0\ncgroup /old/memory cgroup rw,memory 0 0\ncgroup2 {unified} cgroup2 rw 0 0\n"
        )
        return tmp_path

    def test_version_1_has_its_controllers_in_the_mount_options(self, mounts: Path) -> None:
        found = hierarchy_of("memory", mounts)

        assert found is not None
        assert (found.root, found.version) == (Path("/old/memory"), 1)

    def test_controller_of_disks_is_io_in_version_2(self, mounts: Path, tmp_path: Path) -> None:
        """Listed in cgroup.controllers."""
        found = hierarchy_of("blkio", mounts)

        assert found is not None
        assert (found.root, found.version) == (tmp_path / "unified", 2)

    def test_unknown_controller_has_no_hierarchy(self, mounts: Path) -> None:
        assert hierarchy_of("cpu", mounts) is None

    def test_unified_hierarchy_is_found_by_its_type(self, mounts: Path, tmp_path: Path) -> None:
        """Whatever controllers it has."""
        found = unified_hierarchy(mounts)

        assert found is not None
        assert found.root == tmp_path / "unified"

    def test_missing_mounts_file_is_no_hierarchy(self, tmp_path: Path) -> None:
        assert hierarchy_of("memory", tmp_path / "none") is None
        assert unified_hierarchy(tmp_path / "none") is None


class TestInContainers:
    """A container has mounted only the part of the hierarchy below its own cgroup."""

    @pytest.fixture
    def machine(self, tmp_path: Path) -> Path:
        """A /proc, and the hierarchy of the node's first process: two pods; the exporter is in the first one."""
        root = tmp_path / "1" / "root" / "sys" / "fs" / "cgroup"
        for pod in ("pod1/a", "pod2/b"):
            (root / "kubepods" / pod).mkdir(parents=True)
        (root / "cgroup.controllers").write_text("memory\n")
        (root / "kubepods" / "pod1" / "a" / "cgroup.controllers").write_text("memory\n")
        own = tmp_path / "own"
        own.symlink_to(root / "kubepods" / "pod1" / "a")
        (tmp_path / "self").mkdir()
        (tmp_path / "self" / "mounts").write_text(f"cgroup2 {own} cgroup2 rw 0 0\n")
        (tmp_path / "1" / "mounts").write_text("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n")
        return tmp_path

    def test_hierarchy_of_the_node_is_read_through_its_first_process(self, machine: Path) -> None:
        """Paths in /proc that are relative to our own cgroup become absolute."""
        root = machine / "1" / "root" / "sys" / "fs" / "cgroup"
        found = hierarchy_of("memory", machine, root_id=root.stat().st_ino)

        assert found is not None
        found.find = by_inode
        assert found.root == root
        assert found.path_in("0::/../../pod2/b\n") == "/kubepods/pod2/b"
        assert found.path_in("0::/\n") == "/kubepods/pod1/a"

    def test_without_permission_the_hierarchy_is_our_own(self, machine: Path) -> None:
        """Cgroups above it are not visible."""
        root = machine / "1" / "root" / "sys" / "fs" / "cgroup"
        number = root.stat().st_ino
        (machine / "1" / "mounts").unlink()
        found = hierarchy_of("memory", machine, root_id=number)

        assert found is not None
        assert found.root == machine / "own"
        assert found.path_in("0::/../../pod2/b\n") is None


class TestCgroups:
    @pytest.fixture
    def hierarchy(self, tmp_path: Path) -> Hierarchy:
        """With one cgroup below another."""
        (tmp_path / "system.slice" / "a.service").mkdir(parents=True)
        return hierarchy_in(tmp_path)

    def test_removed_cgroup_is_gone(self, hierarchy: Hierarchy, tmp_path: Path) -> None:
        """Its path is still known."""
        folder = tmp_path / "system.slice" / "a.service"
        number = folder.stat().st_ino
        hierarchy.path_of(number)
        folder.rmdir()

        assert hierarchy.is_gone(number)
        assert hierarchy.path_of(number) == "/system.slice/a.service"

    def test_what_cannot_be_looked_up_is_not_gone(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        """Under a seccomp filter. The log has one line about it."""

        def refused(_root: str, _cgroup_id: int) -> str | None:
            raise PermissionError(errno.EPERM, "Operation not permitted")

        hierarchy = Hierarchy(tmp_path, 2, "memory", find=refused, check=refused)

        assert not hierarchy.is_gone(7)
        assert [hierarchy.path_of(number) for number in (7, 8)] == [None, None]
        assert len(caplog.records) <= 1

    def test_paths_of_so_many_are_kept(self, tmp_path: Path) -> None:
        """The one that was looked up first is looked up again."""
        looked_up: list[int] = []

        def found(_root: str, cgroup_id: int) -> str | None:
            looked_up.append(cgroup_id)
            return f"/{cgroup_id}"

        hierarchy = Hierarchy(tmp_path, 2, "memory", find=found)
        for number in (*range(PATHS_KEPT + 1), 0, PATHS_KEPT):
            hierarchy.path_of(number)

        assert looked_up == [*range(PATHS_KEPT + 1), 0]

    def test_missing_file_has_no_numbers(self, hierarchy: Hierarchy) -> None:
        """Nor has a missing cgroup."""
        assert hierarchy.numbers("/gone", "memory.stat") == {}
        assert hierarchy.number("/system.slice", "memory.max") is None

    def test_max_is_no_number(self, hierarchy: Hierarchy, tmp_path: Path) -> None:
        (tmp_path / "system.slice" / "memory.max").write_text("max\n")
        (tmp_path / "system.slice" / "memory.current").write_text("4096\n")

        assert hierarchy.number("/system.slice", "memory.max") is None
        assert hierarchy.number("/system.slice", "memory.current") == 4096

    def test_lines_of_another_form_are_skipped(self) -> None:
        assert keyed_numbers("pgfault 12\nbroken\nname -3\noom_kill 2\n") == {"pgfault": 12, "oom_kill": 2}

    @pytest.mark.parametrize(
        ("text", "path"),
        [
            ("3:memory:/old\n0::/kubepods/pod1\n", "/kubepods/pod1"),
            ("0::/../outside\n", None),
            ("3:memory:/old\n", None),
        ],
    )
    def test_path_of_a_process_in_version_2(self, hierarchy: Hierarchy, text: str, path: str | None) -> None:
        """None when it is outside of what is mounted here."""
        assert hierarchy.path_in(text) == path

    def test_path_of_a_process_is_that_of_its_controller_in_version_1(self, tmp_path: Path) -> None:
        """Several controllers may share a hierarchy."""
        hierarchy = Hierarchy(tmp_path, 1, "cpu")

        assert hierarchy.path_in("4:cpu,cpuacct:/job\n3:memory:/other\n") == "/job"


class TestAncestors:
    def test_root_is_none_of_them(self) -> None:
        assert with_ancestors("/a/b") == ["/a/b", "/a"]

    def test_of_thousands_the_outermost_are_looked_at(self) -> None:
        """And the cgroup itself."""
        path = "/a" * 1_500

        assert with_ancestors(path) == [path, *("/a" * levels for levels in range(LEVELS_MAX, 0, -1))]
