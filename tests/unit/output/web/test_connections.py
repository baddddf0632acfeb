"""web.connections: which connection makes room for another one."""

from __future__ import annotations

import asyncio
import socket
import time

import pytest

from exporter.output.web.connections import ClientConnection, ConnectionTable, Stage, client_of, no_user


def connected(address: str) -> socket.socket:
    """In place of a socket whose other end has this address."""

    class Connected(socket.socket):
        def getpeername(self) -> tuple[str, int]:
            return address, 4711

        def getsockname(self) -> tuple[str, int]:
            return "::", 10478

    return Connected()


class Clients:
    """Connections with tasks that would never end."""

    def __init__(self, table: ConnectionTable) -> None:
        self.table = table

    def add(self, peer: str, stage: Stage = Stage.IDLE, *, for_seconds: float = 0.0) -> ClientConnection:
        """A connection that has been in a stage for so long."""
        connection = ClientConnection(socket.socket(), peer)
        connection.task = asyncio.get_running_loop().create_task(asyncio.Event().wait())  # type: ignore[arg-type]
        connection.stage, connection.since = stage, time.monotonic() - for_seconds
        self.table.add(connection)
        return connection

    def peers(self) -> list[str]:
        """Addresses of those that are open."""
        return sorted(one.peer for one in self.table)

    def close(self) -> None:
        for one in self.table:
            assert one.task is not None
            one.task.cancel()
            one.client.close()


class TestClient:
    """Who is at the other end."""

    @pytest.mark.parametrize(
        ("address", "uid", "name"),
        [
            ("127.0.0.9", 1000, "uid 1000"),
            ("192.0.2.7", None, "192.0.2.7"),
            ("::ffff:192.0.2.7", None, "192.0.2.7"),
            ("2001:db8:1:2:3:4:5:6", None, "2001:db8:1:2::/64"),
            ("fe80::1:2%eth0", None, "fe80::/64"),
        ],
    )
    def test_client_is_a_user_or_an_address(self, address: str, uid: int | None, name: str) -> None:
        """A subscriber has any number of addresses of IPv6 in one network."""
        with connected(address) as client:
            assert client_of(client, lambda *_: uid) == name

    def test_client_that_is_gone_has_no_name(self) -> None:
        with socket.socket() as client:
            assert client_of(client, no_user) == ""


class TestConnectionTable:
    def test_idle_connection_makes_room_when_the_table_is_full(self) -> None:
        """The one that has been idle for longest; its task is cancelled."""

        async def scene() -> None:
            clients = Clients(ConnectionTable(2))
            old = clients.add("old", for_seconds=9.0)
            clients.add("new", for_seconds=1.0)

            assert clients.table.has_room()
            assert clients.peers() == ["new"]
            assert old.task is not None
            assert old.task.cancelling()
            old.client.close()
            clients.close()

        asyncio.run(scene())

    def test_connection_that_is_served_does_not(self) -> None:
        async def scene() -> None:
            clients = Clients(ConnectionTable(1))
            clients.add("busy", Stage.RESPONDING, for_seconds=9.0)

            assert not clients.table.has_room()
            assert clients.peers() == ["busy"]
            clients.close()

        asyncio.run(scene())

    def test_nothing_is_closed_while_there_is_room(self) -> None:
        async def scene() -> None:
            clients = Clients(ConnectionTable(2))
            clients.add("idle", for_seconds=9.0)

            assert clients.table.has_room()
            assert clients.peers() == ["idle"]
            clients.close()

        asyncio.run(scene())

    def test_client_keeps_its_place_for_the_guaranteed_time(self) -> None:
        async def scene() -> None:
            clients = Clients(ConnectionTable(2))
            slow = clients.add("slow", Stage.SENDING, for_seconds=5.0)

            assert not clients.table.evict(Stage.SENDING, 60.0)
            assert clients.table.evict(Stage.SENDING, 4.0)
            slow.client.close()
            clients.close()

        asyncio.run(scene())

    def test_addresses_are_listed_by_stage(self) -> None:
        """As often as they are connected."""

        async def scene() -> None:
            clients = Clients(ConnectionTable(9))
            for peer, stage in (("a", Stage.CHECKING), ("a", Stage.CHECKING), ("b", Stage.IDLE)):
                clients.add(peer, stage)

            assert clients.table.peers(Stage.CHECKING) == ["a", "a"]
            clients.close()

        asyncio.run(scene())

    def test_closed_connection_may_be_discarded_twice(self) -> None:
        async def scene() -> None:
            clients = Clients(ConnectionTable(1))
            one = clients.add("a")
            clients.close()
            clients.table.discard(one)
            clients.table.discard(one)

            assert clients.peers() == []

        asyncio.run(scene())
