"""cgroup_handles: the kernel's ids of real cgroups, and their folders."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from exporter.host.cgroup_handles import check_id, path_by_id
from tests.support.named_cgroup import hierarchies, named_cgroup

NAME = f"gpustall-handles-{os.getpid()}"
BOUND = 'mount --bind "$0" "$1" && shift && exec "$@"'
FIND = """
import sys
from exporter.host.cgroup_handles import path_by_id
for number in sys.argv[2:]:
    print(path_by_id(sys.argv[1], int(number)))
"""


@pytest.fixture(params=["v1", "v2"])
def hierarchy(request: pytest.FixtureRequest) -> str:
    if request.param not in hierarchies():
        pytest.skip(f"needs control groups {request.param}, mounted")
    return str(request.param)


class TestPathById:
    def test_inode_number_of_a_folder_is_the_id_of_its_path(self, hierarchy: str) -> None:
        root = hierarchies()[hierarchy]
        with named_cgroup(hierarchy, f"{NAME}/inner") as cgroup:
            found = path_by_id(str(root), cgroup.stat().st_ino)

        assert found == f"/{NAME}/inner"
        assert path_by_id(str(root), root.stat().st_ino) == "/"

    def test_removed_cgroup_is_not_found(self, hierarchy: str) -> None:
        with named_cgroup(hierarchy, NAME) as cgroup:
            number = cgroup.stat().st_ino
            check_id(str(hierarchies()[hierarchy]), number)

        for look_up in (path_by_id, check_id):
            with pytest.raises(FileNotFoundError):
                look_up(str(hierarchies()[hierarchy]), number)

    def test_path_is_that_of_the_node_where_the_hierarchy_is_reached_through_a_process(self, hierarchy: str) -> None:
        """With mounts of its own, as the node's first process has for a container."""
        command = ["unshare", "--mount", "sh", "-c", "echo ready; read line"]
        with (
            named_cgroup(hierarchy, NAME) as cgroup,
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as first,
        ):
            assert first.stdout is not None
            assert first.stdout.readline() == "ready\n"
            root = Path(f"/proc/{first.pid}/root") / hierarchies()[hierarchy].relative_to("/")
            found = path_by_id(str(root), cgroup.stat().st_ino)
            first.communicate("")

        assert found == f"/{NAME}"

    def test_cgroup_above_what_is_mounted_has_no_path(self, hierarchy: str, tmp_path: Path) -> None:
        """A container has mounted its own cgroup."""
        root = hierarchies()[hierarchy]
        with named_cgroup(hierarchy, f"{NAME}/own") as own:
            numbers = [str(one.stat().st_ino) for one in (own, own.parent, root)]
            shown = subprocess.run(
                [
                    "unshare",
                    "--mount",
                    "sh",
                    "-c",
                    BOUND,
                    own,
                    tmp_path,
                    sys.executable,
                    "-c",
                    FIND,
                    tmp_path,
                    *numbers,
                ],
                capture_output=True,
                text=True,
                check=True,
            ).stdout

        assert shown.split() == ["/", "None", "None"]
