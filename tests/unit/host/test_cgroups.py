"""Control groups: numbers to paths, files to numbers, over fake trees."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.host.cgroups import Hierarchy, hierarchy_of, keyed_numbers, unified_hierarchy


class TestHierarchies:
    """Which one has a controller."""

    @pytest.fixture
    def mounts(self, tmp_path: Path) -> Path:
        """A /proc. Memory is of version 1 here, disks are of version 2."""
        unified = tmp_path / "unified"
        unified.mkdir()
        (unified / "cgroup.controllers").write_text("io pids\n")
        (tmp_path / "self").mkdir()
        (tmp_path / "self" / "mounts").write_text(
            f"proc /proc proc rw 0 0\ncgroup /old/memory cgroup rw,memory 0 0\ncgroup2 {unified} cgroup2 rw 0 0\n"
        )
        return tmp_path

    def test_version_1_names_its_controllers_in_the_mount(self, mounts: Path) -> None:
        """As options."""
        found = hierarchy_of("memory", mounts)

        assert found is not None
        assert (found.root, found.version) == (Path("/old/memory"), 1)

    def test_version_2_calls_the_controller_of_disks_io(self, mounts: Path, tmp_path: Path) -> None:
        """And lists it in a file."""
        found = hierarchy_of("blkio", mounts)

        assert found is not None
        assert (found.root, found.version) == (tmp_path / "unified", 2)

    def test_controller_that_nobody_has_is_absent(self, mounts: Path) -> None:
        """And no failure."""
        assert hierarchy_of("cpu", mounts) is None

    def test_sockets_belong_to_version_2_whatever_it_controls(self, mounts: Path, tmp_path: Path) -> None:
        """Found by its type."""
        found = unified_hierarchy(mounts)

        assert found is not None
        assert found.root == tmp_path / "unified"

    def test_no_mounts_is_no_hierarchy(self, tmp_path: Path) -> None:
        """A file that is not there."""
        assert hierarchy_of("memory", tmp_path / "none") is None
        assert unified_hierarchy(tmp_path / "none") is None


class TestInContainers:
    """Of its own groups a container sees the part below its own."""

    @pytest.fixture
    def machine(self, tmp_path: Path) -> Path:
        """A /proc, and the hierarchy that the machine's first process sees: two pods, in the first of which we are."""
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

    def test_machine_s_is_seen_through_its_first_process(self, machine: Path) -> None:
        """And paths that /proc tells from our own group on are told from the root on."""
        root = machine / "1" / "root" / "sys" / "fs" / "cgroup"
        found = hierarchy_of("memory", machine, root_id=root.stat().st_ino)

        assert found is not None
        assert found.root == root
        assert found.path_in("0::/../../pod2/b\n") == "/kubepods/pod2/b"
        assert found.path_in("0::/\n") == "/kubepods/pod1/a"

    def test_without_the_right_to_look_there_it_is_our_own(self, machine: Path) -> None:
        """Whatever lies above is out of sight."""
        root = machine / "1" / "root" / "sys" / "fs" / "cgroup"
        number = root.stat().st_ino
        (machine / "1" / "mounts").unlink()
        found = hierarchy_of("memory", machine, root_id=number)

        assert found is not None
        assert found.root == machine / "own"
        assert found.path_in("0::/../../pod2/b\n") is None


class TestGroups:
    """Of one hierarchy."""

    @pytest.fixture
    def clock(self) -> list[float]:
        """The time now."""
        return [100.0]

    @pytest.fixture
    def hierarchy(self, tmp_path: Path, clock: list[float]) -> Hierarchy:
        """With a group below another one."""
        (tmp_path / "system.slice" / "a.service").mkdir(parents=True)
        return Hierarchy(tmp_path, 2, "memory", clock=lambda: clock[0])

    def test_number_of_a_folder_leads_to_its_path(self, hierarchy: Hierarchy, tmp_path: Path) -> None:
        """From the root on."""
        number = (tmp_path / "system.slice" / "a.service").stat().st_ino

        assert hierarchy.path_of(number) == "/system.slice/a.service"
        assert hierarchy.path_of(tmp_path.stat().st_ino) == "/"

    def test_group_that_comes_is_found_a_second_later(
        self, hierarchy: Hierarchy, tmp_path: Path, clock: list[float]
    ) -> None:
        """A hierarchy is not gone through for each number that nobody has."""
        hierarchy.path_of(1)
        (tmp_path / "new").mkdir()
        number = (tmp_path / "new").stat().st_ino

        assert hierarchy.path_of(number) is None
        clock[0] += 1.0
        assert hierarchy.path_of(number) == "/new"

    def test_group_that_is_removed_is_gone(self, hierarchy: Hierarchy, tmp_path: Path) -> None:
        """Its path is still known."""
        folder = tmp_path / "system.slice" / "a.service"
        number = folder.stat().st_ino
        hierarchy.path_of(number)
        folder.rmdir()

        assert hierarchy.is_gone(number)

    def test_file_that_is_gone_has_no_numbers(self, hierarchy: Hierarchy) -> None:
        """Nor has a group."""
        assert hierarchy.numbers("/gone", "memory.stat") == {}
        assert hierarchy.number("/system.slice", "memory.max") is None

    def test_no_limit_is_no_number(self, hierarchy: Hierarchy, tmp_path: Path) -> None:
        """`max`."""
        (tmp_path / "system.slice" / "memory.max").write_text("max\n")
        (tmp_path / "system.slice" / "memory.current").write_text("4096\n")

        assert hierarchy.number("/system.slice", "memory.max") is None
        assert hierarchy.number("/system.slice", "memory.current") == 4096

    def test_lines_of_another_form_are_left_out(self) -> None:
        """Of memory.stat and its like."""
        assert keyed_numbers("pgfault 12\nbroken\nname -3\noom_kill 2\n") == {"pgfault": 12, "oom_kill": 2}

    @pytest.mark.parametrize(
        ("text", "path"),
        [
            ("3:memory:/old\n0::/kubepods/pod1\n", "/kubepods/pod1"),
            ("0::/../outside\n", None),
            ("3:memory:/old\n", None),
        ],
    )
    def test_path_of_a_process_is_that_of_version_2(self, hierarchy: Hierarchy, text: str, path: str | None) -> None:
        """None where it lies outside of what is mounted here."""
        assert hierarchy.path_in(text) == path

    def test_path_of_a_process_is_that_of_the_controller(self, tmp_path: Path) -> None:
        """In version 1, where several may share a hierarchy."""
        hierarchy = Hierarchy(tmp_path, 1, "cpu")

        assert hierarchy.path_in("4:cpu,cpuacct:/job\n3:memory:/other\n") == "/job"
