"""serving_pods: nodes by the pods that a label selector matches, from an API server."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from exporter.fleet.headless_service import NodesNotFound
from exporter.fleet.node import Node
from exporter.fleet.serving_pods import serving_pods
from exporter.http_client.deadline import Deadline
from exporter.workloads.orchestrators.http_json import Endpoint
from tests.support import kubernetes_api
from tests.support.kubernetes_api import Cluster

SELECTOR = "app=gpu-stall-exporter"


def serve_pod(name: str, node: str, address: str = "", *, namespace: str = "monitoring", **more: Any) -> dict[str, Any]:
    """A pod of the DaemonSet of serve. more: of its metadata."""
    made = kubernetes_api.pod(name, namespace=namespace, node=node, **{"labels": {"app": "gpu-stall-exporter"}, **more})
    if address:
        made["status"]["podIP"] = address
    return made


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def endpoint(cluster: Cluster, tmp_path: Path) -> Iterator[Endpoint]:
    token = tmp_path / "token"
    token.write_text(cluster.token)
    with kubernetes_api.serving(cluster) as url:
        yield Endpoint(url, token_file=token)


def found(endpoint: Endpoint, seconds: float = 60.0) -> list[Node]:
    return serving_pods(endpoint, "monitoring", SELECTOR, Deadline.after(seconds))


class TestPods:
    def test_node_is_that_of_the_pod_at_the_address_of_the_pod(self, cluster: Cluster, endpoint: Endpoint) -> None:
        """The pods of every page count; nodes are sorted by name."""
        for number in (3, 1, 2):
            cluster.put(serve_pod(f"serve-{number}", f"gpu{number}", f"10.0.0.{number}"))

        assert found(endpoint) == [
            Node("gpu1", "10.0.0.1", 10479),
            Node("gpu2", "10.0.0.2", 10479),
            Node("gpu3", "10.0.0.3", 10479),
        ]
        assert [request.partition("?")[0] for request in cluster.requests] == ["/api/v1/namespaces/monitoring/pods"] * 2

    def test_port_is_the_one_that_the_pod_calls_serve(self, cluster: Cluster, endpoint: Endpoint) -> None:
        pod = serve_pod("serve", "gpu1", "fd00::1")
        pod["spec"]["containers"] = [
            {"ports": [{"name": "other", "containerPort": 1}]},
            {"ports": [{"name": "serve", "containerPort": 9000}]},
        ]
        cluster.put(pod)

        assert found(endpoint) == [Node("gpu1", "fd00::1", 9000)]

    def test_pod_of_another_namespace_is_not_asked(self, cluster: Cluster, endpoint: Endpoint) -> None:
        """A tenant who gives it the same labels would be sent the token."""
        cluster.put(serve_pod("serve", "gpu1", "10.0.0.1"))
        cluster.put(serve_pod("trap", "gpu2", "10.0.0.2", namespace="tenant"))

        assert found(endpoint) == [Node("gpu1", "10.0.0.1")]

    def test_pod_that_is_over_or_being_deleted_does_not_serve(self, cluster: Cluster, endpoint: Endpoint) -> None:
        """As while a DaemonSet is rolled out: the node has two of them."""
        cluster.put(serve_pod("serve-old", "gpu1", "10.0.0.1", deletionTimestamp="2026-01-01T00:00:00Z"))
        failed = serve_pod("serve-failed", "gpu1", "10.0.0.2")
        failed["status"]["phase"] = "Failed"
        cluster.put(failed)
        cluster.put(serve_pod("serve-new", "gpu1", "10.0.0.3"))

        assert found(endpoint) == [Node("gpu1", "10.0.0.3")]

    def test_pod_without_an_address_is_at_its_node(self, cluster: Cluster, endpoint: Endpoint) -> None:
        """So that it fails by name, rather than being left out."""
        cluster.put(serve_pod("serve", "gpu1"))

        assert found(endpoint) == [Node("gpu1", "gpu1")]


class TestRefused:
    def test_selector_that_matches_nothing_is_named(self, endpoint: Endpoint) -> None:
        with pytest.raises(NodesNotFound) as refused:
            found(endpoint)

        assert str(refused.value) == "kubernetes: no pod in the namespace monitoring matches app=gpu-stall-exporter"

    def test_missing_permission_has_a_remedy(self, cluster: Cluster, endpoint: Endpoint) -> None:
        cluster.is_forbidden = True

        with pytest.raises(NodesNotFound, match="403 Forbidden: pods is forbidden") as refused:
            found(endpoint)

        assert refused.value.remedy == "the service account needs list of pods in the namespace monitoring"

    def test_server_that_hangs_is_not_waited_for(self, cluster: Cluster, endpoint: Endpoint) -> None:
        cluster.is_hanging = True

        with pytest.raises(NodesNotFound, match=r"no complete response within 0\.\d+ s"):
            found(endpoint, seconds=0.2)

    def test_list_without_end_is_refused(self, cluster: Cluster, endpoint: Endpoint) -> None:
        cluster.endless_pages = map(str, count())

        with pytest.raises(NodesNotFound, match="the list of pods is too long"):
            found(endpoint)

    @pytest.mark.parametrize("answer", [b"[]", b'{"items": 7}', b"{", b"<html>"])
    def test_answer_that_is_no_list_of_pods_is_refused(
        self, cluster: Cluster, endpoint: Endpoint, answer: bytes
    ) -> None:
        cluster.raw_answer = answer

        with pytest.raises(NodesNotFound, match="/api/v1/namespaces/monitoring/pods"):
            found(endpoint)

    def test_malformed_pod_is_left_out(self, cluster: Cluster, endpoint: Endpoint) -> None:
        cluster.put(serve_pod("serve", "gpu1", "10.0.0.1"))
        cluster.put(serve_pod("odd", "gpu2", "10.0.0.2 "))

        assert found(endpoint) == [Node("gpu1", "10.0.0.1")]
