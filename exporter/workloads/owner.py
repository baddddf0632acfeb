"""The owner of a process: who answers for what it takes, in a form that the process cannot choose.

In: the text of /proc/TGID/cgroup, and the user as the kernel programs report it. Out: an Owner. Pure.

A container is an owner; of nested ones the outermost, because a process may make containers within its own. A container below a
user's own slice was made by that user, who may make any number of them. Outside containers the user is the owner.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from exporter.text.printable import printable
from exporter.workloads.container import TEXT_CHARACTERS_MAX, container_label, container_of_path

_USER_SLICE: Final = "user.slice"
_SEGMENTS_MAX: Final = 16  # containers of containers of containers; a deeper path is not searched
_NAME_CHARACTERS_MAX: Final = 64


class Owner(NamedTuple):
    """key: unique on this node. name: printable, for people."""

    key: str
    name: str

    @property
    def is_container(self) -> bool:
        """Whether the cgroup shows the owner, instead of the user."""
        return self.key.startswith("container ")


def owner_of(cgroup_text: str, uid: int) -> Owner:
    """The owner of a process with these cgroups, which may be unknown, and this user."""
    for line in cgroup_text[:TEXT_CHARACTERS_MAX].split("\n"):
        parts = line.split(":", 2)
        if len(parts) == 3 and (owner := _container_owner(parts[2].removesuffix(" (deleted)"))):
            return owner
    return user_owner(uid)


def user_owner(uid: int) -> Owner:
    """A user, with all that is in no container."""
    return Owner(f"uid {uid}", f"uid {uid}")


def _container_owner(path: str) -> Owner | None:
    """The outermost container of a cgroup path; a pod without a container that is known."""
    segments = [segment for segment in path.split("/") if segment]
    if _USER_SLICE in segments:
        return None
    pod: Owner | None = None
    for end in range(1, min(len(segments), _SEGMENTS_MAX) + 1):
        found = container_of_path("/" + "/".join(segments[:end]))
        if found.owner:
            return None  # whose id a user, a service or a batch job may have chosen
        if found.id:
            return Owner(f"container {found.id}", printable(container_label(found)[:_NAME_CHARACTERS_MAX]))
        if found.pod_uid:
            pod = pod or Owner(f"container {found.pod_uid}", f"pod {found.pod_uid}")
    return pod
