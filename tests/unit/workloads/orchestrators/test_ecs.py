"""orchestrators.ecs: what a task's metadata endpoint and the agent tell, over the loopback interface."""

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
from exporter.workloads.orchestrators.ecs import Agent, TaskMetadata
from exporter.workloads.orchestrators.http_json import Endpoint, RequestFailed
from exporter.workloads.orchestrators.pod_cache import PodCache

ONE = "1" * 64
FARGATE = "cd189a933e5849daa93386466019ab50-2495160603"
TASK = "158d1c8083dd49d6b527399fd6414f5c"
ARN = f"arn:aws:ecs:us-west-2:111122223333:task/training/{TASK}"


@contextmanager
def answering(pages: Mapping[str, Any]) -> Iterator[str]:
    """A server of these pages; its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(pages.get(self.path)).encode()
            self.send_response(200 if self.path in pages else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def asked(source: TaskMetadata | Agent) -> None:
    """One round, without the pause after it."""
    stopping = threading.Event()
    stopping.set()
    source.round(stopping, lambda: None)


class TestTask:
    """Of ourselves, as a sidecar."""

    @pytest.mark.parametrize("identifier", [ONE, FARGATE], ids=["EC2", "Fargate"])
    def test_containers_of_our_task(self, identifier: str) -> None:
        """Cluster, task, and the name in the task's definition."""
        task = {"Cluster": "training", "TaskARN": ARN, "Containers": [{"DockerId": identifier, "Name": "train"}]}
        directory = PodCache()
        with answering({"/v4/abc/task": task}) as url:
            asked(TaskMetadata(Endpoint(f"{url}/v4/abc"), directory))

        assert directory.names_of(Container(id=identifier)) == ContainerNames("training", TASK, "train")

    def test_old_arn_without_a_cluster(self) -> None:
        """Then the cluster is told beside it, by its name or its own ARN."""
        told = {
            "Cluster": "arn:aws:ecs:us-west-2:111122223333:cluster/training",
            "TaskARN": ARN.replace("/training/", "/"),
            "Containers": [{"DockerId": ONE, "Name": "train"}],
        }
        directory = PodCache()
        with answering({"/task": told}) as url:
            asked(TaskMetadata(Endpoint(url), directory))

        assert directory.names_of(Container(id=ONE)) == ContainerNames("training", TASK, "train")

    @pytest.mark.parametrize(
        "told",
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
    def test_lies(self, told: Any) -> None:
        """Nothing of it is taken."""
        directory = PodCache()
        with answering({"/task": told}) as url:
            asked(TaskMetadata(Endpoint(url), directory))

        assert directory.names_of(Container(id=ONE)) is None


class TestAgent:
    """Of the whole machine."""

    def test_containers_of_all_tasks(self) -> None:
        """The cluster is told once."""
        tasks = [{"Arn": ARN, "Containers": [{"DockerId": ONE, "DockerName": "ecs-x", "Name": "train"}]}]
        directory = PodCache()
        with answering({"/v1/metadata": {"Cluster": "training"}, "/v1/tasks": {"Tasks": tasks}}) as url:
            asked(Agent(Endpoint(url), directory))

        assert directory.names_of(Container(id=ONE)) == ContainerNames("training", TASK, "train")

    def test_no_list_is_said_so(self) -> None:
        """And what was known stays."""
        wanted = "what was said to be a list of tasks is none"
        with answering({"/v1/metadata": {}, "/v1/tasks": []}) as url, pytest.raises(RequestFailed, match=wanted):
            asked(Agent(Endpoint(url), PodCache()))
