"""cgroup_paths: the path of a cgroup from the root of its hierarchy, in a cgroup namespace and out of one."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.host.cgroup_paths import CgroupPaths
from exporter.host.cgroups import Hierarchy
from tests.support.cgroups import hierarchy_in


@pytest.fixture
def hierarchy(tmp_path: Path) -> Hierarchy:
    """Seen from /kubepods/pod1/a."""
    for path in ("kubepods/pod1/a", "kubepods/pod2/b", "system.slice/sshd.service"):
        (tmp_path / path).mkdir(parents=True)
    return hierarchy_in(tmp_path, own_id=(tmp_path / "kubepods/pod1/a").stat().st_ino)


class TestResolve:
    @pytest.mark.parametrize(
        ("path", "resolved"),
        [
            ("/", "/kubepods/pod1/a"),
            ("/worker", "/kubepods/pod1/a/worker"),
            ("/../../pod2/b", "/kubepods/pod2/b"),
            ("/../../../system.slice/sshd.service", "/system.slice/sshd.service"),
        ],
    )
    def test_path_in_a_namespace_is_followed_to_the_root(self, hierarchy: Hierarchy, path: str, resolved: str) -> None:
        paths = CgroupPaths(is_at_root=False, find=lambda _controller: hierarchy)

        assert paths.resolve(f"0::{path}\n") == (resolved,)

    def test_path_in_the_machine_s_namespace_is_unchanged(self) -> None:
        paths = CgroupPaths(is_at_root=True, find=lambda _controller: None)

        assert paths.resolve("7:cpu,cpuacct:/docker/a\n0::/x:y\n") == ("/docker/a", "/x:y")

    def test_path_without_a_hierarchy_stays_as_it_is(self) -> None:
        """With its dots, so that it is not taken for one from the root."""
        paths = CgroupPaths(is_at_root=False, find=lambda _controller: None)

        assert paths.resolve("0::/../../system.slice/sshd.service\n") == ("/../../system.slice/sshd.service",)

    def test_text_from_the_root_has_the_same_lines(self) -> None:
        """A hierarchy in which the own cgroup is unknown stays as it is."""
        own = {"": "/kubepods/pod1/a", "cpu": None}
        paths = CgroupPaths(is_at_root=False, find=lambda _controller: None, own_path=lambda name: own[name])
        text = "2:cpu,cpuacct:/../b\n0::/../../pod2/b:c\n"

        assert paths.from_root(text) == "2:cpu,cpuacct:/../b\n0::/kubepods/pod2/b:c\n"

    def test_text_in_the_machine_s_namespace_is_the_same(self) -> None:
        paths = CgroupPaths(is_at_root=True, find=lambda _controller: None)

        assert paths.from_root("0::/docker/a\n") == "0::/docker/a\n"

    def test_name_of_a_cgroup_begins_no_line(self) -> None:
        """Only a newline does, which no name can hold."""
        paths = CgroupPaths(is_at_root=True, find=lambda _controller: None)

        assert paths.resolve("0::/a\u20280::/hogs\x0b0::/b\n") == ("/a\u20280::/hogs\x0b0::/b",)

    def test_unreadable_namespace_is_not_the_machine_s(self, tmp_path: Path) -> None:
        assert not CgroupPaths.of_machine(tmp_path).is_at_root
