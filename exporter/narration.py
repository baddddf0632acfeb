"""What is said of a chain: a line of the log when it opens, becomes worse, or is over.

In: Transitions, and whose they are. Out: log records with fields that machines read.
"""

from __future__ import annotations

import logging

from exporter.chains.chain import Chain, Change, Transition
from exporter.chains.remedies import Place, remedy_of
from exporter.errors import NotPossibleHere, ProcessGone
from exporter.host.processes import Processes
from exporter.model import Identity, label_value
from exporter.units import seconds

log = logging.getLogger(__name__)

_STATUS_BYTES = 16 * 1024


class Narrator:
    """processes: of /proc, where commands that help get their numbers."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes

    def tell(
        self, transition: Transition, identity: Identity | None, tgid: int, culprit_tgids: tuple[int, ...]
    ) -> None:
        """One line. identity: None while the process is held back. tgid: 0 where it is out of sight."""
        change, chain = transition
        told = fields(chain, identity, tgid)
        if change is Change.OPENED:
            remedy = remedy_of(chain, self._place(tgid, culprit_tgids))
            told |= {"remedy": remedy.what, "commands": "; ".join(remedy.commands)}
        level = logging.INFO if change is Change.RESOLVED else logging.WARNING
        log.log(level, f"chain {change.value}: %s", sentence(chain), extra={"fields": told})

    def _place(self, tgid: int, culprit_tgids: tuple[int, ...]) -> Place:
        try:
            cgroup = _cgroup_path(self._processes.cgroup(tgid))
            status = self._processes.read(tgid, "status", _STATUS_BYTES)
        except (ProcessGone, NotPossibleHere):
            return Place(tgid, culprit_tgids=culprit_tgids)
        return Place(tgid, cgroup, _allowed_cpus(status), culprit_tgids)


def sentence(chain: Chain) -> str:
    """`cpu_contention: steps take 1.9 times as long, 46% of the time is lost, 97% of it to stress-ng`."""
    told = []
    if chain.slowdown is not None:
        told.append(f"steps take {1 + chain.slowdown:.1f} times as long")
    if chain.lost_share:
        told.append(f"{chain.lost_share:.0%} of the time is lost")
    if chain.culprits:
        culprit, part = chain.culprits[0]
        told.append(f"{part:.0%} of it to {culprit}")
    if chain.peer:
        told.append(f"rank {chain.peer} is late")
    return f"{chain.cause.value}: {', '.join(told)}" if told else chain.cause.value


def fields(chain: Chain, identity: Identity | None, tgid: int) -> dict[str, str]:
    """Of a log record. Empty ones are left out."""
    known = {
        "chain_id": chain.id,
        "cause": chain.cause.value,
        "effect": chain.effect.value,
        "severity": chain.severity.name.lower(),
        "rank": identity.rank if identity else "",
        "container": identity.container if identity else "",
        "pid": str(tgid or ""),
        "culprit": chain.culprits[0][0] if chain.culprits else "",
        "peer": chain.peer,
        "lost_share": f"{chain.lost_share:.3f}",
        "contribution": f"{chain.contribution:.3f}",
        "open_seconds": f"{seconds((chain.resolved_ns or chain.updated_ns) - chain.began_ns):.2f}",
        "end": chain.end.value if chain.end else "",
    }
    return {name: value for name, value in known.items() if value}


def _cgroup_path(text: str) -> str:
    """Of the unified hierarchy; where there is none, of the one for CPUs."""
    paths = {controllers: path for _, controllers, path in (line.split(":", 2) for line in text.splitlines())}
    of_cpus = next((path for controllers, path in paths.items() if "cpu" in controllers.split(",")), "")
    return label_value(of_cpus or paths.get("", "")).rstrip("/")


def _allowed_cpus(status: bytes) -> str:
    """`0-3,8`."""
    for line in status.decode(errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name == "Cpus_allowed_list":
            return value.strip()
    return ""
