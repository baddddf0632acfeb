"""orchestrators.pods: which parts of a Pod document are read, and which documents are refused."""

from __future__ import annotations

from typing import Any

import pytest

from exporter.workloads.orchestrators.pod_cache import Pod
from exporter.workloads.orchestrators.pods import pod_of
from tests.support.kubernetes_api import pod, uid_of

ONE, TWO = "1" * 64, "2" * 64


class TestPods:
    """Well-formed documents."""

    def test_containers_by_their_ids(self) -> None:
        found = pod_of(pod("job-0", ("train", ONE), ("sidecar", TWO)), "gpu7")

        assert found == (uid_of("job-0"), Pod("train", "job-0", (uid_of("job-0"),), {ONE: "train", TWO: "sidecar"}))

    @pytest.mark.parametrize("of", ["initContainerStatuses", "ephemeralContainerStatuses"])
    def test_init_and_ephemeral_containers_are_containers(self, of: str) -> None:
        """The document has lists of their own for them."""
        found = pod_of(pod("job-0", ("setup", ONE), of=of), "gpu7")

        assert found is not None
        assert found[1].containers == {ONE: "setup"}

    @pytest.mark.parametrize(("phase", "is_over"), [("Running", False), ("Succeeded", True), ("Failed", True)])
    def test_pod_that_has_finished_is_over(self, phase: str, *, is_over: bool) -> None:
        document = pod("job-0", ("train", ONE))
        document["status"]["phase"] = phase
        found = pod_of(document, "gpu7")

        assert found is not None
        assert found[1].is_over is is_over

    def test_container_that_was_restarted_has_both_ids(self) -> None:
        """The last counts of the previous one may not have been exported yet."""
        document = pod("job-0", ("train", TWO))
        document["status"]["containerStatuses"][0]["lastState"] = {"terminated": {"containerID": f"cri-o://{ONE}"}}
        found = pod_of(document, "gpu7")

        assert found is not None
        assert found[1].containers == {ONE: "train", TWO: "train"}

    def test_static_pod_has_the_hash_of_its_file_as_a_second_uid(self) -> None:
        """Its cgroup has that hash in its name."""
        digest = "0123456789abcdef" * 2
        found = pod_of(pod("etcd-gpu7", annotations={"kubernetes.io/config.mirror": digest}), "gpu7")

        assert found is not None
        assert found[1].uids == (uid_of("etcd-gpu7"), digest)

    def test_container_that_has_not_started_has_no_id(self) -> None:
        """The pod itself is known."""
        document = pod("job-0")
        document["status"]["containerStatuses"] = [{"name": "train", "containerID": ""}, {"name": "late"}]
        found = pod_of(document, "gpu7")

        assert found is not None
        assert found[1].containers == {}


class TestMalformed:
    """Documents that cannot be a pod of this node, and names that cannot exist."""

    @pytest.mark.parametrize(
        "document",
        [
            None,
            [],
            "pod",
            {},
            {"metadata": None},
            {"metadata": []},
            pod("job-0", node="gpu8"),
            pod("", uid=uid_of("a")),
            pod("job\n0", uid=uid_of("a")),
            pod("j" * 254, uid=uid_of("a")),
            pod("job-0", namespace="Ä"),
            pod("job-0", uid="../../etc"),
            {**pod("job-0"), "spec": None},
        ],
    )
    def test_document_is_not_a_pod(self, document: Any) -> None:
        assert pod_of(document, "gpu7") is None

    @pytest.mark.parametrize(
        "statuses",
        [
            None,
            {},
            [None, 1, "a"],
            [{"name": 1, "containerID": f"docker://{ONE}"}],
            [{"name": "a\x00b", "containerID": f"docker://{ONE}"}],
            [{"name": "train", "containerID": ONE}],
            [{"name": "train", "containerID": "docker://../.."}],
            [{"name": "train", "containerID": 5}],
        ],
    )
    def test_malformed_container_is_left_out(self, statuses: Any) -> None:
        """The pod is kept."""
        document = pod("job-0")
        document["status"]["containerStatuses"] = statuses
        found = pod_of(document, "gpu7")

        assert found is not None
        assert found[1].containers == {}

    def test_more_containers_than_a_pod_can_have(self) -> None:
        """The first 256 are read."""
        found = pod_of(pod("job-0", *((f"c{n}", f"{n:064x}") for n in range(1000))), "gpu7")

        assert found is not None
        assert len(found[1].containers) == 256
