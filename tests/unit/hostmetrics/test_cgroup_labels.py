"""cgroup_labels: the identity of a cgroup's container, over a fake hierarchy."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.host.cgroups import Hierarchy
from exporter.hostmetrics.cgroup_labels import CgroupLabels
from exporter.model import Identity
from exporter.workloads.orchestrators.pod_cache import Pod, PodCache
from tests.support.cgroups import hierarchy_in

CONTAINER_ID = "0123456789ab" + "c" * 52
SCOPE = f"docker-{CONTAINER_ID}.scope"
NODE = Identity("gpu7")
CONTAINER = Identity("gpu7", container="0123456789ab")


@pytest.fixture
def hierarchy(tmp_path: Path) -> Hierarchy:
    """With a service, and a container that has a cgroup below it."""
    (tmp_path / "system.slice/cron.service").mkdir(parents=True)
    (tmp_path / SCOPE / "init").mkdir(parents=True)
    return hierarchy_in(tmp_path)


def id_of(hierarchy: Hierarchy, path: str) -> int:
    return (hierarchy.root / path).stat().st_ino


class TestIdentity:
    def test_cgroup_of_a_container_has_its_label(self, hierarchy: Hierarchy) -> None:
        """Also one below it."""
        labels = CgroupLabels("gpu7", hierarchy)

        assert labels.identity_of(id_of(hierarchy, SCOPE)) == CONTAINER
        assert labels.identity_of(id_of(hierarchy, f"{SCOPE}/init")) == CONTAINER

    def test_unknown_cgroup_is_the_node_s(self, hierarchy: Hierarchy) -> None:
        assert CgroupLabels("gpu7", hierarchy).identity_of(2**40) == NODE

    def test_root_is_the_node_s(self, hierarchy: Hierarchy) -> None:
        assert CgroupLabels("gpu7", hierarchy).identity_of_path("/") == NODE

    def test_without_a_hierarchy_all_is_the_node_s(self) -> None:
        assert CgroupLabels("gpu7", None).identity_of(7) == NODE

    def test_orchestrator_names_the_container(self, hierarchy: Hierarchy) -> None:
        pods = PodCache()
        pods.put("uid", Pod("train", "job-0", ("uid",), {CONTAINER_ID: "worker"}))
        labels = CgroupLabels("gpu7", hierarchy, pods)

        assert labels.identity_of_path(f"/{SCOPE}") == Identity(
            "gpu7", container="worker", namespace="train", pod="job-0"
        )

    def test_container_unknown_to_the_orchestrator_has_its_id(self, hierarchy: Hierarchy) -> None:
        assert CgroupLabels("gpu7", hierarchy, PodCache()).identity_of_path(f"/{SCOPE}") == CONTAINER

    def test_container_made_inside_of_another_one_is_not_asked_for(self, hierarchy: Hierarchy) -> None:
        """Nor one that a user, a service or a job may have made."""
        pods = PodCache()
        pods.put("uid", Pod("train", "job-0", ("uid",), {CONTAINER_ID: "worker"}))
        labels = CgroupLabels("gpu7", hierarchy, pods)

        for path in (f"/docker/{'7' * 64}/docker/{CONTAINER_ID}", f"/docker/{'7' * 64}/kubepods/poduid/{CONTAINER_ID}"):
            assert labels.identity_of_path(path) == Identity("gpu7", container="7" * 12)
        assert labels.identity_of_path(f"/system.slice/a.service/libpod-{CONTAINER_ID}") == Identity(
            "gpu7", container="0123456789ab (a.service)"
        )

    def test_container_called_like_the_rest_is_marked(self, hierarchy: Hierarchy) -> None:
        """`other` stands for all workloads beyond the limit."""
        pods = PodCache()
        pods.put("uid", Pod("train", "job-0", ("uid",), {CONTAINER_ID: "other"}))

        assert CgroupLabels("gpu7", hierarchy, pods).identity_of_path(f"/{SCOPE}").container == "other (container)"


class TestCulprit:
    """The name under which a cgroup is a culprit."""

    def test_service_and_container_have_their_label(self, hierarchy: Hierarchy) -> None:
        labels = CgroupLabels("gpu7", hierarchy)

        assert labels.culprit_name(id_of(hierarchy, "system.slice/cron.service")) == "cron.service"
        assert labels.culprit_name(id_of(hierarchy, f"{SCOPE}/init")) == "0123456789ab"

    def test_container_of_a_pod_has_the_name_of_the_pod(self, hierarchy: Hierarchy) -> None:
        """With its namespace, as kubectl takes it."""
        pods = PodCache()
        pods.put("uid", Pod("train", "job-0", ("uid",), {CONTAINER_ID: "worker"}))

        assert CgroupLabels("gpu7", hierarchy, pods).culprit_name(id_of(hierarchy, SCOPE)) == "train/job-0"

    def test_other_cgroup_has_its_own_name(self, hierarchy: Hierarchy) -> None:
        """Such as a login session."""
        (hierarchy.root / "user.slice/session-3.scope").mkdir(parents=True)

        labels = CgroupLabels("gpu7", hierarchy)

        assert labels.culprit_name(id_of(hierarchy, "user.slice/session-3.scope")) == "session-3.scope"

    @pytest.mark.parametrize(
        "name", ["hypervisor", "outside", "other", "sshd.service", "0123456789ab", "job_7", "a (b)"]
    )
    def test_name_of_another_kind_is_marked(self, hierarchy: Hierarchy, name: str) -> None:
        """A cgroup that is no container's has a name that its maker chose."""
        (hierarchy.root / "tenants" / name).mkdir(parents=True)

        assert CgroupLabels("gpu7", hierarchy).culprit_name(id_of(hierarchy, f"tenants/{name}")) == f"{name} (cgroup)"

    def test_name_is_printable(self, hierarchy: Hierarchy) -> None:
        (hierarchy.root / "tenants\x1b[31m").mkdir()

        assert CgroupLabels("gpu7", hierarchy).culprit_name(id_of(hierarchy, "tenants\x1b[31m")) == "tenants\ufffd[31m"

    def test_root_and_unknown_cgroups_have_none(self, hierarchy: Hierarchy) -> None:
        labels = CgroupLabels("gpu7", hierarchy)

        assert (labels.culprit_name(id_of(hierarchy, ".")), labels.culprit_name(2**40)) == ("", "")
        assert CgroupLabels("gpu7", None).culprit_name(7) == ""


class TestGone:
    def test_removed_cgroup_is_gone(self, hierarchy: Hierarchy) -> None:
        labels = CgroupLabels("gpu7", hierarchy)
        cgroup_id = id_of(hierarchy, f"{SCOPE}/init")
        assert not labels.is_gone(cgroup_id)
        (hierarchy.root / SCOPE / "init").rmdir()

        assert labels.is_gone(cgroup_id)

    def test_without_a_hierarchy_no_cgroup_is_gone(self) -> None:
        """So that no row is deleted by mistake."""
        assert not CgroupLabels("gpu7", None).is_gone(7)
