"""The containers of Amazon ECS: those of the exporter's own task, or those of all tasks of the machine.

TaskMetadata reads the task metadata endpoint, version 4 (ECS_CONTAINER_METADATA_URI_V4); EcsAgent reads the introspection API of
the container agent. Both have the runtime's container ids. The labels: namespace is the cluster, pod the id of the task,
container the name in the task definition.
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
    """endpoint: the value of ECS_CONTAINER_METADATA_URI_V4."""

    permission = ""

    def __init__(self, endpoint: Endpoint, cache: PodCache) -> None:
        self.endpoint = endpoint
        self._cache = cache

    def sync(self, stopping: threading.Event, synced: Callable[[], None]) -> None:
        """One request and a pause."""
        task = self.endpoint.json("/task", TIMEOUT_SECONDS)
        self._cache.replace(dict(_task_of(task, _text(task, "Cluster"), "TaskARN")))
        synced()
        stopping.wait(POLL_SECONDS)


class EcsAgent:
    """endpoint: of the agent's introspection API, http://localhost:51678."""

    permission = ""

    def __init__(self, endpoint: Endpoint, cache: PodCache) -> None:
        self.endpoint = endpoint
        self._cache = cache

    def sync(self, stopping: threading.Event, synced: Callable[[], None]) -> None:
        """Two requests and a pause."""
        cluster = _text(self.endpoint.json("/v1/metadata", TIMEOUT_SECONDS), "Cluster")
        content = self.endpoint.json("/v1/tasks", TIMEOUT_SECONDS)
        tasks = content.get("Tasks") if isinstance(content, Mapping) else None
        if not isinstance(tasks, list):
            raise RequestFailed(f"{self.endpoint.url}/v1/tasks: not a list of tasks")
        self._cache.replace({uid: pod for task in tasks[:MAX_PODS] for uid, pod in _task_of(task, cluster, "Arn")})
        synced()
        stopping.wait(POLL_SECONDS)


def _task_of(task: Any, cluster: str, arn_key: str) -> Iterator[tuple[str, Pod]]:
    """The task as a pod, by its id; nothing for a document that is not a task."""
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
