"""Which URLs are reached through the proxy of the environment, by the rules of Go's clients.

Expected values are written by hand from the documentation of golang.org/x/net/http/httpproxy; tests/conformance asks it itself.
"""

from __future__ import annotations

from typing import NamedTuple

PROXY = "proxy.example:3128"
SECURE_PROXY = "secure.example:3129"
DIRECT = "direct"


class Rule(NamedTuple):
    """expected: host and port of the proxy, or DIRECT."""

    url: str
    environment: dict[str, str]
    expected: str


def _rules(expected: str, cases: dict[str, tuple[str, ...]]) -> list[Rule]:
    """cases: NO_PROXY -> hosts of URLs, with a port or not."""
    return [
        Rule(f"http://{host}/v1/metrics", {"HTTP_PROXY": f"http://{PROXY}", "NO_PROXY": no_proxy}, expected)
        for no_proxy, hosts in cases.items()
        for host in hosts
    ]


_DIRECT: dict[str, tuple[str, ...]] = {
    "": ("localhost", "localhost:4318", "127.0.0.1", "127.0.0.1:4318", "127.1.2.3:80", "[::1]", "[::1]:4318"),
    "gpu8": ("[::ffff:127.0.0.1]:4318", "127.0.0.1"),
    "*": ("gpu7", "collector.example:4318", "10.0.0.1", "[fd00::1]:4318"),
    "gpu7, *": ("collector.example",),
    "svc": ("svc", "alloy.svc", "alloy.monitoring.svc:4318", "ALLOY.Monitoring.SVC"),
    ".svc": ("alloy.svc", "alloy.monitoring.svc:4318"),
    "*.svc": ("alloy.svc", "alloy.monitoring.svc:4318"),
    ".SVC": ("alloy.svc",),
    "cluster.local": ("alloy.monitoring.svc.cluster.local:4318", "cluster.local"),
    "*.cluster.local": ("alloy.monitoring.svc.cluster.local:4318",),
    ".svc,.cluster.local": ("alloy.svc", "alloy.monitoring.svc.cluster.local"),
    " .svc , .cluster.local ": ("alloy.svc", "alloy.monitoring.svc.cluster.local"),
    ",,.svc,": ("alloy.svc",),
    "collector.example": ("collector.example", "collector.example:4318", "eu.collector.example"),
    "collector.example:4318": ("collector.example:4318", "eu.collector.example:4318"),
    "collector.example:80": ("collector.example", "collector.example:80"),
    "collector.example:": ("collector.example", "collector.example:4318"),
    ".collector.example:4318": ("eu.collector.example:4318",),
    "*.collector.example:4318": ("eu.collector.example:4318",),
    "10.0.0.1": ("10.0.0.1", "10.0.0.1:4318", "[::ffff:10.0.0.1]:4318"),
    "10.0.0.1:4318": ("10.0.0.1:4318",),
    "::ffff:10.0.0.1": ("10.0.0.1",),
    "10.0.0.0/8": ("10.1.2.3", "10.255.255.255:4318", "[::ffff:10.1.2.3]"),
    "10.1.2.3/8": ("10.9.9.9",),
    "10.0.0.0/08": ("10.9.9.9",),
    "::ffff:10.0.0.0/104": ("10.1.2.3",),
    "0.0.0.0/0": ("10.1.2.3", "192.0.2.1"),
    "10.96.0.0/12,192.168.0.0/16": ("10.100.0.1", "192.168.255.1:4318"),
    "nonsense/x,10.0.0.0/30": ("10.0.0.3",),
    "fd00::1": ("[fd00::1]", "[fd00::1]:4318", "[FD00:0:0::1]:4318"),
    "FD00:0::1": ("[fd00::1]",),
    "[fd00::1]:4318": ("[fd00::1]:4318",),
    "fd00::/8": ("[fd00::1]", "[fdff::1]:4318"),
    "::/0": ("[2001:db8::1]",),
    "bücher.example": ("xn--bcher-kva.example", "www.xn--bcher-kva.example"),
    ".bücher.example": ("www.xn--bcher-kva.example",),
}

_PROXIED: dict[str, tuple[str, ...]] = {
    "": ("gpu7", "collector.example:4318", "10.0.0.1", "[fd00::1]:4318", "128.0.0.1", "localhost.example"),
    "localhost": ("gpu7", "localhost.localdomain", "127.0.0.1.example", "0.0.0.0:4318", "[::]:4318"),
    ".svc": ("svc", "alloysvc", "svc.example", "10.0.0.1"),
    "*.svc": ("svc", "alloysvc"),
    "svc": ("alloysvc", "svc.example"),
    "*svc": ("alloysvc", "alloy.svc"),
    "a*.svc": ("alloy.svc",),
    "**": ("gpu7",),
    "*.": ("gpu7", "alloy.svc"),
    "collector.example": ("collector.example.org", "mycollector.example", "example"),
    "collector.example:4318": ("collector.example", "collector.example:4317", "eu.collector.example:443"),
    ".collector.example:4318": ("collector.example:4318", "eu.collector.example"),
    "http://collector.example": ("collector.example",),
    "collector.example/v1": ("collector.example",),
    ":4318": ("collector.example:4318",),
    ".svc cluster.local": ("alloy.svc", "cluster.local"),
    ".svc;.example": ("alloy.svc",),
    "10.0.0.1": ("10.0.0.2", "10.0.0.10", "10.0.0.1.example"),
    "10.0.0.1:4318": ("10.0.0.1", "10.0.0.1:4317"),
    "10.": ("10.0.0.1",),
    "10.0.0": ("10.0.0.1",),
    ".1": ("10.0.0.1",),
    "0.0.1": ("10.0.0.1",),
    "10.0.0.0/8": ("11.0.0.1", "ten.example", "[fd00::1]"),
    "10.0.0.0/255.0.0.0": ("10.1.2.3",),
    "10.0.0.0/33": ("10.0.0.0",),
    "10.0.0.0/8:4318": ("10.1.2.3:4318",),
    "::/0": ("10.0.0.1",),
    "::ffff:0:0/90": ("10.0.0.1",),
    "fd00::1": ("[fd00::2]", "[fe80::1]"),
    "[fd00::1]:4318": ("[fd00::1]", "[fd00::1]:4317"),
    "fd00::/8": ("[fe80::1]", "10.0.0.1"),
    "fe80::1%eth0": ("[fe80::1]",),
}

_BOTH = {"HTTP_PROXY": f"http://{PROXY}", "HTTPS_PROXY": f"http://{SECURE_PROXY}"}

RULES = [
    *_rules(DIRECT, _DIRECT),
    *_rules(PROXY, _PROXIED),
    Rule("http://gpu7", {}, DIRECT),
    Rule("http://gpu7", _BOTH, PROXY),
    Rule("https://gpu7", _BOTH, SECURE_PROXY),
    Rule("https://gpu7", {"HTTP_PROXY": f"http://{PROXY}"}, DIRECT),
    Rule("http://gpu7", {"HTTPS_PROXY": f"http://{PROXY}"}, DIRECT),
    Rule("http://gpu7", {"ALL_PROXY": f"http://{PROXY}"}, DIRECT),
    Rule("http://gpu7", {"http_proxy": f"http://{PROXY}"}, PROXY),
    Rule("https://gpu7", {"https_proxy": f"http://{PROXY}"}, PROXY),
    Rule("http://gpu7", {"HTTP_PROXY": "http://other.example:1", "http_proxy": f"http://{PROXY}"}, PROXY),
    Rule("http://gpu7", {"HTTP_PROXY": f"http://{PROXY}", "http_proxy": ""}, PROXY),
    Rule("http://gpu7", {"Http_Proxy": f"http://{PROXY}"}, DIRECT),
    Rule("http://gpu7", {**_BOTH, "no_proxy": "gpu7"}, DIRECT),
    Rule("http://gpu7", {**_BOTH, "NO_PROXY": "gpu7", "no_proxy": "gpu8"}, PROXY),
    Rule("http://gpu7", {**_BOTH, "NO_PROXY": "gpu7", "no_proxy": ""}, DIRECT),
    Rule("https://gpu7", {**_BOTH, "NO_PROXY": "gpu7:443"}, DIRECT),
    Rule("https://gpu7", {**_BOTH, "NO_PROXY": "gpu7:80"}, SECURE_PROXY),
    Rule("https://gpu7", {**_BOTH, "REQUEST_METHOD": "GET"}, SECURE_PROXY),
    Rule("https://127.0.0.1:4318", _BOTH, DIRECT),
    Rule("https://localhost:4318", _BOTH, DIRECT),
    Rule("http://gpu7", {"HTTP_PROXY": PROXY}, PROXY),
    Rule("http://gpu7", {"HTTP_PROXY": f"http://user:word@{PROXY}"}, PROXY),
]
"""As Go's clients."""

MORE_DIRECT = _rules(
    DIRECT,
    {
        "": ("localhost.:4318", "LOCALHOST"),
        "svc.": ("alloy.svc",),
        ".cluster.local": ("alloy.monitoring.svc.cluster.local.:4318",),
        "collector.example.": ("collector.example", "eu.collector.example"),
        "collector.example": ("collector.example.:4318",),
        "collector.example.:4318": ("collector.example:4318",),
        "[fd00::1]": ("[fd00::1]", "[fd00::1]:4318"),
    },
)
"""The same host, written in another way: Go's clients use the proxy."""
