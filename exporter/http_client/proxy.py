"""The proxy that HTTP_PROXY, HTTPS_PROXY and NO_PROXY name for a URL, in capitals or not."""

from __future__ import annotations

import base64
import ipaddress
import urllib.request
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from exporter.errors import BadInput

DEFAULT_PORTS = {"http": 80, "https": 443}


class Proxy(NamedTuple):
    """headers: Proxy-Authorization, if the proxy wants a password."""

    host: str
    port: int
    headers: dict[str, str]


def port_of(url: SplitResult) -> int:
    """The port in the URL, else that of its scheme."""
    return url.port or DEFAULT_PORTS[url.scheme]


def proxy_for(url: SplitResult) -> Proxy | None:
    """The proxy of the environment; None: connect directly. Raises BadInput, which does not repeat what may be a password."""
    proxies = urllib.request.getproxies_environment()
    text = proxies.get(url.scheme)
    is_bypassed = urllib.request.proxy_bypass(f"{url.hostname}:{port_of(url)}")
    if not text or is_bypassed or _is_in_network(str(url.hostname), proxies.get("no", "")):
        return None
    proxy = _parsed(text)
    if proxy is None:
        raise BadInput(
            f"{url.scheme.upper()}_PROXY does not name a proxy that can be used", remedy="want http://HOST:PORT"
        )
    return proxy


def basic_authorization(url: SplitResult) -> str:
    """The header value for the percent-encoded user and password of a URL."""
    user = f"{unquote(url.username or '')}:{unquote(url.password or '')}"
    return "Basic " + base64.b64encode(user.encode()).decode()


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


def _is_in_network(host: str, no_proxy: str) -> bool:
    """Whether a host is an address in a network that NO_PROXY lists, such as 10.0.0.0/8: urllib knows names only."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    for entry in no_proxy.split(","):
        try:
            if "/" in entry and address in ipaddress.ip_network(entry.strip(), strict=False):
                return True
        except ValueError:
            continue
    return False
