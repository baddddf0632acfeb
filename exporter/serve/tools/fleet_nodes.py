"""The nodes that a server may ask, and those of them that a call names.

In: fleet flags of the server, and names. Out: a FleetTarget. A call chooses among the nodes of the flags: it names no address.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping, Sequence
from typing import Final

from exporter.config.fleet_flags import FleetFlags
from exporter.errors import BadInput, NotPossibleHere
from exporter.fleet.headless_service import NodesNotFound
from exporter.fleet.host_list import expanded, parts, quoted
from exporter.fleet.node import Node
from exporter.fleet.target import FleetTarget, target_of
from exporter.text.printable import printable

log = logging.getLogger(__name__)

NODES_MEANING: Final = "nodes that the tool `fleet` asks, such as gpu[01-16] or @fleet.toml [none]"
NODES_DEADLINE_SECONDS_MAX: Final = 15.0
"""For finding the nodes and for their answers: the rest of a call is for reading them, and for two statements."""

_NAMED_MAX: Final = 8


def check_nodes(flags: FleetFlags, environment: Mapping[str, str]) -> None:
    """At the start. Raises BadInput; names that DNS or the API server do not know now are looked up by each call."""
    try:
        target_of(flags, environment)
    except NodesNotFound as error:
        log.warning("cannot find the nodes, retrying at each call of the tool fleet: %s", error)


def nodes_of(flags: FleetFlags, environment: Mapping[str, str], names: str) -> FleetTarget:
    """As they are now. Raises BadInput for names, and NotPossibleHere where flags or files of the server are wrong."""
    try:
        found = target_of(flags, environment)
    except (BadInput, NodesNotFound) as error:
        raise NotPossibleHere(str(error), remedy=error.remedy) from None
    return found._replace(nodes=chosen(found.nodes, names))


def chosen(nodes: Sequence[Node], names: str) -> Sequence[Node]:
    """Those with the names, in the notation of Slurm; all for an empty text. Raises BadInput."""
    if not names.strip():
        return nodes
    known = {node.name: node for node in nodes}
    try:
        wanted = dict.fromkeys(expanded(parts(names)))
    except ValueError as error:
        raise BadInput(f"nodes: {printable(str(error))}", remedy="want names such as gpu[01-16],login") from None
    for name in wanted:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            some = ", ".join([*known][:_NAMED_MAX])
            remedy = f"did you mean {near[0]}?" if near else f"there are {len(known)}: {some}"
            raise BadInput(f"nodes: there is no node {printable(quoted(name))}", remedy=remedy)
    return [known[name] for name in wanted]
