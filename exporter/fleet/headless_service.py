"""The nodes behind one name in DNS, such as a headless service of Kubernetes: a node for each address.

In: `NAME` or `NAME:PORT`. Out: addresses in ascending order, or why there are none.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Any

from exporter.errors import ExporterError
from exporter.fleet.addresses import Address, address
from exporter.fleet.host_list import NAMES_MAX
from exporter.http_client.deadline import Deadline
from exporter.http_client.errors import HttpFailure, failure_of
from exporter.http_client.stream import resolve

Resolve = Callable[[str, int, Deadline], list[tuple[Any, ...]]]


class NodesNotFound(ExporterError):
    """DNS or the API server does not say which nodes there are."""


def addresses_of(text: str, deadline: Deadline, resolved: Resolve = resolve) -> list[Address]:
    """All A and AAAA records. Raises ValueError for a text that is no name, and NodesNotFound."""
    name, port = address(text)
    try:
        found = resolved(name, port, deadline)
    except (OSError, UnicodeError) as error:
        raise NodesNotFound(f"dns:{text}: {failure_of(error)}") from None
    except HttpFailure as error:
        raise NodesNotFound(f"dns:{text}: {error}") from None
    hosts = {ipaddress.ip_address(str(one[4][0])) for one in found}
    if len(hosts) > NAMES_MAX:
        raise NodesNotFound(f"dns:{text}: more than {NAMES_MAX} addresses")
    return [Address(str(host), port) for host in sorted(hosts, key=lambda host: (host.version, int(host)))]
