"""orchestrators.ecs: the task metadata endpoint and the agent's introspection API, over the loopback interface."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from exporter.workloads.container import Container
from exporter.workloads.container_names import ContainerNames
from exporter.workloads.orchestrators.ecs import EcsAgent, TaskMetadata
from exporter.workloads.orchestrators.http_json import Endpoint, RequestFailed
from exporter.workloads.orchestrators.pod_cache import PodCache

ONE = "1" * 64
FARGATE = "cd189a933e5849daa93386466019ab50-2495160603"
TASK = "158d1c8083dd49d6b527399fd6414f5c"
ARN = f"arn:aws:ecs:us-west-2:111122223333:task/training/{TASK}"


@contextmanager
def serving(pages: Mapping[str, Any]) -> Iterator[str]:
    """The URL of a server of these pages."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(pages.get(self.path)).encode()
            self.send_response(200 if self.path in pages else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def sync_once(source: TaskMetadata | EcsAgent) -> None:
    """One sync without the pause after it."""
    stopping = threading.Event()
    stopping.set()
    source.sync(stopping, lambda: None)


class TestTaskMetadata:
    """The exporter as a sidecar of the task."""

    @pytest.mark.parametrize("identifier", [ONE, FARGATE], ids=["EC2", "Fargate"])
    def test_containers_of_the_task(self, identifier: str) -> None:
        """Labels: the cluster, the task id, and the name in the task definition."""
        task = {"Cluster": "training", "TaskARN": ARN, "Containers": [{"DockerId": identifier, "Name": "train"}]}
        cache = PodCache()
        with serving({"/v4/abc/task": task}) as url:
            sync_once(TaskMetadata(Endpoint(f"{url}/v4/abc"), cache))

        assert cache.names_of(Container(id=identifier)) == ContainerNames("training", TASK, "train")

    def test_old_arn_without_a_cluster(self) -> None:
        """The cluster then stands in a field of its own, by name or by ARN."""
        document = {
            "Cluster": "arn:aws:ecs:us-west-2:111122223333:cluster/training",
            "TaskARN": ARN.replace("/training/", "/"),
            "Containers": [{"DockerId": ONE, "Name": "train"}],
        }
        cache = PodCache()
        with serving({"/task": document}) as url:
            sync_once(TaskMetadata(Endpoint(url), cache))

        assert cache.names_of(Container(id=ONE)) == ContainerNames("training", TASK, "train")

    @pytest.mark.parametrize(
        "document",
        [
            None,
            [],
            {"TaskARN": "arn:of:something"},
            {"TaskARN": ARN, "Containers": {}},
            {
                "TaskARN": ARN,
                "Containers": [None, {"DockerId": "../..", "Name": "train"}, {"DockerId": ONE, "Name": "a b"}],
            },
        ],
    )
    def test_malformed_document_gives_no_container(self, document: Any) -> None:
        cache = PodCache()
        with serving({"/task": document}) as url:
            sync_once(TaskMetadata(Endpoint(url), cache))

        assert cache.names_of(Container(id=ONE)) is None


class TestEcsAgent:
    """All tasks of a machine."""

    def test_containers_of_all_tasks(self) -> None:
        """The cluster has a page of its own."""
        tasks = [{"Arn": ARN, "Containers": [{"DockerId": ONE, "DockerName": "ecs-x", "Name": "train"}]}]
        cache = PodCache()
        with serving({"/v1/metadata": {"Cluster": "training"}, "/v1/tasks": {"Tasks": tasks}}) as url:
            sync_once(EcsAgent(Endpoint(url), cache))

        assert cache.names_of(Container(id=ONE)) == ContainerNames("training", TASK, "train")

    def test_document_that_is_not_a_list_is_refused(self) -> None:
        wanted = "/v1/tasks: not a list of tasks"
        with serving({"/v1/metadata": {}, "/v1/tasks": []}) as url, pytest.raises(RequestFailed, match=wanted):
            sync_once(EcsAgent(Endpoint(url), PodCache()))
