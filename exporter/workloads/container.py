r"""The container, pod, batch job or service that a process runs in.

In: the text of /proc/TGID/cgroup. Out: a Container, every part of it empty unless the path names it in a form that a
known runtime writes. Random hexadecimal digits in an unknown form are not a container.

The outermost container counts, in a place where only the machine's own runtime makes cgroups. A process that may create cgroups
below its own can give them any name, so nothing inside a container, a pod or a batch job is taken for another one. A user's own
slice and a service may hold containers, which then carry their `owner`, since it chooses their ids. The node of a kind cluster is
a container with pods in it; they count if the machine that is observed is that node (seen_from()).

    docker      /docker/<id>    docker-<id>.scope    <slice>:docker:<id>    /ecs/<task>/<id>
    containerd  cri-containerd-<id>.scope    <slice>:cri-containerd:<id>    nerdctl-<id>.scope    /k8s.io/<id>    /default/<id>
    crio        crio-<id>.scope    <pod>/crio-<id>      not crio-conmon-<id>, which is outside of the container
    podman      libpod-<id>.scope    libpod_parent/libpod-<id>    libpod-payload-<id>      not libpod-conmon-<id>
    kubernetes  kubepods/.../pod<uid>/<id>    ...kubepods-<class>-pod<uid_>.slice    ../pod<uid>/<id>
                in a node's container: kubelet/kubepods/...    kubelet.slice/kubelet-kubepods.slice/...    kubepods/...
    lxc         lxc/<name>    lxc.payload/<name>    lxc.payload.<name>      not lxc.monitor
    batch jobs  batch_jobs.py
    systemd     any <name>.service, .scope, .slice, .socket, .mount, .swap

A bare id in another place where only root makes cgroups, /<name>/<id> or beside this process, is `unconfirmed_id`. Deeper folders
may have been given to a user.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field, replace
from typing import Final

from exporter.text.reserved import NameOf, marked
from exporter.workloads.batch_jobs import DEPTH_MAX, SLURM, batch_job

SHORT_ID_CHARACTERS: Final = 12  # as `docker ps` shows it
TEXT_CHARACTERS_MAX: Final = 64 * 1024
SEGMENTS_MAX: Final = 128

_ID: Final = r"(?P<id>[0-9a-f]{64})"
_UUID: Final = r"[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}"
_RUNTIMES: Final = {
    "docker": "docker",
    "cri-containerd": "containerd",
    "nerdctl": "containerd",
    "crio": "crio",
    "libpod": "podman",
    "libpod-payload": "podman",
}
_RUNTIME: Final = "(?P<runtime>" + "|".join(_RUNTIMES) + ")"
_SCOPE: Final = re.compile(rf"{_RUNTIME}-{_ID}\.scope")
_SLICE_AND_ID: Final = re.compile(rf"(?P<slice>[^:]+):{_RUNTIME}:{_ID}")
_PREFIXED: Final = re.compile(rf"(?P<runtime>crio|libpod|libpod-payload)-{_ID}")
_NODE: Final = re.compile(r"(?:(?:docker|nerdctl|libpod)-)?[0-9a-f]{64}(?:\.scope)?")
_PLAIN: Final = re.compile(_ID)
_FARGATE: Final = re.compile(r"[0-9a-f]{32}-[0-9]{1,12}")
_KUBEPODS: Final = re.compile(r"(?:.*-)?kubepods(?:\.slice)?")
_QUALITIES: Final = frozenset(("burstable", "besteffort"))
_KUBELET: Final = frozenset(("kubelet", "kubelet.slice"))
_RUNTIME_SERVICE: Final = re.compile(
    r"(?:containerd|docker|crio|podman|kubelet|k3s|rke2-server|rke2-agent|k0scontroller|k0sworker)\.service"
)
_PARENTS: Final = frozenset(("docker", "ecs", "lxc", "lxc.payload", "libpod_parent"))
_CONTAINERD_NAMESPACES: Final = frozenset(("k8s.io", "default"))
"""Folders of containerd at the root without systemd: for pods that have no cgroup of their own, and for nerdctl."""
_POD_SLICE: Final = re.compile(
    rf"(?:.*-)?kubepods(?:-burstable|-besteffort)?-pod(?P<uid>{_UUID}|[0-9a-f]{{32}})\.slice"
)
_POD: Final = re.compile(rf"pod(?P<uid>{_UUID}|[0-9a-f]{{32}})")
_LXC_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_UNIT: Final = re.compile(r"[A-Za-z0-9:_.\\@-]{1,240}\.(?:service|scope|slice|socket|mount|swap)")
_USER_MANAGER: Final = re.compile(r"user@[0-9]+\.service")
_USER_SLICE: Final = re.compile(r"user-(?P<uid>[0-9]{1,10})\.slice")
_ESCAPED: Final = re.compile(r"\\x([0-9a-f]{2})")


@dataclass(frozen=True, slots=True)
class Container:
    """Where a process runs; "" for each part that is not in its cgroup.

    id: 64 hexadecimal digits, or the name in LXC and Fargate.
    runtime: docker, containerd, crio, podman, kubernetes (the pod is known, its runtime not), lxc, systemd, or the job's manager.
    pod_uid: a UUID with dashes; a static pod's 32 digits stay without.
    manager, job: as in BatchJob; a job may have containers in it.
    unit: the innermost systemd unit as systemd itself names it, "\\x2d" included, so that systemctl takes it. In a container it
    is one that the container claims.
    owner: who may have chosen id and unit: `uid 1000`, a service or a batch job; "" if only the machine's runtime has. No
    orchestrator knows a container with an owner. node: the container around a pod.
    unconfirmed_id: it counts if the orchestrator lists it; "" where `id` is known.
    """

    id: str = ""
    runtime: str = ""
    pod_uid: str = ""
    manager: str = ""
    job: str = ""
    unit: str = ""
    owner: str = field(default="", compare=False)
    node: Container | None = field(default=None, compare=False)
    unconfirmed_id: str = field(default="", compare=False)

    @property
    def slurm_job_id(self) -> str:
        """Decimal digits, or a SLUID."""
        return self.job.removeprefix("job_") if self.manager == SLURM else ""


NO_CONTAINER: Final = Container()


def parse_cgroup(text: str) -> Container:
    """The container of the most specific line: a container, else a pod, a batch job, a unit.

    Every controller of cgroup v1 has a line of its own, and so has v2; they may disagree. Among equals the first line counts.
    """
    best, unconfirmed_id = NO_CONTAINER, ""
    if len(text) > TEXT_CHARACTERS_MAX:
        text = text[:TEXT_CHARACTERS_MAX].rpartition("\n")[0]  # half a path may look like a whole one
    for line in text.split("\n"):
        parts = line.split(":", 2)
        if len(parts) != 3 or not parts[0].isdecimal() or not parts[2].startswith("/"):
            continue
        container = container_of_path(parts[2].removesuffix(" (deleted)"))
        unconfirmed_id = unconfirmed_id or container.unconfirmed_id
        if _specificity(container) > _specificity(best):
            best = container
    return best if best.id else replace(best, unconfirmed_id=unconfirmed_id)


def container_label(container: Container) -> str:
    """The value of the `container` label.

    The first 12 digits of a container's id (a name is not cut); else the batch job; else the systemd service. Empty for a
    login session, a slice, a user's service manager and a process in no known place. The owner of a container or service
    follows in parentheses: `0123456789ab (uid 1000)`.
    """
    owner = f" ({container.owner})" if container.owner else ""
    if container.id:
        is_digest = len(container.id) == 64 and container.runtime != "lxc"
        name = container.id[:SHORT_ID_CHARACTERS] if is_digest else marked(container.id, NameOf.CONTAINER)
        return f"{name}{owner}"
    if container.job:
        return marked(container.job, NameOf.CONTAINER)
    if container.unit.endswith(".service") and not _USER_MANAGER.fullmatch(container.unit):
        return f"{container.unit}{owner}"
    return ""


def confirmed(container: Container, pod_uid: str) -> Container:
    """The container once the orchestrator has listed its unconfirmed id, as one of this pod."""
    if container.id or not container.unconfirmed_id:
        return container
    return replace(
        container,
        id=container.unconfirmed_id,
        unconfirmed_id="",
        pod_uid=container.pod_uid or pod_uid,
        runtime="kubernetes" if container.runtime in ("", "systemd") else container.runtime,
    )


def seen_from(container: Container, machine_id: str) -> Container:
    """The container as it counts on a machine that is itself the container with this id, "" if it is none.

    Elsewhere pods in a container are what that container says of itself: the container around them counts.
    """
    if container.node is None:
        return container
    return replace(container, node=None) if container.node.id == machine_id else container.node


def _specificity(container: Container) -> tuple[bool, ...]:
    """An id that its owner may have chosen counts less than another one."""
    has_id = bool(container.id)
    is_certain = has_id and not container.owner
    return has_id, is_certain, bool(container.pod_uid), bool(container.job), bool(container.unit)


def container_of_path(path: str) -> Container:
    """The container of one cgroup path, `/` for the root."""
    walk = _Walk()
    for segment in _normal(path.split("/")[: SEGMENTS_MAX + 1]):
        walk.enter(segment, _ESCAPED.sub(lambda escape: chr(int(escape[1], 16)), segment))
    return walk.found


def _normal(segments: list[str]) -> list[str]:
    """Without empty segments, and with dots only in front: `../../a/../b` is `../../b`."""
    found: list[str] = []
    for segment in segments:
        if segment == ".." and found and found[-1] != "..":
            found.pop()
        elif segment:
            found.append(segment)
    return found


class _Zone(enum.Enum):
    """Who makes cgroups at a place. MACHINE: its services and runtimes. NODE: those in the container of a kind node.

    OWNED: the user, service or job that owns it. INSIDE: what runs in a container. UNKNOWN: anything below is not believed.
    """

    MACHINE = enum.auto()
    NODE = enum.auto()
    OWNED = enum.auto()
    INSIDE = enum.auto()
    UNKNOWN = enum.auto()


class _Walk:
    """From the root of a path down. parents: names above, without dots."""

    def __init__(self) -> None:
        self.found = NO_CONTAINER
        self._zone = _Zone.MACHINE
        self._parents: list[str] = []
        self._has_dots = False
        self._is_leaf = False  # in a service or scope, which holds no other unit
        self._owner = ""

    def enter(self, segment: str, name: str) -> None:
        """The next segment, and its name without escapes."""
        if name == "..":
            self._has_dots = True
            return
        self._enter_zone(name)
        if _UNIT.fullmatch(segment):
            self._enter_unit(segment)
        self._parents.append(name)

    def _enter_zone(self, name: str) -> None:
        if self._enter_job(name):
            return
        may_be_id = self._zone in (_Zone.MACHINE, _Zone.UNKNOWN) and len(self._parents) <= 1
        if self._zone in (_Zone.MACHINE, _Zone.NODE):
            self._enter_machine(name)
        elif self._zone is _Zone.OWNED:
            self._enter_owned(name)
        elif self._zone is _Zone.INSIDE and self._may_be_node and (name in _KUBELET or _KUBEPODS.fullmatch(name)):
            self._zone = _Zone.NODE
        else:
            self._zone = _Zone.INSIDE if self.found.id else _Zone.UNKNOWN
        if may_be_id and self._zone is _Zone.UNKNOWN and not self.found.pod_uid and _PLAIN.fullmatch(name):
            self.found = replace(self.found, unconfirmed_id=name)

    @property
    def _may_be_node(self) -> bool:
        """Directly in a container of Docker, Podman or nerdctl, which kind uses."""
        container = self.found
        is_alone = not (container.pod_uid or container.owner or container.node)
        return is_alone and _NODE.fullmatch(self._parent) is not None

    @property
    def _parent(self) -> str:
        return self._parents[-1] if self._parents else ""

    def _enter_machine(self, name: str) -> None:
        if self._enter_pod(name) or self._enter_container(name):
            return
        if self.found.pod_uid:
            self._zone = _Zone.UNKNOWN
        elif self._zone is _Zone.NODE:
            is_between = name in _KUBELET or _KUBEPODS.fullmatch(name) or name in _QUALITIES or name.endswith(".slice")
            self._zone = _Zone.NODE if is_between else _Zone.INSIDE
        elif name == "user.slice":
            self._own("user.slice")
        elif _UNIT.fullmatch(name):
            if not (name.endswith(".slice") or _RUNTIME_SERVICE.fullmatch(name)):
                self._own(name)
        elif not self._is_between(name):
            self._zone = _Zone.UNKNOWN

    def _is_between(self, name: str) -> bool:
        """Whether containers of a runtime may be below a folder of this name."""
        if name in _QUALITIES:
            return _KUBEPODS.fullmatch(self._parent) is not None or (self._has_dots and not self._parents)
        if name in _CONTAINERD_NAMESPACES:
            return not self._parents
        if self._parents[-2:-1] == ["ecs"] or self._parents[-1:] == ["ecs"]:
            return True
        is_top = all(one.endswith(".slice") for one in self._parents)
        return is_top and (name in _PARENTS or _KUBEPODS.fullmatch(name) is not None)

    def _own(self, owner: str) -> None:
        self._zone, self._owner = _Zone.OWNED, owner

    def _enter_owned(self, name: str) -> None:
        if self._owner == "user.slice" and (user := _USER_SLICE.fullmatch(name)):
            self._owner = f"uid {user['uid']}"
        else:
            self._enter_container(name)

    def _enter_job(self, name: str) -> bool:
        """A batch job's own cgroup, which is no unit of systemd whatever its name."""
        found = self.found
        if found.id or found.pod_uid or found.job or len(self._parents) >= DEPTH_MAX:
            return False
        job = batch_job("/".join((*self._parents, name)))
        if job is None:
            return False
        self.found = replace(found, manager=job.manager, job=job.name, runtime=job.manager, unit="")
        self._own(job.name)
        self._is_leaf = True
        return True

    def _enter_unit(self, segment: str) -> None:
        if not self.found.id and (self._is_leaf or self._zone is _Zone.UNKNOWN):
            return
        is_manager = self._owner.startswith("uid ") and _USER_MANAGER.fullmatch(segment) and not self._is_leaf
        self._is_leaf = self._is_leaf or not (segment.endswith(".slice") or is_manager)
        owner = self.found.owner or (self._owner if self._owner.startswith("uid ") else "")
        self.found = replace(self.found, unit=segment, runtime=self.found.runtime or "systemd", owner=owner)

    def _enter_pod(self, name: str) -> bool:
        """A pod's own cgroup; its containers are deeper."""
        if self.found.pod_uid:
            return False
        pod = _POD_SLICE.fullmatch(name) or (_POD.fullmatch(name) if self._may_hold_pods else None)
        if pod is None:
            return False
        self._found_pod(pod["uid"])
        return True

    def _found_pod(self, uid: str) -> None:
        node = self.found if self.found.id else self.found.node
        self.found = replace(self.found, pod_uid=uid.replace("_", "-"), id="", runtime="kubernetes", node=node)

    @property
    def _may_hold_pods(self) -> bool:
        """Below kubepods, or beside our own cgroup: in a cgroup namespace the upper part of a path is only dots.

        "pod<uid>" is then a pod, and so is one below the folder of another quality class than ours.
        """
        is_beside = self._has_dots and len(self._parents) <= 1 and _QUALITIES.issuperset(self._parents)
        return any(map(_KUBEPODS.fullmatch, self._parents[-2:])) or is_beside

    def _enter_container(self, name: str) -> bool:
        """A container's own cgroup."""
        if self._zone is _Zone.NODE and not self.found.pod_uid:
            return False  # what a node's container itself starts is inside of it
        known = self._container(name)
        if known is None:
            return False
        identifier, runtime = known
        owner = self._owner if self._zone is _Zone.OWNED else ""
        self.found = replace(self.found, id=identifier, runtime=runtime or self.found.runtime, owner=owner)
        self._zone = _Zone.INSIDE
        return True

    def _container(self, name: str) -> tuple[str, str] | None:
        """Id and runtime; "" for a runtime that the path does not name."""
        if known := _SCOPE.fullmatch(name) or _PREFIXED.fullmatch(name):
            return known["id"], _RUNTIMES[known["runtime"]]
        if (known := _SLICE_AND_ID.fullmatch(name)) and self._zone is not _Zone.OWNED:
            if (pod := _POD_SLICE.fullmatch(known["slice"])) and not self.found.pod_uid:
                self._found_pod(pod["uid"])
            return known["id"], _RUNTIMES[known["runtime"]]
        parent = self._parent
        if parent in ("lxc", "lxc.payload") and _LXC_NAME.fullmatch(name):
            return name, "lxc"
        if name.startswith("lxc.payload.") and _LXC_NAME.fullmatch(name):
            return name.removeprefix("lxc.payload."), "lxc"
        is_task = "ecs" in self._parents[-3:-1]
        if _PLAIN.fullmatch(name):
            if parent == "docker" or is_task:
                return name, "docker"
            if len(self._parents) == 1 and parent in _CONTAINERD_NAMESPACES:
                return name, "containerd"
            return (name, "") if _POD.fullmatch(parent) or _POD_SLICE.fullmatch(parent) else None
        return (name, "containerd") if is_task and _FARGATE.fullmatch(name) else None
