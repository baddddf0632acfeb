"""Container ids and pod uids -> ContainerNames. Written by the poller's thread, read by the exporter's loop.

A node may have thousands of pods that have finished; they make room for those that have not.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from exporter.workloads.container import Container
from exporter.workloads.container_names import ContainerNames

log = logging.getLogger(__name__)

MAX_PODS = 2000  # of one node; Kubernetes recommends 110, and the largest providers allow 250


@dataclass(frozen=True, slots=True)
class Pod:
    """uids: its own, and the one under which a static pod runs. containers: id of 64 digits -> name.

    is_over: all of its containers have ended, for good.
    """

    namespace: str
    name: str
    uids: tuple[str, ...]
    containers: Mapping[str, str]
    is_over: bool = False


def at_most(pods: Mapping[str, Pod]) -> dict[str, Pod]:
    """The first MAX_PODS of them that are not over, and of those that are over as many as there is room for."""
    running_first = sorted(pods.items(), key=lambda item: item[1].is_over)
    return dict(running_first[:MAX_PODS])


@dataclass(slots=True)
class PodCache:
    """All pods of a node.

    is_worth_waiting_for: whether a container without a name will soon have one: True until the orchestrator fails, and again
    once it works.
    """

    is_worth_waiting_for: bool = True
    _pods: dict[str, Pod] = field(default_factory=dict)
    _by_container: dict[str, ContainerNames] = field(default_factory=dict)
    _by_uid: dict[str, ContainerNames] = field(default_factory=dict)
    _has_logged_overflow: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __len__(self) -> int:
        return len(self._pods)

    def names_of(self, container: Container) -> ContainerNames | None:
        """By the container's id, also an unconfirmed one, else by its pod's uid; None while the cache has neither.

        None as well for a container whose id may have been chosen by its owner, and for a container in another one.
        """
        if container.owner or container.node:
            return None
        identifier = container.id or container.unconfirmed_id
        with self._lock:
            found = self._by_container.get(identifier) if identifier else None
            of_pod = self._by_uid.get(container.pod_uid) if container.pod_uid else None
        is_of_another = found and of_pod and (found.namespace, found.pod) != (of_pod.namespace, of_pod.pod)
        return of_pod if is_of_another else found or of_pod

    def replace(self, pods: Mapping[str, Pod]) -> None:
        """Hold these pods and no others. pods: by uid; of more than MAX_PODS, see at_most()."""
        kept = at_most(pods)
        with self._lock:
            if len(kept) < len(pods):
                self._log_overflow()
            for uid in self._pods.keys() - kept.keys():
                self._delete(uid)
            for uid, pod in kept.items():
                self._put(uid, pod)

    def put(self, uid: str, pod: Pod) -> None:
        """Add or update a pod."""
        with self._lock:
            self._put(uid, pod)

    def delete(self, uid: str) -> None:
        """Remove a pod, if it is there."""
        with self._lock:
            self._delete(uid)

    def _put(self, uid: str, pod: Pod) -> None:
        if uid not in self._pods and len(self._pods) >= MAX_PODS:
            self._log_overflow()
            over = None if pod.is_over else next((one for one, known in self._pods.items() if known.is_over), None)
            if over is None:
                return
            self._delete(over)
        self._delete(uid)
        self._pods[uid] = pod
        pod_uid = next(iter(pod.uids), "")
        for one in pod.uids:
            self._by_uid[one] = ContainerNames(pod.namespace, pod.name, pod_uid=pod_uid)
        for container, name in pod.containers.items():
            self._by_container[container] = ContainerNames(pod.namespace, pod.name, name, pod_uid)

    def _log_overflow(self) -> None:
        if not self._has_logged_overflow:
            self._has_logged_overflow = True
            log.warning(
                "the orchestrator lists more than %d pods: finished ones, and then the last ones, have no names",
                MAX_PODS,
            )

    def _delete(self, uid: str) -> None:
        pod = self._pods.pop(uid, None)
        if pod is None:
            return
        for one in pod.uids:
            self._by_uid.pop(one, None)
        for container in pod.containers:
            self._by_container.pop(container, None)
