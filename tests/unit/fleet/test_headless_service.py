"""headless_service: a node for each address of a name."""

from __future__ import annotations

import socket
import threading
from functools import partial
from typing import Any

import pytest

from exporter.fleet.addresses import Address
from exporter.fleet.headless_service import NodesNotFound, addresses_of
from exporter.http_client.deadline import Deadline
from exporter.http_client.stream import resolve


def answer(*hosts: str) -> list[tuple[Any, ...]]:
    """As getaddrinfo() returns them."""
    return [
        (socket.AF_INET6, socket.SOCK_STREAM, 6, "", (host, 0, 0, 0))
        if ":" in host
        else (socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, 0))
        for host in hosts
    ]


def resolving(*hosts: str) -> Any:
    """The resolver of the system, whose look-up returns these for every name."""

    def getaddrinfo(_host: str, _port: int, *, type: int, flags: int = 0) -> list[tuple[Any, ...]]:  # noqa: A002
        if flags:
            raise socket.gaierror(socket.EAI_NONAME, "a name")
        return answer(*hosts)

    return partial(resolve, getaddrinfo=getaddrinfo)


def deadline(seconds: float = 60.0) -> Deadline:
    return Deadline.after(seconds)


class TestAddresses:
    def test_each_address_of_a_name_is_one_node(self) -> None:
        """In ascending order, IPv4 before IPv6, each once."""
        resolved = resolving("10.0.0.10", "fd00::2", "10.0.0.9", "10.0.0.10")

        assert addresses_of("serve.monitoring:9000", deadline(), resolved) == [
            Address("10.0.0.9", 9000),
            Address("10.0.0.10", 9000),
            Address("fd00::2", 9000),
        ]

    def test_names_are_looked_up_by_the_resolver_of_the_system(self) -> None:
        """The file /etc/hosts has this one on every machine."""
        assert {one.host for one in addresses_of("localhost", deadline())} <= {"127.0.0.1", "::1"}


class TestRefused:
    def test_name_without_an_address_is_named(self) -> None:
        """RFC 2606: no name ends in .invalid."""
        with pytest.raises(NodesNotFound, match=r"^dns:serve\.invalid: cannot resolve the host name: "):
            addresses_of("serve.invalid", deadline())

    def test_resolver_that_hangs_is_not_waited_for(self) -> None:
        is_over = threading.Event()

        def getaddrinfo(_host: str, _port: int, *, type: int, flags: int = 0) -> list[tuple[Any, ...]]:  # noqa: A002
            if flags:
                raise socket.gaierror(socket.EAI_NONAME, "a name")
            is_over.wait()
            return []

        try:
            with pytest.raises(NodesNotFound, match=r"^dns:serve: no complete response within 0\.05 s$"):
                addresses_of("serve", deadline(0.05), partial(resolve, getaddrinfo=getaddrinfo))
        finally:
            is_over.set()

    def test_text_that_is_no_name_is_a_value_error(self) -> None:
        with pytest.raises(ValueError, match="'-' is not a host name"):
            addresses_of("-", deadline())
