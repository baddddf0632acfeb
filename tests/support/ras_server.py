"""A process that listens like the RAS of NCCL: a real socket that answers each connection as its script says.

    with ras_server([silence(), answering(in_json(...))]) as server:
        query(server.address)

Each connection takes the next entry of the script, and the last one stays. A thread serves each connection. At the end of the
block every socket is closed, also while a client waits.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

LOOPBACK = "127.0.0.1"


class Connection:
    """commands: those that were read, without the ends of their lines."""

    def __init__(self, stream: socket.socket) -> None:
        self.stream = stream
        self._lines = stream.makefile("rb")
        self.commands: list[str] = []

    def command(self) -> str:
        """The next command; "" if the client has closed the connection."""
        found = self._lines.readline().decode().rstrip("\n")
        self.commands.append(found)
        return found

    def send(self, content: bytes) -> None:
        self.stream.sendall(content)

    def close(self) -> None:
        self._lines.close()
        self.stream.close()


Entry = Callable[[Connection], object]
"""What is done with a connection; closed when it returns."""


class RasServer:
    """connections: those that were accepted so far."""

    def __init__(self, listening: socket.socket, script: Sequence[Entry]) -> None:
        self.listening = listening
        self.connections: list[Connection] = []
        self._script = list(script)
        self._threads: list[threading.Thread] = []
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

    @property
    def address(self) -> tuple[str, int]:
        host, port = self.listening.getsockname()[:2]
        return host, port

    def close(self) -> None:
        """Ends what goes on."""
        for stream in (self.listening, *(one.stream for one in self.connections)):
            with suppress(OSError):
                stream.shutdown(socket.SHUT_RDWR)
        for thread in (self._acceptor, *self._threads):
            thread.join()
        self.listening.close()
        for one in self.connections:
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                stream, _ = self.listening.accept()
            except OSError:  # closed
                return
            entry = self._script.pop(0) if len(self._script) > 1 else self._script[0]
            connection = Connection(stream)
            self.connections.append(connection)
            thread = threading.Thread(target=self._serve, args=(entry, connection), daemon=True)
            self._threads.append(thread)
            thread.start()

    @staticmethod
    def _serve(entry: Entry, connection: Connection) -> None:
        with suppress(OSError):  # the client has gone, or the test ends
            entry(connection)
            connection.stream.shutdown(socket.SHUT_RDWR)


@contextmanager
def ras_server(script: Sequence[Entry], *, host: str = LOOPBACK) -> Iterator[RasServer]:
    """Listens on a port of its own."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    server = RasServer(socket.create_server((host, 0), family=family), script)
    try:
        yield server
    finally:
        server.close()


# --- scripts


def answering(content: bytes | Callable[[], bytes], *, knows_json: bool = True, piece: int = 1 << 20) -> Entry:
    """The whole conversation, and the content in pieces of so many bytes. knows_json: since 2.28.7."""

    def say(connection: Connection) -> None:
        _replies(connection, knows_json=knows_json)
        found = content() if callable(content) else content
        for at in range(0, len(found), piece):
            connection.send(found[at : at + piece])

    return say


def then_silence(content: bytes) -> Entry:
    """The content, and the connection stays open."""

    def say(connection: Connection) -> None:
        _replies(connection, knows_json=True)
        connection.send(content)
        connection.command()

    return say


def endless(piece: bytes) -> Entry:
    """The piece for ever, once the status is wanted."""

    def say(connection: Connection) -> None:
        _replies(connection, knows_json=True)
        while True:
            connection.send(piece)

    return say


def endless_at_once(piece: bytes) -> Entry:
    """The piece for ever, without a command."""

    def say(connection: Connection) -> None:
        while True:
            connection.send(piece)

    return say


def silence() -> Entry:
    """As a process that is stopped: the kernel has taken the connection, and the command."""
    return lambda connection: [connection.command() for _ in range(2)]


def saying(*replies: bytes) -> Entry:
    """A reply to each command, and an end."""

    def say(connection: Connection) -> None:
        for reply in replies:
            connection.command()
            connection.send(reply)

    return say


def _replies(connection: Connection, *, knows_json: bool) -> None:
    while (command := connection.command()).upper() not in ("STATUS", "VERBOSE STATUS"):
        if command.startswith("CLIENT PROTOCOL "):
            connection.send(b"SERVER PROTOCOL 2\n")
        elif command.startswith("TIMEOUT ") or (knows_json and command == "SET FORMAT json"):
            connection.send(b"OK\n")
        elif not command:
            raise OSError("the client has gone")
        else:
            connection.send(f"ERROR: Unknown command {command}\n".encode())
