"""Addresses of nodes as people write them: `gpu7`, `gpu7:10479`, `[fd00::1]:10479`.

In: text. Out: a host and a port, and nodes with names. Errors are ValueErrors that name the text.
"""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from exporter.fleet.host_list import quoted
from exporter.fleet.node import PORT, Node

_LABEL: Final = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\.?", re.ASCII)
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)
_NAME_CHARACTERS_MAX: Final = 253
_BRACKETED: Final = re.compile(r"\[([^\[\]]+)\](?::([0-9]{1,5}))?", re.ASCII)
_PLAIN: Final = re.compile(r"([^\[\]:]+)(?::([0-9]{1,5}))?", re.ASCII)


class Address(NamedTuple):
    """host: in lower case, IPv6 without brackets and in its shortest form."""

    host: str
    port: int = PORT

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def address(text: str, default_port: int = PORT) -> Address:
    """Raises ValueError."""
    match = _BRACKETED.fullmatch(text) or _PLAIN.fullmatch(text)
    if match is None:
        hint = "; an IPv6 address needs brackets, as in [fd00::1]:10479" if text.count(":") > 1 else ""
        raise ValueError(f"{quoted(text)} is not HOST or HOST:PORT{hint}")
    port = int(match[2]) if match[2] else default_port
    if not 1 <= port <= 65535:
        raise ValueError(f"the port of {quoted(text)} is not from 1 to 65535")
    return Address(_ipv6(match[1]) if text.startswith("[") else host_name(match[1]), port)


def named(addresses: Iterable[Address]) -> list[Node]:
    """Each is named by its host, or by host and port if several have that host."""
    found = [*addresses]
    uses = Counter(one.host for one in found)
    return [Node(one.host if uses[one.host] == 1 else str(one), one.host, one.port) for one in found]


def refuse_duplicates(nodes: Iterable[Node]) -> None:
    """Raises ValueError if two have one name, or one address."""
    seen: dict[object, Node] = {}
    for node in nodes:
        for key in (node.name, Address(node.host, node.port)):
            if (other := seen.setdefault(key, node)) is not node:
                raise ValueError(_duplicate(node, other))


def _duplicate(node: Node, other: Node) -> str:
    one, another = Address(node.host, node.port), Address(other.host, other.port)
    if node.name == other.name:
        where = f", at {another} and {one}" if one != another else ""
        return f"the node {quoted(node.name)} is given twice{where}"
    return f"the nodes {quoted(other.name)} and {quoted(node.name)} have the same address {one}"


def host_name(text: str) -> str:
    """A name or an IPv4 address, in lower case. Raises ValueError."""
    host = text.lower()
    if len(host) > _NAME_CHARACTERS_MAX or not _NAME.fullmatch(host):
        raise ValueError(f"{quoted(text)} is not a host name: want letters, digits, dots and hyphens")
    if _NUMBER.fullmatch(host.removesuffix(".").rpartition(".")[2]):  # the resolver would make an address of it
        try:
            return str(ipaddress.IPv4Address(host))
        except ValueError:
            raise ValueError(f"{quoted(text)} is neither an IPv4 address nor a name") from None
    return host


def server_name(text: str) -> str:
    """A name or an address in a certificate, IPv6 without brackets. Raises ValueError."""
    return _ipv6(text) if ":" in text else host_name(text)


def _ipv6(text: str) -> str:
    try:
        return str(ipaddress.IPv6Address(text))
    except ValueError:
        raise ValueError(f"{quoted(text)} is not an IPv6 address") from None
