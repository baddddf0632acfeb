"""The pods of this node, from the API server or the kubelet.

The API server: a list in pages, then a watch that is taken up again where it ended; a version that is too old means a new list.
The kubelet has no watch: it is asked again and again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from exporter.orchestrators.directory import MAX_PODS, Directory, Pod
from exporter.orchestrators.http_json import Endpoint, Unanswered
from exporter.orchestrators.pods import pod_of

PAGE_PODS = 50
LIST_SECONDS = 30.0
WATCH_SECONDS = 240
SILENCE_SECONDS = WATCH_SECONDS + 30.0
POLL_SECONDS = 10.0
CPU_SHARE = 0.1  # that a server which floods us may cost
_GONE = 410


class VersionGone(Exception):
    """The server does not remember the version a watch wants to go on from."""


class ApiServer:
    """node: whose pods are wanted. list_seconds: for a page of a list."""

    def __init__(self, endpoint: Endpoint, node: str, directory: Directory, list_seconds: float = LIST_SECONDS) -> None:
        self._list_seconds = list_seconds
        self.endpoint = endpoint
        self._node = node
        self._directory = directory
        self._version = ""

    def round(self, stopping: threading.Event, worked: Callable[[], None]) -> None:
        """A list, unless the last watch can be taken up; then a watch, until the server ends it."""
        if not self._version:
            self._list()
        worked()
        try:
            self._watch(stopping, worked)
        except VersionGone:
            self._version = ""
        except Unanswered as error:
            if error.status == _GONE:
                self._version = ""
                return
            raise

    def _target(self, **parameters: str) -> str:
        selector = {"fieldSelector": f"spec.nodeName={self._node}"} if self._node else {}
        return f"/api/v1/pods?{urlencode({**selector, **parameters})}"

    def _list(self) -> None:
        pods: dict[str, Pod] = {}
        token, version = "", ""
        while True:
            target = self._target(limit=str(PAGE_PODS), **({"continue": token} if token else {}))
            page = self.endpoint.json(target, self._list_seconds)
            metadata = page.get("metadata") if isinstance(page, Mapping) else None
            items = page.get("items") if isinstance(page, Mapping) else None
            if not isinstance(metadata, Mapping) or not isinstance(items, list | None):
                raise Unanswered("what was said to be a list of pods is none")
            pods.update(_pods_of(items or [], self._node))
            version, token = str(metadata.get("resourceVersion", "")), str(metadata.get("continue") or "")
            if not token or len(pods) >= MAX_PODS:
                break
        self._directory.replace(pods)
        self._version = version

    def _watch(self, stopping: threading.Event, worked: Callable[[], None]) -> None:
        target = self._target(
            watch="1",
            resourceVersion=self._version,
            allowWatchBookmarks="true",
            timeoutSeconds=str(WATCH_SECONDS),
        )
        with self.endpoint.lines(target, SILENCE_SECONDS) as events:
            for event in _unhurried(events, stopping):
                self._obey(event)
                worked()

    def _obey(self, event: Any) -> None:
        kind, content = (event.get("type"), event.get("object")) if isinstance(event, Mapping) else (None, None)
        metadata = content.get("metadata") if isinstance(content, Mapping) else None
        if kind == "ERROR":
            code = content.get("code") if isinstance(content, Mapping) else None
            if code == _GONE:
                raise VersionGone
            raise Unanswered(f"the watch of pods ended with an error: {code}", code if isinstance(code, int) else 0)
        if kind in ("ADDED", "MODIFIED", "DELETED") and (found := pod_of(content, "")):
            uid, pod = found
            if kind == "DELETED" or pod_of(content, self._node) is None:
                self._directory.forget(uid)
            else:
                self._directory.put(uid, pod)
        if isinstance(metadata, Mapping) and isinstance(metadata.get("resourceVersion"), str):
            self._version = metadata["resourceVersion"]


class Kubelet:
    """Tells its own node's pods, all of them each time. poll_seconds: between two times."""

    def __init__(self, endpoint: Endpoint, directory: Directory, poll_seconds: float = POLL_SECONDS) -> None:
        self._poll_seconds = poll_seconds
        self.endpoint = endpoint
        self._directory = directory

    def round(self, stopping: threading.Event, worked: Callable[[], None]) -> None:
        """One list, and a pause."""
        page = self.endpoint.json("/pods", LIST_SECONDS)
        items = page.get("items") if isinstance(page, Mapping) else None
        if not isinstance(items, list | None) or not isinstance(page, Mapping):
            raise Unanswered("what was said to be a list of pods is none")
        self._directory.replace(_pods_of(items or [], ""))
        worked()
        stopping.wait(self._poll_seconds)


def _pods_of(items: list[Any], node: str) -> dict[str, Pod]:
    return dict(found for item in items if (found := pod_of(item, node)))


def _unhurried(events: Iterator[Any], stopping: threading.Event) -> Iterator[Any]:
    """At most CPU_SHARE of a CPU is spent on them; what comes faster waits with its sender."""
    spent_at = time.thread_time()
    for event in events:
        yield event
        spent_seconds = time.thread_time() - spent_at
        if stopping.wait(spent_seconds * (1 / CPU_SHARE - 1)):
            return
        spent_at = time.thread_time()
