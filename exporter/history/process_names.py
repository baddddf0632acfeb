"""Names of processes for people, and the answer to a --workload that selects none of them."""

from __future__ import annotations

from collections.abc import Iterable

from exporter.errors import BadInput
from exporter.model import Identity

_NAMES_MAX = 12


def process_name(identity: Identity | None, tgid: int, comm: str = "") -> str:
    """`rank 3 (pod trainer-0)`, `rank 0 (container 0123456789ab)`, `rank 0 (pid 4027)`, `pid 4027 (python)`."""
    labels = identity or Identity()
    place = f"pod {labels.pod}" if labels.pod else f"container {labels.container}" if labels.container else ""
    if labels.rank:
        place = place or f"pid {tgid}" * bool(tgid)  # two jobs without containers both have a rank 0
        return f"rank {labels.rank} ({place})" if place else f"rank {labels.rank}"
    name = f"pid {tgid}" if tgid else "a process in another pid namespace"
    details = ", ".join(filter(None, (comm, place)))
    return f"{name} ({details})" if details else name


def no_match(workload: str, names: Iterable[str]) -> BadInput:
    """workload: what was given. names: of the processes that there are."""
    known = sorted(set(names))
    if not known:
        return _refusal(workload, "no process made a traced call in this time; increase --since")
    more = f" and {len(known) - _NAMES_MAX} more" if len(known) > _NAMES_MAX else ""
    return _refusal(workload, f"there are {', '.join(known[:_NAMES_MAX])}{more}")


def _refusal(workload: str, remedy: str) -> BadInput:
    return BadInput(f"--workload: no process matches {workload!r}", remedy=remedy)
