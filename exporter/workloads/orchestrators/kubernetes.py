"""The pods of this node, from the API server or the kubelet.

The API server: a list in pages, then a watch, resumed at its last resource version; a version that has expired means a new
list. The kubelet has no watch and is polled.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlencode

from exporter.workloads.orchestrators.http_json import MAX_BODY_BYTES, AnswerTooLarge, Endpoint, RequestFailed
from exporter.workloads.orchestrators.pod_cache import MAX_PODS, Pod, PodCache, at_most
from exporter.workloads.orchestrators.pods import pod_of

PAGE_PODS = 50
PAGE_BYTES = 4 << 20  # of more than one pod
WATCH_SECONDS = 240  # until the server ends it
ANSWER_SECONDS = 30.0
POLL_SECONDS = 10.0
CPU_SHARE = 0.1  # that a server which sends without end may cost
MAX_TOKEN_CHARACTERS = 4096  # of a namespace and a name, of 63 and 253 characters, as JSON in base64
_CPU_SLICE_SECONDS = 0.001
_GONE = 410
_T = TypeVar("_T")


class VersionGone(Exception):
    """The resource version from which a watch should resume has expired."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of what the API server sends: a page, the list of all pages, and the head, a line and the whole of a watch.

    list_seconds: no page is requested later.
    """

    page_seconds: float = ANSWER_SECONDS
    list_seconds: float = 120.0
    list_pages: int = MAX_PODS  # with one pod in each, at worst
    head_seconds: float = ANSWER_SECONDS
    line_seconds: float = ANSWER_SECONDS
    watch_seconds: float = WATCH_SECONDS + 30.0


@dataclass(frozen=True, slots=True)
class _Page:
    """token: of the next page; "" after the last one."""

    pods: Mapping[str, Pod]
    version: str
    token: str


class ApiServer:
    """Lists and watches the pods of a node; of all nodes if node is ""."""

    permission = "list and watch of pods"

    def __init__(self, endpoint: Endpoint, node: str, cache: PodCache, bounds: Bounds = Bounds()) -> None:
        self._bounds = bounds
        self.endpoint = endpoint
        self._node = node
        self._cache = cache
        self._version = ""

    def sync(self, stopping: threading.Event, synced: Callable[[], None]) -> None:
        """A list, unless the last watch can be resumed; then a watch, until the server ends it."""
        if not self._version:
            self._list(stopping)
            if stopping.is_set():
                return
            synced()
        try:
            self._watch(stopping, synced)
        except VersionGone:
            self._version = ""
        except AnswerTooLarge:
            self._version = ""  # the watch would get the same line again; a list may have larger documents
            raise
        except RequestFailed as error:
            if error.status == _GONE:
                self._version = ""
                return
            raise

    def _target(self, **parameters: str) -> str:
        selector = {"fieldSelector": f"spec.nodeName={self._node}"} if self._node else {}
        return f"/api/v1/pods?{urlencode({**selector, **parameters})}"

    def _list(self, stopping: threading.Event) -> None:
        """List in pages of half as many pods whenever one is too large, down to one pod: a large pod must not hide the others.

        Starts again at the first page: a continue token is valid for one limit only.
        """
        until = time.monotonic() + self._bounds.list_seconds
        limit = PAGE_PODS
        while True:
            try:
                self._list_by(limit, until, stopping)
            except AnswerTooLarge:
                if limit == 1:
                    raise
                limit //= 2
            else:
                return

    def _list_by(self, limit: int, until: float, stopping: threading.Event) -> None:
        pods: dict[str, Pod] = {}
        for page in _limited_cpu(self._pages(limit, until), stopping):
            pods = {**pods, **page.pods}
            if len(pods) > 2 * MAX_PODS:
                pods = at_most(pods)
            if not page.token or sum(not pod.is_over for pod in pods.values()) >= MAX_PODS:
                self._cache.replace(pods)
                self._version = page.version
                return

    def _pages(self, limit: int, until: float) -> Iterator[_Page]:
        """Pages until one has no token: an empty page need not be the last one."""
        tokens = {""}
        token = ""
        for _ in range(self._bounds.list_pages):
            if time.monotonic() > until:
                raise RequestFailed(f"the list of pods was not complete within {self._bounds.list_seconds:.3g} s")
            page = self._page(limit, token)
            yield page
            token = page.token
            if token in tokens or len(token) > MAX_TOKEN_CHARACTERS:
                raise RequestFailed("the list of pods repeats a continue token, or has one that is too long")
            tokens.add(token)
        raise RequestFailed(f"the list of pods has more than {self._bounds.list_pages} pages")

    def _page(self, limit: int, token: str) -> _Page:
        target = self._target(limit=str(limit), **({"continue": token} if token else {}))
        max_bytes = PAGE_BYTES if limit > 1 else MAX_BODY_BYTES
        content = self.endpoint.json(target, self._bounds.page_seconds, max_bytes)
        metadata = content.get("metadata") if isinstance(content, Mapping) else None
        items = content.get("items") if isinstance(content, Mapping) else None
        if not isinstance(metadata, Mapping) or not isinstance(items, list | None):
            raise RequestFailed(f"{self.endpoint.url}/api/v1/pods: not a list of pods")
        version, following = metadata.get("resourceVersion", ""), metadata.get("continue") or ""
        return _Page(_pods_of(items or [], self._node), str(version), str(following))

    def _watch(self, stopping: threading.Event, synced: Callable[[], None]) -> None:
        target = self._target(
            watch="1",
            resourceVersion=self._version,
            allowWatchBookmarks="true",
            timeoutSeconds=str(WATCH_SECONDS),
        )
        bounds = self._bounds
        with self.endpoint.lines(target, bounds.head_seconds, bounds.line_seconds, bounds.watch_seconds) as events:
            synced()
            for event in _limited_cpu(events, stopping):
                if event is not None:
                    self._apply(event)
                    synced()

    def _apply(self, event: Any) -> None:
        kind, content = (event.get("type"), event.get("object")) if isinstance(event, Mapping) else (None, None)
        metadata = content.get("metadata") if isinstance(content, Mapping) else None
        if kind == "ERROR":
            code = content.get("code") if isinstance(content, Mapping) else None
            if code == _GONE:
                raise VersionGone
            status = code if isinstance(code, int) else 0
            raise RequestFailed(f"the watch of pods ended with an error: {status}", status)
        if kind in ("ADDED", "MODIFIED", "DELETED") and (found := pod_of(content, "")):
            uid, pod = found
            if kind == "DELETED" or pod_of(content, self._node) is None:
                self._cache.delete(uid)
            else:
                self._cache.put(uid, pod)
        if isinstance(metadata, Mapping) and isinstance(metadata.get("resourceVersion"), str):
            self._version = metadata["resourceVersion"]


class Kubelet:
    """Reads all pods of its node every poll_seconds."""

    permission = "get of nodes/proxy"

    def __init__(self, endpoint: Endpoint, cache: PodCache, poll_seconds: float = POLL_SECONDS) -> None:
        self._poll_seconds = poll_seconds
        self.endpoint = endpoint
        self._cache = cache

    def sync(self, stopping: threading.Event, synced: Callable[[], None]) -> None:
        """One list and a pause."""
        self._cache.replace(self._pods())
        synced()
        stopping.wait(self._poll_seconds)

    def _pods(self) -> dict[str, Pod]:
        page = self.endpoint.json("/pods", ANSWER_SECONDS)
        items = page.get("items") if isinstance(page, Mapping) else None
        if not isinstance(items, list | None) or not isinstance(page, Mapping):
            raise RequestFailed(f"{self.endpoint.url}/pods: not a list of pods")
        return _pods_of(items or [], "")


def _pods_of(items: list[Any], node: str) -> dict[str, Pod]:
    return dict(found for item in items if (found := pod_of(item, node)))


def _limited_cpu(answers: Iterator[_T], stopping: threading.Event) -> Iterator[_T]:
    """The answers until stopping is set, with pauses so that they cost at most CPU_SHARE of a CPU."""
    spent_until = time.thread_time()
    for answer in answers:
        yield answer
        spent_seconds = time.thread_time() - spent_until
        if spent_seconds >= _CPU_SLICE_SECONDS:
            spent_until += spent_seconds
            stopping.wait(spent_seconds * (1 / CPU_SHARE - 1))
        if stopping.is_set():
            return
