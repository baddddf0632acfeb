r"""The container, pod, batch job or service that a process runs in.

In: the text of /proc/TGID/cgroup. Out: a Container, every part of it empty unless the path names it in a form that a
known runtime writes. Random hexadecimal digits in an unknown form are not a container.

The innermost container counts: kind and docker-in-docker run containers in containers. A process that may create cgroups
below its own can therefore pretend to be in a container; it cannot leave its outer one.

    docker      /docker/<id>    docker-<id>.scope    <slice>:docker:<id>    /ecs/<task>/<id>
    containerd  cri-containerd-<id>.scope    <slice>:cri-containerd:<id>    nerdctl-<id>.scope
    crio        crio-<id>.scope    <pod>/crio-<id>      not crio-conmon-<id>, which is outside of the container
    podman      libpod-<id>.scope    libpod_parent/libpod-<id>    libpod-payload-<id>      not libpod-conmon-<id>
    kubernetes  kubepods/.../pod<uid>/<id>    ...kubepods-<class>-pod<uid_>.slice    ../pod<uid>/<id>
    lxc         lxc/<name>    lxc.payload/<name>    lxc.payload.<name>      not lxc.monitor
    slurm       slurm[_<node>]/uid_<n>/job_<n>/step_<n>    slurmstepd.scope/job_<n>/step_<n>
    systemd     any <name>.service, .scope, .slice, .socket, .mount, .swap
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

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
_PLAIN: Final = re.compile(_ID)
_FARGATE: Final = re.compile(r"[0-9a-f]{32}-[0-9]{1,12}")
_KUBEPODS: Final = re.compile(r"(?:.*-)?kubepods(?:\.slice)?")
_POD_SLICE: Final = re.compile(
    rf"(?:.*-)?kubepods(?:-burstable|-besteffort)?-pod(?P<uid>{_UUID}|[0-9a-f]{{32}})\.slice"
)
_POD: Final = re.compile(rf"pod(?P<uid>{_UUID}|[0-9a-f]{{32}})")
_LXC_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_SLURM_ROOT: Final = re.compile(r"slurm(?:_[A-Za-z0-9_.-]+)?|(?:[A-Za-z0-9_.-]+_)?slurmstepd\.scope")
_SLURM_JOB: Final = re.compile(r"job_(?P<job>[0-9]{1,10})")
_SLURM_STEP: Final = re.compile(r"step_(?P<step>[0-9]{1,10}(?:\+[0-9]{1,10})?|batch|extern|interactive)")
_UNIT: Final = re.compile(r"[A-Za-z0-9:_.\\@-]{1,240}\.(?:service|scope|slice|socket|mount|swap)")
_USER_MANAGER: Final = re.compile(r"user@[0-9]+\.service")
_ESCAPED: Final = re.compile(r"\\x([0-9a-f]{2})")


@dataclass(frozen=True, slots=True)
class Container:
    """Where a process runs; "" for each part that is not in its cgroup.

    id: 64 hexadecimal digits, or the name in LXC and Fargate.
    runtime: docker, containerd, crio, podman, kubernetes (the pod is known, its runtime not), lxc, slurm, systemd.
    pod_uid: a UUID with dashes; a static pod's 32 digits stay without.
    unit: the innermost systemd unit as systemd itself names it, "\\x2d" included, so that systemctl takes it.
    """

    id: str = ""
    runtime: str = ""
    pod_uid: str = ""
    slurm_job_id: str = ""
    slurm_step: str = ""
    unit: str = ""


NO_CONTAINER: Final = Container()


def parse_cgroup(text: str) -> Container:
    """The container of the most specific line: a container, else a pod, a Slurm job, a unit.

    Every controller of cgroup v1 has a line of its own, and so has v2; they may disagree. Among equals the first line counts.
    """
    best = NO_CONTAINER
    if len(text) > TEXT_CHARACTERS_MAX:
        text = text[:TEXT_CHARACTERS_MAX].rpartition("\n")[0]  # half a path may look like a whole one
    for line in text.split("\n"):
        parts = line.split(":", 2)
        if len(parts) != 3 or not parts[0].isdecimal() or not parts[2].startswith("/"):
            continue
        container = container_of_path(parts[2].removesuffix(" (deleted)"))
        if _specificity(container) > _specificity(best):
            best = container
    return best


def container_label(container: Container) -> str:
    """The value of the `container` label.

    The first 12 digits of a container's id (a name is not cut); else "job_123" for a Slurm job; else the systemd
    service. Empty for a login session, a slice, a user's service manager and a process in no known place.
    """
    if container.id:
        is_digest = len(container.id) == 64 and container.runtime != "lxc"
        return container.id[:SHORT_ID_CHARACTERS] if is_digest else container.id
    if container.slurm_job_id:
        return f"job_{container.slurm_job_id}"
    if container.unit.endswith(".service") and not _USER_MANAGER.fullmatch(container.unit):
        return container.unit
    return ""


def _specificity(container: Container) -> tuple[bool, bool, bool, bool]:
    return bool(container.id), bool(container.pod_uid), bool(container.slurm_job_id), bool(container.unit)


def container_of_path(path: str) -> Container:
    """The container of one cgroup path, `/` for the root. Deeper segments replace what was found before."""
    found = NO_CONTAINER
    parents: list[str] = []
    for segment in path.split("/")[: SEGMENTS_MAX + 1]:
        if not segment:
            continue
        name = _ESCAPED.sub(lambda escape: chr(int(escape[1], 16)), segment)
        found = _with_pod(found, name, parents) or _with_container(found, name, parents) or found
        found = _with_slurm(found, name, parents)
        if _UNIT.fullmatch(segment):
            found = replace(found, unit=segment, runtime=found.runtime or "systemd")
        parents.append(name)
    return found


def _with_pod(found: Container, name: str, parents: list[str]) -> Container | None:
    """`found` after a pod's segment; its containers are deeper."""
    pod = _POD_SLICE.fullmatch(name)
    if pod is None and _may_hold_pods(parents):
        pod = _POD.fullmatch(name)
    return replace(found, pod_uid=pod["uid"].replace("_", "-"), id="", runtime="kubernetes") if pod else None


def _may_hold_pods(parents: list[str]) -> bool:
    """Below kubepods, or beside our own cgroup: in a cgroup namespace the upper part of a path is only "..".

    A bare id beside us may be anything; "pod<uid>" is a pod.
    """
    return any(map(_KUBEPODS.fullmatch, parents)) or (bool(parents) and set(parents) == {".."})


def _with_container(found: Container, name: str, parents: list[str]) -> Container | None:
    """`found` after a container's segment; None for any other."""
    if known := _SCOPE.fullmatch(name) or _PREFIXED.fullmatch(name):
        return replace(found, id=known["id"], runtime=_RUNTIMES[known["runtime"]])
    if known := _SLICE_AND_ID.fullmatch(name):
        in_pod = _with_pod(found, known["slice"], parents) or found
        return replace(in_pod, id=known["id"], runtime=_RUNTIMES[known["runtime"]])
    parent = parents[-1] if parents else ""
    if parent in ("lxc", "lxc.payload") and _LXC_NAME.fullmatch(name):
        return replace(found, id=name, runtime="lxc")
    if name.startswith("lxc.payload.") and _LXC_NAME.fullmatch(name):
        return replace(found, id=name.removeprefix("lxc.payload."), runtime="lxc")
    is_task = "ecs" in parents[-3:-1]
    if _PLAIN.fullmatch(name):
        if parent == "docker" or is_task:
            return replace(found, id=name, runtime="docker")
        if _POD.fullmatch(parent) or _POD_SLICE.fullmatch(parent):
            return replace(found, id=name) if found.pod_uid else None
    if is_task and _FARGATE.fullmatch(name):
        return replace(found, id=name, runtime="containerd")
    return None


def _with_slurm(found: Container, name: str, parents: list[str]) -> Container:
    """`found` after the segment of a job or step below one of Slurm; a container in the job keeps its runtime."""
    if (job := _SLURM_JOB.fullmatch(name)) and any(map(_SLURM_ROOT.fullmatch, parents)):
        runtime = "slurm" if found.runtime in ("", "systemd") else found.runtime
        return replace(found, slurm_job_id=job["job"], slurm_step="", runtime=runtime)
    if (step := _SLURM_STEP.fullmatch(name)) and found.slurm_job_id and _SLURM_JOB.fullmatch(parents[-1]):
        return replace(found, slurm_step=step["step"])
    return found
