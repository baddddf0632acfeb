"""The pods of Kubernetes that a label selector matches: each serves for the node that it runs on.

In: the API server, a namespace and a selector. Out: nodes by name, or why there are none. One namespace, never all: a tenant who
labels a pod of theirs would get the token of the nodes.

A pod is at its address, and at the port that it calls `serve`. One that is over or being deleted does not serve. One that has no
address yet is at its node, where nothing answers: it is missed in the answer, rather than left out. Source: core/v1 PodList.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlencode

from exporter.fleet.addresses import address, host_name
from exporter.fleet.headless_service import NodesNotFound
from exporter.fleet.host_list import NAMES_MAX
from exporter.fleet.node import PORT, Node
from exporter.http_client.deadline import Deadline
from exporter.http_client.errors import DeadlineExceeded
from exporter.text.printable import printable
from exporter.workloads.orchestrators.http_json import AnswerTooLarge, Endpoint, RequestFailed

_PORT_NAME: Final = "serve"
_PAGE_PODS, _SMALL_PAGE_PODS = 100, 10
"""The second where the first is too large: ten pods as large as etcd keeps them, 1.5 MiB, fit into one answer."""
_TOKEN_CHARACTERS_MAX: Final = 4096
_FINAL_PHASES: Final = ("Succeeded", "Failed")


def serving_pods(endpoint: Endpoint, namespace: str, selector: str, deadline: Deadline) -> list[Node]:
    """In the order of the names of their nodes. Raises NodesNotFound, also if there are none."""
    target = f"/api/v1/namespaces/{namespace}/pods"
    try:
        try:
            found = _listed(endpoint, target, (selector, _PAGE_PODS), deadline)
        except AnswerTooLarge:
            found = _listed(endpoint, target, (selector, _SMALL_PAGE_PODS), deadline)
    except DeadlineExceeded as error:
        raise NodesNotFound(f"kubernetes: {endpoint.url}{target}: {error}") from None
    except RequestFailed as error:
        refused = error.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
        remedy = f"the service account needs list of pods in the namespace {namespace}" if refused else ""
        raise NodesNotFound(f"kubernetes: {printable(str(error))}", remedy=remedy) from None
    if not found:
        raise NodesNotFound(f"kubernetes: no pod in the namespace {namespace} matches {selector}")
    return sorted(found)


def _listed(endpoint: Endpoint, target: str, selected: tuple[str, int], deadline: Deadline) -> list[Node]:
    """Nodes of all pages. selected: a selector, and pods of a page. Raises RequestFailed and DeadlineExceeded."""
    found: list[Node] = []
    parameters = {"labelSelector": selected[0], "limit": str(selected[1])}
    for _ in range(2 * NAMES_MAX // selected[1]):  # twice as many pages as full ones would be
        page = _mapping(endpoint.json(f"{target}?{urlencode(parameters)}", deadline.left_seconds()))
        items = page.get("items", [])
        if not isinstance(items, list | None) or not page:
            raise RequestFailed(f"{endpoint.url}{target}: not a list of pods")
        found += (node for pod in items or () if (node := _node(_mapping(pod))))
        parameters["continue"] = _text(page, "metadata", "continue")
        if not parameters["continue"]:
            return found
        if len(found) > NAMES_MAX or len(parameters["continue"]) > _TOKEN_CHARACTERS_MAX:
            break
    raise RequestFailed(f"{endpoint.url}{target}: the list of pods is too long")


def _node(pod: Mapping[str, Any]) -> Node | None:
    """None for a pod that does not serve, and for a malformed one."""
    is_over = _text(pod, "status", "phase") in _FINAL_PHASES or "deletionTimestamp" in _mapping(pod.get("metadata"))
    name = _text(pod, "spec", "nodeName")
    if is_over or not name:
        return None
    host = _text(pod, "status", "podIP") or _text(pod, "status", "hostIP") or name
    try:
        where = address(f"[{host}]" if ":" in host else host, _port(pod))
        return Node(host_name(name), where.host, where.port)
    except ValueError:
        return None


def _port(pod: Mapping[str, Any]) -> int:
    containers = _mapping(pod.get("spec")).get("containers")
    for container in containers if isinstance(containers, list) else ():
        ports = _mapping(container).get("ports")
        for port in ports if isinstance(ports, list) else ():
            number = _mapping(port).get("containerPort")
            if _mapping(port).get("name") == _PORT_NAME and isinstance(number, int):
                return number
    return PORT


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(content: Mapping[str, Any], section: str, key: str) -> str:
    found = _mapping(content.get(section)).get(key)
    return found if isinstance(found, str) else ""
