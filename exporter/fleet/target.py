"""What the flags of a command come to: the nodes, what they are shown, and until when they may answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from exporter.config.fleet_flags import FleetFlags
from exporter.errors import BadInput
from exporter.fleet.access import AccessFiles, NodeAccess, access_of
from exporter.fleet.addresses import server_name
from exporter.fleet.asking import Asked
from exporter.fleet.exchange import NodeRequest
from exporter.fleet.fleet_file import FILE_KEYS
from exporter.fleet.node import Node
from exporter.fleet.nodes import Fleet, Lookup, find_nodes
from exporter.http_client.deadline import Deadline


class FleetTarget(NamedTuple):
    """deadline: from now on, also for finding the nodes."""

    nodes: Sequence[Node]
    access: NodeAccess
    deadline: Deadline

    def renewed(self, seconds: float) -> FleetTarget:
        """The same nodes for another question, with so much time."""
        return self._replace(deadline=_deadline(seconds))

    def asked(self, request: NodeRequest) -> Asked:
        return Asked(request, self.access, self.deadline)


def target_of(flags: FleetFlags, environment: Mapping[str, str]) -> FleetTarget:
    """A file that a flag names comes before that of the fleet's file. Raises BadInput, and NodesNotFound."""
    deadline = _deadline(flags.deadline_seconds)
    fleet = find_nodes(flags.nodes, Lookup(deadline, flags.orchestrator, environment, flags.source("nodes")))
    files = AccessFiles(
        flags.ca or fleet.files.ca,
        flags.certificate or fleet.files.certificate,
        flags.key or (None if flags.certificate else fleet.files.key),
        flags.token or fleet.files.token,
    )
    access = access_of(files, is_insecure=flags.is_insecure, source=_sources(flags, fleet, files))
    name = _server_name(flags) or fleet.server_name
    return FleetTarget(fleet.nodes, access._replace(server_name=name), deadline)


def _sources(flags: FleetFlags, fleet: Fleet, files: AccessFiles) -> Callable[[str], str]:
    """Where the value of a flag stands: `--nodes.ca`, or `--nodes: fleet.toml: ca`. files: that are used."""
    given = (flags.ca, flags.certificate, flags.key, flags.token)
    of_file = {key for key, used, flag in zip(FILE_KEYS, files, given, strict=True) if used and not flag}

    def source(flag: str) -> str:
        key = flag.removeprefix("nodes.")
        return f"{fleet.shown}: {key}" if key in of_file else flags.source(flag)

    return source


def _server_name(flags: FleetFlags) -> str:
    source = flags.source("nodes.server-name")
    if flags.server_name and flags.is_insecure:
        raise BadInput(
            f"{source} is about certificates, and {flags.source('nodes.insecure')} asks without any",
            remedy="leave one of them out",
        )
    try:
        return server_name(flags.server_name) if flags.server_name else ""
    except ValueError as error:
        raise BadInput(f"{source}: {error}", remedy="give a name that is in the certificates of the nodes") from None


def _deadline(seconds: float) -> Deadline:
    return Deadline.after(seconds, f"no complete answer within {seconds:g} s")
