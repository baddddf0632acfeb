"""A stand-in for the pod APIs of Kubernetes: an API server with paged lists, of one namespace too, and watches, and a kubelet.

It has bearer tokens, Status objects, resource versions, continue tokens, chunked watches with bookmarks, and 410 for an expired
version. On demand it hangs, sends malformed documents, or sends without end.
"""

from __future__ import annotations

import json
import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

TICK_SECONDS = 0.02


def pod(
    name: str,
    *containers: tuple[str, str],
    namespace: str = "train",
    uid: str = "",
    node: str = "gpu7",
    of: str = "containerStatuses",
    **more: Any,
) -> dict[str, Any]:
    """A Pod document with the fields that are read here. containers: (name, id). of: the list of statuses they are in."""
    statuses = [{"name": one, "containerID": f"containerd://{identifier}"} for one, identifier in containers]
    return {
        "metadata": {"namespace": namespace, "name": name, "uid": uid or uid_of(name), **more},
        "spec": {"nodeName": node},
        "status": {"phase": "Running", of: statuses},
    }


def uid_of(name: str) -> str:
    """The uid of a pod, derived from its name."""
    digits = name.encode().hex().ljust(32, "0")[:32]
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


@dataclass
class Cluster:
    """The pods of the server, and how it behaves. token: the one it accepts. forgets_before: older versions have expired.

    raw_flood: bytes that a watch sends without end. endless_pages: continue tokens of a list of empty pages without a last one.
    """

    token: str = "first"  # noqa: S105 - of a test
    version: int = 100
    pods: dict[str, dict[str, Any]] = field(default_factory=dict)
    events: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    forgets_before: int = 0
    is_forbidden: bool = False
    is_hanging: bool = False
    page_pods: int = 2
    raw_answer: bytes | None = None
    raw_events: bytes = b""
    raw_flood: bytes = b""
    endless_pages: Iterator[str] | None = None
    watch_lasts_seconds: float = 60.0
    requests: list[str] = field(default_factory=list)
    is_over: threading.Event = field(default_factory=threading.Event)
    watches: int = 0

    def put(self, one: dict[str, Any]) -> None:
        """Add or change a pod."""
        uid = one["metadata"]["uid"]
        self._record("MODIFIED" if uid in self.pods else "ADDED", one)
        self.pods[uid] = one

    def delete(self, name: str) -> None:
        """Delete a pod."""
        self._record("DELETED", self.pods.pop(uid_of(name)))

    def bookmark(self) -> None:
        """Advance the version without a change of a pod."""
        self._record("BOOKMARK", {"kind": "Pod", "apiVersion": "v1", "metadata": {}})

    def _record(self, kind: str, one: dict[str, Any]) -> None:
        self.version += 1
        one["metadata"]["resourceVersion"] = str(self.version)
        self.events.append((self.version, json.loads(json.dumps({"type": kind, "object": one}))))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    cluster: Cluster

    def do_GET(self) -> None:
        cluster = self.cluster
        parts = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        cluster.requests.append(self.path)
        if cluster.is_hanging:
            cluster.is_over.wait()
            return
        if self.headers.get("Authorization") != f"Bearer {cluster.token}":
            self._status(401, "Unauthorized")
        elif cluster.is_forbidden:
            self._status(
                403, 'pods is forbidden: User "system:serviceaccount:monitoring:gpu" cannot list resource "pods"'
            )
        elif cluster.raw_answer is not None and "watch" not in query:
            self._send(cluster.raw_answer)
        elif parts.path == "/pods":
            self._document(
                {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": list(cluster.pods.values())}
            )
        elif match := re.fullmatch("/api/v1/namespaces/([a-z0-9-]+)/pods", parts.path):
            self._list(query, match[1])
        elif parts.path != "/api/v1/pods":
            self._status(404, "the server could not find the requested resource")
        elif "watch" in query:
            self._watch(query)
        else:
            self._list(query)

    def _list(self, query: dict[str, str], namespace: str = "") -> None:
        if self.cluster.endless_pages:
            self._document({"metadata": {"continue": next(self.cluster.endless_pages)}, "items": []})
            return
        node = query.get("fieldSelector", "").removeprefix("spec.nodeName=")
        wanted = dict(one.split("=") for one in query.get("labelSelector", "").split(",") if one)
        pods = [
            one
            for one in self.cluster.pods.values()
            if node in ("", one["spec"]["nodeName"])
            and namespace in ("", one["metadata"]["namespace"])
            and wanted.items() <= one["metadata"].get("labels", {}).items()
        ]
        at = int(query.get("continue", "0"))
        limit = min(int(query.get("limit", "500")), self.cluster.page_pods)
        metadata = {"resourceVersion": str(self.cluster.version)}
        if at + limit < len(pods):
            metadata["continue"] = str(at + limit)
        self._document({"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": pods[at : at + limit]})

    def _watch(self, query: dict[str, str]) -> None:
        cluster = self.cluster
        cluster.watches += 1
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        version = int(query["resourceVersion"])
        if cluster.raw_events:
            self._chunk(cluster.raw_events)
        while cluster.raw_flood and not cluster.is_over.is_set():
            self._chunk(cluster.raw_flood)
        if version < cluster.forgets_before:
            status = {"kind": "Status", "status": "Failure", "reason": "Expired", "code": 410}
            self._chunk(json.dumps({"type": "ERROR", "object": status}).encode() + b"\n")
        else:
            self._send_events(version)
        self._chunk(b"")

    def _send_events(self, version: int) -> None:
        left_seconds = self.cluster.watch_lasts_seconds
        while left_seconds > 0:
            for number, event in list(self.cluster.events):
                if number > version:
                    self._chunk(json.dumps(event).encode() + b"\n")
                    version = number
            if self.cluster.is_over.wait(TICK_SECONDS):
                return
            left_seconds -= TICK_SECONDS

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _status(self, code: int, message: str) -> None:
        content = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code}
        self._document(content, code)

    def _document(self, content: Any, code: int = 200) -> None:
        self._send(json.dumps(content).encode(), code)

    def _send(self, body: bytes, code: int = 200) -> None:
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        """Print nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_arguments: object) -> None:
        """A client that disconnects is not an error."""


@contextmanager
def serving(cluster: Cluster, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """The URL of a server of this cluster; closed when the block is left."""
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"cluster": cluster}))
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{server.server_address[1]}"
    finally:
        cluster.is_over.set()
        server.shutdown()
        thread.join()
        server.server_close()
