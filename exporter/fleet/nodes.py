"""Which nodes --nodes names: a list, a group of a file, names of Slurm, or what DNS or Kubernetes know.

    gpu1:10479,gpu[02-16],[fd00::1]:10479
    @fleet.toml, @fleet.toml#training, fleet.toml
    slurm:gpu[01-16,20],login
    dns:NAME, dns:NAME:PORT
    kubernetes:SELECTOR, kubernetes:NAMESPACE:SELECTOR

In: the text of the flag. Out: a Fleet, whose nodes have different names and addresses, or one line that says what is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from exporter.config.orchestrator import OrchestratorSettings
from exporter.errors import BadInput
from exporter.files import content
from exporter.fleet import fleet_file
from exporter.fleet.access import AccessFiles
from exporter.fleet.addresses import Address, address, named, refuse_duplicates
from exporter.fleet.fleet_file import FleetFile
from exporter.fleet.headless_service import addresses_of
from exporter.fleet.host_list import expanded, parts, quoted
from exporter.fleet.node import Node
from exporter.fleet.serving_pods import serving_pods
from exporter.http_client.deadline import Deadline
from exporter.workloads.orchestrators.api_server import api_server

_REMEDY: Final = "see docs/fleet.md#which-nodes"
_FILE: Final = re.compile(r"@(?P<at>[^#]*)(?:#(?P<at_group>.*))?|(?P<name>[^#]+\.toml)(?:#(?P<group>.*))?", re.DOTALL)
_SELECTOR_CHARACTERS_MAX: Final = 1024
_NAMESPACE: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_NAMESPACE_BYTES_MAX: Final = 256

_Found = list[Address | Node]
"""Addresses are named when all are known; what has a name of its own is a node."""


class Fleet(NamedTuple):
    """files, server_name: of the file that names the nodes; what it does not name is None or empty.

    shown: what messages call the file.
    """

    nodes: Sequence[Node]
    files: AccessFiles = AccessFiles()
    server_name: str = ""
    shown: str = ""


class Lookup(NamedTuple):
    """What it takes to find nodes. deadline: for all requests. settings, environment: say where the API server is.

    source: where the text stands.
    """

    deadline: Deadline
    settings: OrchestratorSettings
    environment: Mapping[str, str]
    source: str = "--nodes"


def find_nodes(text: str, lookup: Lookup) -> Fleet:
    """At least one. Raises BadInput, which names what is wrong, and NodesNotFound."""
    match = _FILE.fullmatch(text)
    if match is None:
        return Fleet(_nodes(_of_text(text, {}, lookup, lookup.source), lookup.source))
    name, group = match["at"] or match["name"], match["at_group"] or match["group"]
    if not name:
        raise BadInput(f"{lookup.source}: {quoted(text)} names no file", remedy=_REMEDY)
    file = fleet_file.read(Path(name), lookup.source)
    nodes = _nodes(_of_file(file, group or file.default_group, lookup), file.shown)
    return Fleet(nodes, file.files, file.server_name, file.shown)


def _nodes(found: _Found, source: str) -> list[Node]:
    names = iter(named(one for one in found if isinstance(one, Address)))
    nodes = [next(names) if isinstance(one, Address) else one for one in found]
    try:
        refuse_duplicates(nodes)
    except ValueError as error:
        raise BadInput(f"{source}: {error}", remedy="name each node once") from None
    return nodes


def _of_file(file: FleetFile, group: str, lookup: Lookup) -> _Found:
    """Without a group: all nodes of the file. One that several groups have is one node."""
    if group:
        return _of_group(file, group, lookup)
    everything = [*_own(file.addresses), *(one for name in file.groups for one in _of_group(file, name, lookup))]
    return [*dict.fromkeys(everything)]


def _own(addresses: Mapping[str, Address]) -> Iterable[Node]:
    return (Node(name, *one) for name, one in addresses.items())


def _of_group(file: FleetFile, group: str, lookup: Lookup) -> _Found:
    source = f"{file.shown}: [groups] {group}"
    found: _Found = []
    for text in file.group(group):
        if _FILE.fullmatch(text):
            raise BadInput(f"{source}: {quoted(text)} is another file", remedy="name its nodes here")
        found += _of_text(text, file.addresses, lookup, source)
    return found


def _of_text(text: str, addresses: Mapping[str, Address], lookup: Lookup, source: str) -> _Found:
    """addresses: of nodes that have a name of their own. source: where the text stands."""
    kind, _, rest = text.partition(":")
    try:
        if kind == "dns":
            return [*addresses_of(rest, lookup.deadline)]
        if kind == "kubernetes":
            return [*_of_kubernetes(rest, lookup, source)]
        names = expanded(parts(rest if kind == "slurm" else text))
        return [
            Node(name.lower(), *addresses[name.lower()]) if name.lower() in addresses else address(name)
            for name in names
        ]
    except ValueError as error:
        raise BadInput(f"{source}: {error}", remedy=_REMEDY) from None


def _of_kubernetes(text: str, lookup: Lookup, source: str) -> list[Node]:
    namespace, colon, selector = text.rpartition(":")
    if not selector.strip() or len(selector) > _SELECTOR_CHARACTERS_MAX:
        raise ValueError("want a label selector, as in kubernetes:app.kubernetes.io/name=gpu-stall-exporter")
    if colon and not _NAMESPACE.fullmatch(namespace):
        raise ValueError(f"{quoted(namespace)} is not a Kubernetes namespace")
    endpoint = api_server(lookup.settings, lookup.environment, f"{source}: kubernetes")
    return serving_pods(endpoint, namespace or _own_namespace(lookup.settings.token_file), selector, lookup.deadline)


def _own_namespace(token_file: Path) -> str:
    """The namespace of the service account, beside its token. Raises ValueError."""
    path = token_file.with_name("namespace")
    try:
        found = content.read(path, _NAMESPACE_BYTES_MAX, follow_links=True).decode("ascii", "replace").strip()
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}: want kubernetes:NAMESPACE:SELECTOR") from None
    if not _NAMESPACE.fullmatch(found):
        raise ValueError(f"{path} holds no namespace: want kubernetes:NAMESPACE:SELECTOR")
    return found
