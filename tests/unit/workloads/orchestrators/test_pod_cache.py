"""orchestrators.pod_cache: names by container id and by pod uid."""

from __future__ import annotations

import pytest

from exporter.workloads.container import Container
from exporter.workloads.container_names import ContainerNames
from exporter.workloads.orchestrators.pod_cache import MAX_PODS, Pod, PodCache

ONE, TWO = "1" * 64, "2" * 64
JOB = Pod("train", "job-0", ("uid-0", "hash-0"), {ONE: "main"})


class TestPodCache:
    """One node's pods."""

    def test_container_id_gives_the_container_s_name(self) -> None:
        cache = PodCache()
        cache.put("uid-0", JOB)

        assert cache.names_of(Container(id=ONE, pod_uid="uid-0")) == ContainerNames("train", "job-0", "main")

    def test_unknown_container_has_the_names_of_its_pod(self) -> None:
        """Also by the second uid of a static pod."""
        cache = PodCache()
        cache.put("uid-0", JOB)

        assert cache.names_of(Container(id=TWO, pod_uid="hash-0")) == ContainerNames("train", "job-0")

    def test_unconfirmed_id_is_found_if_a_pod_has_it(self) -> None:
        """With the uid of the pod."""
        cache = PodCache()
        cache.put("uid-0", JOB)
        found = cache.names_of(Container(unconfirmed_id=ONE))

        assert found is not None
        assert (found, found.pod_uid) == (ContainerNames("train", "job-0", "main"), "uid-0")
        assert cache.names_of(Container(unconfirmed_id=TWO)) is None

    def test_unconfirmed_id_with_an_owner_is_not_found(self) -> None:
        """A user may have chosen it."""
        cache = PodCache()
        cache.put("uid-0", JOB)

        assert cache.names_of(Container(unconfirmed_id=ONE, owner="uid 1000")) is None

    def test_changed_pod_loses_its_former_containers(self) -> None:
        cache = PodCache()
        cache.put("uid-0", JOB)
        cache.put("uid-0", Pod("train", "job-0", ("uid-0",), {TWO: "main"}))

        assert cache.names_of(Container(id=ONE)) is None
        assert cache.names_of(Container(id=TWO)) == ContainerNames("train", "job-0", "main")

    def test_replace_deletes_the_other_pods(self) -> None:
        cache = PodCache()
        cache.put("uid-0", JOB)
        cache.replace({})

        assert (len(cache), cache.names_of(Container(id=ONE))) == (0, None)

    def test_finished_pods_make_room(self, caplog: pytest.LogCaptureFixture) -> None:
        """A node with thousands of finished jobs: those that run have names. That it has so many is logged once."""
        cache = PodCache()
        over = {f"uid-{n}": Pod("train", f"job-{n}", (f"uid-{n}",), {}, is_over=True) for n in range(MAX_PODS + 5)}
        cache.replace({**over, "listed": Pod("train", "listed", ("listed",), {TWO: "main"})})
        cache.put("late", Pod("train", "late", ("late",), {ONE: "main"}))
        cache.put("over", Pod("train", "over", ("over",), {}, is_over=True))

        assert cache.names_of(Container(id=TWO)) == ContainerNames("train", "listed", "main")
        assert cache.names_of(Container(id=ONE)) == ContainerNames("train", "late", "main")
        assert len(cache) == MAX_PODS
        assert len(caplog.records) == 1

    def test_pods_beyond_the_limit_are_left_out(self) -> None:
        cache = PodCache()
        cache.replace({f"uid-{n}": Pod("train", f"job-{n}", (f"uid-{n}",), {}) for n in range(MAX_PODS)})
        cache.put("late", Pod("train", "late", ("late",), {ONE: "main"}))

        assert (len(cache), cache.names_of(Container(id=ONE))) == (MAX_PODS, None)
