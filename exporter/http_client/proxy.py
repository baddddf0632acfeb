"""The proxy that HTTP_PROXY, HTTPS_PROXY and NO_PROXY name for a URL, by the rules of Go's clients.

In: a URL and the environment. Out: a proxy, or None for a direct connection. Source: golang.org/x/net/http/httpproxy, which
programs beside the exporter follow, so that one setting of a cluster means the same for all of them.
tests/conformance/test_proxy_rules.py compares both. More is direct than there where an entry means the same host: one with a
final dot, or an IPv6 address in brackets.
"""

from __future__ import annotations

import base64
import ipaddress
import os
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from exporter.errors import BadInput

DEFAULT_PORTS = {"http": 80, "https": 443}

_MAPPED_PREFIX = 96  # bits of ::ffff:0:0/96, before an IPv4 address
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Proxy(NamedTuple):
    """headers: Proxy-Authorization, if the proxy wants a password."""

    host: str
    port: int
    headers: dict[str, str]


def port_of(url: SplitResult) -> int:
    """The port in the URL, else that of its scheme."""
    return url.port or DEFAULT_PORTS[url.scheme]


def proxy_for(url: SplitResult, environment: Mapping[str, str] = os.environ) -> Proxy | None:
    """The proxy of the environment; None: connect directly. Raises BadInput, which does not repeat what may be a password.

    This machine (localhost, loopback addresses) never has one: a proxy would look for the receiver on itself.
    """
    variable = f"{url.scheme}_proxy"
    text = _variable(environment, variable)
    if not text or is_direct(str(url.hostname), port_of(url), _variable(environment, "no_proxy")):
        return None
    if url.scheme == "http" and environment.get(
        "REQUEST_METHOD"
    ):  # a CGI program: a client sets it by a header `Proxy`
        raise BadInput(
            "HTTP_PROXY is not used while REQUEST_METHOD is set: a client may have set it",
            remedy="remove REQUEST_METHOD from the environment, or list the host in NO_PROXY",
        )
    proxy = _parsed(text)
    if proxy is None:
        raise BadInput(f"{variable.upper()} does not name a proxy that can be used", remedy="want http://HOST:PORT")
    return proxy


def is_direct(host: str, port: int, no_proxy: str) -> bool:
    """Whether a host is reached without a proxy. host: of a URL, without brackets. no_proxy: the value of NO_PROXY.

    Entries are separated by commas: `*` is every host; `1.2.3.4`, `fd00::1` an address; `10.0.0.0/8` a network; `svc` a name
    and all below it; `.svc` or `*.svc` those below it only. Addresses and names may have a port. Others are ignored.
    """
    name = _canonical(host)
    address = _address(name.partition("%")[0]) if ":" in name else _address(name)
    if name == "localhost" or (address is not None and address.is_loopback):
        return True
    entries = [entry.strip() for entry in no_proxy.split(",")]
    return "*" in entries or any(_matches(_canonical(entry), name, address, str(port)) for entry in entries)


def basic_authorization(url: SplitResult) -> str:
    """The header value for the percent-encoded user and password of a URL."""
    user = f"{unquote(url.username or '')}:{unquote(url.password or '')}"
    return "Basic " + base64.b64encode(user.encode()).decode()


def _variable(environment: Mapping[str, str], name: str) -> str:
    """The name in capitals comes second, as in curl and, since 2026, in Go. An empty one counts as not set."""
    return environment.get(name) or environment.get(name.upper(), "")


def _parsed(text: str) -> Proxy | None:
    try:
        proxy = urlsplit(text if "://" in text else f"http://{text}")
        is_usable = proxy.scheme == "http" and proxy.hostname and proxy.port != 0
    except ValueError:
        return None
    if not is_usable:
        return None
    headers = {} if proxy.username is None else {"Proxy-Authorization": basic_authorization(proxy)}
    return Proxy(str(proxy.hostname), port_of(proxy), headers)


def _matches(entry: str, name: str, address: _Address | None, port: str) -> bool:
    network = _network(entry)
    if network is not None:
        return address is not None and address in network
    entry_host, entry_port = _host_and_port(entry)
    if not entry_host or (entry_port and entry_port != port):
        return False
    entry_address = _address(entry_host)
    if entry_address is not None or address is not None:
        return entry_address == address
    suffix = entry_host.removeprefix("*")
    if suffix == entry_host and not suffix.startswith("."):
        return name == entry_host or name.endswith(f".{entry_host}")
    return suffix.startswith(".") and name.endswith(suffix)


def _host_and_port(entry: str) -> tuple[str, str]:
    """`svc:80`, `[fd00::1]:80`; without a port `svc`, `[fd00::1]`, `fd00::1`. The port is "" for every port."""
    host, separator, port = entry.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        return host[1:-1], port
    if separator and ":" not in host:
        return host.removesuffix("."), port
    return entry.removeprefix("[").removesuffix("]"), ""


def _canonical(name: str) -> str:
    """In lower case and ASCII (IDNA), without the final dot that says that no search domain is to be added."""
    name = name.strip().lower().removesuffix(".")
    try:
        return ".".join(one if one.isascii() else one.encode("idna").decode() for one in name.split("."))
    except UnicodeError:
        return name


def _address(text: str) -> _Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address):
        return address.ipv4_mapped or address
    return address


def _network(entry: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """Only with a number of bits: with a mask such as 255.0.0.0 it is no network for Go."""
    _, separator, bits = entry.partition("/")
    if not separator or not bits.isdecimal() or "%" in entry:
        return None
    try:
        network = ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return None
    if isinstance(network, ipaddress.IPv6Network) and network.prefixlen >= _MAPPED_PREFIX:
        mapped = network.network_address.ipv4_mapped
        if mapped is not None:
            return ipaddress.IPv4Network((mapped, network.prefixlen - _MAPPED_PREFIX))
    return network
