"""The containers of Amazon ECS: of the task we are a part of, or, beside the agent, of all tasks of this machine.

Inside of a task its metadata endpoint is asked (version 4: ECS_CONTAINER_METADATA_URI_V4), on a machine the introspection of
the agent. Both tell the container ids of the runtime. namespace is the cluster, pod the task's id, container its name in the
task.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from exporter.workloads.orchestrators.http_json import Endpoint, RequestFailed
from exporter.workloads.orchestrators.pod_cache import MAX_PODS, Pod, PodCache

POLL_SECONDS = 15.0
TIMEOUT_SECONDS = 5.0
_ARN = re.compile(
    r"arn:[a-z0-9-]+:ecs:[a-z0-9-]*:[0-9]*:task/(?:(?P<cluster>[A-Za-z0-9_-]{1,255})/)?(?P<task>[A-Za-z0-9-]{1,64})"
)
_CLUSTER = re.compile(r"(?:arn:[a-z0-9-]+:ecs:[a-z0-9-]*:[0-9]*:cluster/)?([A-Za-z0-9_-]{1,255})")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,255}")
_CONTAINER_ID = re.compile(r"[0-9a-f]{64}|[0-9a-f]{32}-[0-9]{1,12}")


class TaskMetadata:
    """Of our own task. endpoint: what ECS_CONTAINER_METADATA_URI_V4 says."""

    permission = ""

    def __init__(self, endpoint: Endpoint, directory: PodCache) -> None:
        self.endpoint = endpoint
        self._directory = directory

    def round(self, stopping: threading.Event, worked: Callable[[], None]) -> None:
        """One answer, and a pause."""
        task = self.endpoint.json("/task", TIMEOUT_SECONDS)
        self._directory.replace(dict(_task_of(task, _text(task, "Cluster"), "TaskARN")))
        worked()
        stopping.wait(POLL_SECONDS)


class Agent:
    """Of all tasks of the machine. endpoint: the agent's introspection, http://localhost:51678."""

    permission = ""

    def __init__(self, endpoint: Endpoint, directory: PodCache) -> None:
        self.endpoint = endpoint
        self._directory = directory

    def round(self, stopping: threading.Event, worked: Callable[[], None]) -> None:
        """Two answers, and a pause."""
        cluster = _text(self.endpoint.json("/v1/metadata", TIMEOUT_SECONDS), "Cluster")
        content = self.endpoint.json("/v1/tasks", TIMEOUT_SECONDS)
        tasks = content.get("Tasks") if isinstance(content, Mapping) else None
        if not isinstance(tasks, list):
            raise RequestFailed("what was said to be a list of tasks is none")
        self._directory.replace({uid: pod for task in tasks[:MAX_PODS] for uid, pod in _task_of(task, cluster, "Arn")})
        worked()
        stopping.wait(POLL_SECONDS)


def _task_of(task: Any, cluster: str, arn_key: str) -> Iterator[tuple[str, Pod]]:
    """By its id; none where it is not told as it should be."""
    arn, short = _ARN.fullmatch(_text(task, arn_key)), _CLUSTER.fullmatch(cluster)
    containers = task.get("Containers") if isinstance(task, Mapping) else None
    if arn and isinstance(containers, list):
        found = {
            identifier: name
            for one in containers
            if _CONTAINER_ID.fullmatch(identifier := _text(one, "DockerId"))
            and _NAME.fullmatch(name := _text(one, "Name"))
        }
        yield arn["task"], Pod(arn["cluster"] or (short[1] if short else ""), arn["task"], (), found)


def _text(content: Any, key: str) -> str:
    found = content.get(key) if isinstance(content, Mapping) else None
    return found if isinstance(found, str) else ""
