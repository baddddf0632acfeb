"""Processes in cgroups named as by container runtimes, exported under those names."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

import gpustall_standin as standin
from tests.support.exporter_process import Exporter, running
from tests.support.held_calls import held_calls
from tests.support.named_cgroup import named_cgroup
from tests.support.placed import info_in
from tests.support.traced import eventually

# The first twelve digits are shown. They contain the tgid of this process, so that two runs do not collide.
SHORT_ID = f"{os.getpid():012x}"
ID = SHORT_ID + "ab" * 26
POD_UID = f"{os.getpid():08x}-1c2d-4e5f-8a9b-0123456789ab"
UNIT = f"gpustall-test-{os.getpid()}.service"


@pytest.fixture(scope="module")
def exporter() -> Iterator[Exporter]:
    """A program that never ends keeps the libraries mapped and probed."""
    with running() as found, held_calls("cudaEventRecord:1"):
        path = standin.build_dir() / "libcudart.so.12"
        eventually(lambda: f"attached to {path}" in found.logs, f"{path} is probed")
        yield found


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
class TestIdentity:
    """In either version of cgroups; on a machine with both, the more specific one counts."""

    def test_docker_container_has_its_short_id(self, exporter: Exporter, hierarchy: str) -> None:
        """As `docker ps` shows it."""
        with named_cgroup(hierarchy, f"docker/{ID}") as cgroup:
            labels = info_in(exporter, cgroup).labels

        assert labels["container"] == SHORT_ID
        assert (labels["container_id"], labels["container_runtime"]) == (ID, "docker")

    def test_pod_by_the_cgroupfs_driver_has_its_uid(self, exporter: Exporter, hierarchy: str) -> None:
        """To be joined with kube-state-metrics."""
        with named_cgroup(hierarchy, f"kubepods/burstable/pod{POD_UID}/{ID}") as cgroup:
            labels = info_in(exporter, cgroup).labels

        assert (labels["container"], labels["pod_uid"]) == (SHORT_ID, POD_UID)
        assert (labels["container_runtime"], labels["namespace"], labels["pod"]) == ("kubernetes", "", "")

    def test_pod_by_the_systemd_driver_has_its_uid(self, exporter: Exporter, hierarchy: str) -> None:
        """containerd with the systemd driver replaces the dashes of the uid by underscores."""
        slices = "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" + POD_UID.replace("-", "_")
        with named_cgroup(hierarchy, f"{slices}.slice/cri-containerd-{ID}.scope") as cgroup:
            labels = info_in(exporter, cgroup).labels

        assert (labels["container"], labels["pod_uid"]) == (SHORT_ID, POD_UID)
        assert labels["container_runtime"] == "containerd"

    def test_slurm_job_number_is_the_container(self, exporter: Exporter, hierarchy: str) -> None:
        with named_cgroup(hierarchy, "slurm/uid_1000/job_4711/step_0/task_0") as cgroup:
            labels = info_in(exporter, cgroup).labels

        assert (labels["container"], labels["slurm_job_id"]) == ("job_4711", "4711")

    @pytest.mark.parametrize(
        ("path", "container", "manager"),
        [
            ("system.slice/slurmstepd.scope/sEKNKTV3WPV500/step_0/user/task_0", "sEKNKTV3WPV500", "slurm"),
            ("nomad.slice/share.slice/5ccda8d0-1111-4222-8333-444455556666.a.scope", "5ccda8d0.a", "nomad"),
            ("pbs_jobs.service/jobid/4711.server", "4711.server", "pbs"),
        ],
    )
    def test_batch_job_is_the_container(
        self, exporter: Exporter, hierarchy: str, path: str, container: str, manager: str
    ) -> None:
        with named_cgroup(hierarchy, path) as cgroup:
            labels = info_in(exporter, cgroup).labels

        assert (labels["container"], labels["container_runtime"]) == (container, manager)

    def test_systemd_unit_is_the_container(self, exporter: Exporter, hierarchy: str) -> None:
        with named_cgroup(hierarchy, f"system.slice/{UNIT}") as cgroup:
            labels = info_in(exporter, cgroup).labels

        assert (labels["container"], labels["unit"]) == (UNIT, UNIT)

    @pytest.mark.parametrize("namespace", ["k8s.io", "default"])
    def test_container_in_a_namespace_of_containerd(self, exporter: Exporter, hierarchy: str, namespace: str) -> None:
        """A pod without a cgroup of its own, and nerdctl, both without systemd."""
        with named_cgroup(hierarchy, f"{namespace}/{ID}") as cgroup:
            labels = info_in(exporter, cgroup).labels

        assert (labels["container"], labels["container_id"]) == (SHORT_ID, ID)
        assert labels["container_runtime"] == "containerd"

    def test_hexadecimal_digits_elsewhere_are_no_container(self, exporter: Exporter, hierarchy: str) -> None:
        with named_cgroup(hierarchy, f"other/{ID}") as cgroup:
            labels = info_in(exporter, cgroup).labels

        assert labels["container_id"] != ID
        assert labels["container"] != SHORT_ID
