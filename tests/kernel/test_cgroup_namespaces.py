"""The exporter in a pod with a cgroup namespace of its own: paths of other cgroups are relative to its own."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import gpustall_standin as standin
from tests.support.exporter_process import Exporter, running
from tests.support.held_calls import held_calls
from tests.support.named_cgroup import hierarchies, named_cgroup
from tests.support.placed import ENTER, info_in
from tests.support.requirements import need_command
from tests.support.traced import eventually

NUMBER = f"{os.getpid():08x}"
OWN_POD, POD_UID = f"{NUMBER}-1c2d-4e5f-8a9b-0123456789ab", f"{NUMBER}-1c2d-4e5f-8a9b-ffffffffffff"
OWN_ID, ID = NUMBER + "ab" * 28, NUMBER + "cd" * 28
SHORT_ID = ID[:12]

OWN_MOUNT = 'umount --lazy "$2" && mount -t "$0" -o "$1" none "$2" && shift 2 && exec "$@"'
"""What a container has mounted: its own cgroup as root."""


def own_mount(hierarchy: str) -> list[str]:
    """Arguments of unshare and of a shell, for OWN_MOUNT."""
    kind, option = ("cgroup2", "rw") if hierarchy == "v2" else ("cgroup", "memory")
    return ["--mount", "sh", "-c", OWN_MOUNT, kind, option, str(hierarchies()[hierarchy])]


@contextmanager
def in_pod(hierarchy: str, path: str, *, with_own_mount: bool) -> Iterator[Exporter]:
    """An exporter in a cgroup that is the root of its cgroup namespace.

    with_own_mount: it finds the machine's hierarchy through process 1 alone. A program that never ends keeps libraries probed.
    """
    need_command("unshare", "util-linux")
    with named_cgroup(hierarchy, path) as cgroup:
        under = ["sh", "-c", ENTER, str(cgroup), "unshare", "--cgroup"]
        if with_own_mount:
            under += own_mount(hierarchy)
        with running(under=under) as exporter, held_calls("cudaEventRecord:1"):
            library = standin.build_dir() / "libcudart.so.12"
            eventually(lambda: f"attached to {library}" in exporter.logs, f"{library} is probed")
            yield exporter


def shown(hierarchy: str, own: str, other: str, *, with_own_mount: bool) -> tuple[str, str, str]:
    """Container, its id and the pod of a process in a pod of the class `other`, for an exporter in one of the class `own`."""
    own_path = f"kubepods/{own}pod{OWN_POD}/{OWN_ID}"
    with (
        in_pod(hierarchy, own_path, with_own_mount=with_own_mount) as exporter,
        named_cgroup(hierarchy, f"kubepods/{other}pod{POD_UID}/{ID}") as cgroup,
    ):
        labels = info_in(exporter, cgroup).labels
    return labels["container"], labels["container_id"], labels["pod_uid"]


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
class TestPods:
    @pytest.mark.parametrize(
        ("own", "other"),
        [("besteffort/", "besteffort/"), ("besteffort/", "burstable/"), ("burstable/", ""), ("", "besteffort/")],
    )
    def test_pod_of_any_quality_class_is_known(self, hierarchy: str, own: str, other: str) -> None:
        """`/../../../burstable/pod<uid>/<id>`: a job that requests a GPU and nothing else is `besteffort`."""
        assert shown(hierarchy, own, other, with_own_mount=False) == (SHORT_ID, ID, POD_UID)

    def test_pod_is_known_where_the_machine_s_hierarchy_is_not_mounted(self, hierarchy: str) -> None:
        assert shown(hierarchy, "besteffort/", "burstable/", with_own_mount=True) == (SHORT_ID, ID, POD_UID)


READS = """
import sys
from exporter.host.cgroup_paths import CgroupPaths
from exporter.host.processes import Processes
from exporter.workloads.container import parse_cgroup
text = Processes().cgroup(int(sys.argv[1]))
print(repr((text, parse_cgroup(CgroupPaths.of_machine().from_root(text)).id)))
"""
MACHINE = """
sleep 100 & neighbour=$!
echo $neighbour > "$0/cgroup.procs"
"$@" $neighbour
kill $neighbour
"""
"""A script whose shell is process 1. Its first argument is the cgroup of a neighbour, whose number the others get."""


def seen_from_pod(hierarchy: str, own: str, other: str) -> tuple[str, str]:
    """What a process in a cgroup namespace of its own finds about one in another cgroup: /proc's text, and the id."""
    with named_cgroup(hierarchy, own) as own_cgroup, named_cgroup(hierarchy, other) as cgroup:
        machine = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", MACHINE, str(cgroup)]
        pod = ["sh", "-c", ENTER, str(own_cgroup), "unshare", "--cgroup", *own_mount(hierarchy)]
        done = subprocess.run([*machine, *pod, sys.executable, "-c", READS], check=True, capture_output=True, text=True)
    text, identifier = ast.literal_eval(done.stdout)
    return text, identifier


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
class TestBesideUs:
    """A bare id beside the own cgroup: what it is shows in the path from the root, which process 1 has mounted."""

    @pytest.mark.parametrize("folder", [f"kubepods/pod{OWN_POD}", "docker", f"ecs/cluster/{NUMBER * 4}"])
    def test_neighbour_is_known(self, hierarchy: str, folder: str) -> None:
        text, identifier = seen_from_pod(hierarchy, f"{folder}/{OWN_ID}", f"{folder}/{ID}")

        assert f":/../{ID}\n" in text
        assert identifier == ID

    def test_cgroup_that_a_container_has_made_is_not_another_container(self, hierarchy: str) -> None:
        _, identifier = seen_from_pod(hierarchy, f"docker/{OWN_ID}", f"docker/{ID}/docker/{OWN_ID}")

        assert identifier == ID
