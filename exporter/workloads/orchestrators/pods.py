"""A Pod document of the Kubernetes API -> Pod. Pure; what is malformed is left out.

Source: core/v1 PodList, Pod, ContainerStatus; init and ephemeral containers have lists of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from exporter.workloads.orchestrators.pod_cache import Pod

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
_UID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}")
_CONTAINER_ID = re.compile(r"[a-z0-9.-]{1,32}://([0-9a-f]{64})")
_STATUSES = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
# A static pod, which the kubelet starts from a file: its cgroup has the hash of the file, the API server another uid.
_HASHES = ("kubernetes.io/config.mirror", "kubernetes.io/config.hash")
_FINAL_PHASES = ("Succeeded", "Failed")
_CONTAINERS_MAX = 256


def pod_of(content: Any, node: str) -> tuple[str, Pod] | None:
    """Its uid and itself; None for a malformed document or a pod of another node. node: "" for any."""
    metadata = _mapping(content, "metadata")
    namespace, name, uid = (_text(metadata, key) for key in ("namespace", "name", "uid"))
    if not (_NAME.fullmatch(namespace) and _NAME.fullmatch(name) and _UID.fullmatch(uid)):
        return None
    if node and _text(_mapping(content, "spec"), "nodeName") != node:
        return None
    annotations = _mapping(metadata, "annotations")
    hashes = {text for key in _HASHES if _UID.fullmatch(text := _text(annotations, key))}
    status = _mapping(content, "status")
    is_over = _text(status, "phase") in _FINAL_PHASES
    return uid, Pod(namespace, name, (uid, *sorted(hashes - {uid})), dict(_containers(status)), is_over)


def _containers(status: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Id and name; for a restarted container also the previous id, whose last counts may not have been exported yet."""
    statuses = [one for key in _STATUSES for one in _list(status, key) if isinstance(one, Mapping)]
    for one in statuses[:_CONTAINERS_MAX]:
        name = _text(one, "name")
        before = _mapping(_mapping(one, "lastState"), "terminated")
        for text in (_text(before, "containerID"), _text(one, "containerID")):
            if (found := _CONTAINER_ID.fullmatch(text)) and _NAME.fullmatch(name):
                yield found[1], name


def _mapping(content: Any, key: str) -> Mapping[str, Any]:
    found = content.get(key) if isinstance(content, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _list(content: Mapping[str, Any], key: str) -> list[Any]:
    found = content.get(key)
    return found if isinstance(found, list) else []


def _text(content: Mapping[str, Any], key: str) -> str:
    found = content.get(key)
    return found if isinstance(found, str) else ""
