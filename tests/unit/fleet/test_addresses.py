"""addresses: hosts and ports as people write them, and the names of nodes."""

from __future__ import annotations

import pytest

from exporter.fleet.addresses import Address, address, named, refuse_duplicates
from exporter.fleet.node import Node


class TestAddress:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("gpu7", Address("gpu7", 10479)),
            ("gpu7:9000", Address("gpu7", 9000)),
            ("GPU7.Lan", Address("gpu7.lan", 10479)),
            ("rack0_blade1", Address("rack0_blade1", 10479)),
            ("10.0.0.1:1", Address("10.0.0.1", 1)),
            ("[fd00::1]", Address("fd00::1", 10479)),
            ("[FD00:0:0::1]:65535", Address("fd00::1", 65535)),
        ],
    )
    def test_port_is_that_of_serve_if_there_is_none(self, text: str, expected: Address) -> None:
        assert address(text) == expected

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("fd00::1", "'fd00::1' is not HOST or HOST:PORT; an IPv6 address needs brackets, as in [fd00::1]:10479"),
            ("gpu7:", "'gpu7:' is not HOST or HOST:PORT"),
            (":10479", "':10479' is not HOST or HOST:PORT"),
            ("gpu7:https", "'gpu7:https' is not HOST or HOST:PORT"),
            ("gpu7:0", "the port of 'gpu7:0' is not from 1 to 65535"),
            ("gpu7:65536", "the port of 'gpu7:65536' is not from 1 to 65535"),
            ("[gpu7]:1", "'gpu7' is not an IPv6 address"),
            ("-gpu7", "'-gpu7' is not a host name: want letters, digits, dots and hyphens"),
            ("gpu 7", "'gpu 7' is not a host name: want letters, digits, dots and hyphens"),
            ("user@gpu7", "'user@gpu7' is not a host name: want letters, digits, dots and hyphens"),
            ("gpü7", "'gpü7' is not a host name: want letters, digits, dots and hyphens"),
            ("10.0.0.256", "'10.0.0.256' is neither an IPv4 address nor a name"),
            ("7", "'7' is neither an IPv4 address nor a name"),
            ("0x7f.1", "'0x7f.1' is neither an IPv4 address nor a name"),
        ],
    )
    def test_error_names_the_text(self, text: str, reason: str) -> None:
        with pytest.raises(ValueError, match=r".*") as refused:
            address(text)

        assert str(refused.value) == reason


class TestNames:
    def test_node_is_named_by_its_host(self) -> None:
        assert named([Address("a", 1), Address("b", 1)]) == [Node("a", "a", 1), Node("b", "b", 1)]

    def test_nodes_of_one_host_are_named_by_their_ports_too(self) -> None:
        assert named([Address("a", 1), Address("a", 2), Address("b", 1)]) == [
            Node("a:1", "a", 1),
            Node("a:2", "a", 2),
            Node("b", "b", 1),
        ]

    def test_ipv6_address_with_a_port_is_in_brackets(self) -> None:
        assert [one.name for one in named([Address("fd00::1", 1), Address("fd00::1", 2)])] == [
            "[fd00::1]:1",
            "[fd00::1]:2",
        ]


class TestDuplicates:
    @pytest.mark.parametrize(
        ("nodes", "reason"),
        [
            ([Node("a", "a"), Node("a", "a")], "the node 'a' is given twice"),
            (
                [Node("a", "10.0.0.1"), Node("a", "10.0.0.2")],
                "the node 'a' is given twice, at 10.0.0.1:10479 and 10.0.0.2:10479",
            ),
            (
                [Node("a", "10.0.0.1"), Node("b", "10.0.0.1")],
                "the nodes 'a' and 'b' have the same address 10.0.0.1:10479",
            ),
        ],
    )
    def test_two_nodes_with_one_name_or_one_address_are_refused(self, nodes: list[Node], reason: str) -> None:
        with pytest.raises(ValueError, match=r".*") as refused:
            refuse_duplicates(nodes)

        assert str(refused.value) == reason

    def test_nodes_of_one_host_with_different_ports_are_two(self) -> None:
        refuse_duplicates([Node("a:1", "a", 1), Node("a:2", "a", 2)])
