"""Sixteen nodes on one machine: each with an address of its own on a bridge, a history, and `serve` as its users run it.

A node is a network namespace. A relay stands before its server and adds latency, since not every kernel has netem. Eleven nodes
answer. One of the others refuses connections, one takes none and refuses none, one answers with what is not HTTP, one sends its
answer a byte at a time, and one sends none. The node that asks has a namespace as well: nothing outside of the rig is changed.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import pytest

from exporter.fleet.node import PORT
from exporter.history.file_guard import claim
from exporter.history.store import Store, WindowBatch
from exporter.history.window import ProcessLabels
from exporter.model import Identity
from exporter.service.certificate import make_certificate
from exporter.service.tokens import new_token
from tests.faults.injectors.network import NETNS, inside
from tests.support.history import MS, NOON, SECOND, a_membership, a_window, times
from tests.support.relay import Delivery, Relay, relaying
from tests.support.serving import COMMAND
from tests.support.traced import eventually

NODES: Final = 16
REFUSING, SILENT, GARBLED, TRICKLING, HOLDING = "gpu03", "gpu06", "gpu09", "gpu12", "gpu15"
FAILING: Final = (REFUSING, SILENT, GARBLED, TRICKLING, HOLDING)
LATENCY_SECONDS: Final = 0.005
"""In each direction."""

_HISTORY: Final = Path("state") / "history.sqlite"
_SERVE_PORT: Final = 10478
_WINDOW_SECONDS: Final = 120
"""So that the history counts as written now for five minutes, however long the servers take to start: Run.max_gap_ns."""
_BRIDGE, _WIRE = "bridge", "wire"
_NOBODY: Final = "02:00:00:00:00:01"
"""A hardware address that no interface has: what is sent there is lost."""
_CLONE_NEWNET: Final = 0x40000000
_SERVING: Final = re.compile(r"serving https://\S+")
_READY_SECONDS: Final = 180.0
_STOP_SECONDS: Final = 60.0


T = TypeVar("T")


class NodeRig(NamedTuple):
    """A running rig. fleet: its file, as --nodes takes it. namespace: of the machine that asks. relays: of the servers."""

    fleet: Path
    namespace: str
    relays: Sequence[Relay]

    def command(self, name: str, *arguments: str) -> list[str]:
        """The command line of a command that asks all nodes."""
        return [*inside(self.namespace), *COMMAND, name, f"--nodes=@{self.fleet}", *arguments]

    def forget_connections(self) -> None:
        for one in self.relays:
            one.first_at = None

    def first_connection_at(self) -> float:
        """When a node has accepted the first connection since forget_connections(), of the monotonic clock."""
        return min(one.first_at for one in self.relays if one.first_at is not None)


def name_of(number: int) -> str:
    """number: from 1 on."""
    return f"gpu{number:02}"


def steps_of(number: int) -> int:
    """In the window of the only rank of a node."""
    return 100 + number


def answering() -> list[int]:
    """Numbers of the nodes that answer."""
    return [number for number in range(1, NODES + 1) if name_of(number) not in FAILING]


def need_node_rig() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to make network namespaces: sudo make test")
    for tool in ("ip", "nsenter"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is missing: install the packages iproute2 and util-linux")


@contextmanager
def node_rig(folder: Path) -> Iterator[NodeRig]:
    """The rig, once all of its servers are ready."""
    certificate = make_certificate(folder / "certificate", map(_address, range(1, NODES + 1)))
    token, lines = new_token("admin")
    (folder / "token").write_text(token)
    (folder / "tokens.toml").write_text(lines)
    with ExitStack() as stack:
        asking = stack.enter_context(_network())
        servers = [
            stack.enter_context(_server(folder, number, certificate))
            for number in range(1, NODES + 1)
            if name_of(number) not in (REFUSING, SILENT, GARBLED)
        ]
        garbled = _number(GARBLED)
        _within(_namespace(garbled), partial(stack.enter_context, _garbling(folder, garbled)))
        for one in servers:
            eventually(one.is_ready, f"{one.log} says that it serves", _READY_SECONDS)
        for one in servers:
            _record(folder / name_of(one.number) / _HISTORY, one.number)
        relays = [_within(_namespace(one.number), partial(stack.enter_context, _relay(one.number))) for one in servers]
        yield NodeRig(_fleet_file(folder), asking, relays)


def _fleet_file(folder: Path) -> Path:
    lines = ['ca = "certificate/serve.crt"', 'token-file = "token"', "[nodes]"]
    lines += (f'{name_of(number)} = "{_address(number)}:{PORT}"' for number in range(1, NODES + 1))
    path = folder / "fleet.toml"
    path.write_text("\n".join(lines))
    return path


def _address(number: int) -> str:
    """RFC 2544 has these for networks under test."""
    return f"198.18.16.{number}"


def _namespace(number: int) -> str:
    """0: of the machine that asks."""
    return f"gpu-stall-node-{os.getpid()}-{number}"


def _number(name: str) -> int:
    return int(name.removeprefix("gpu"))


# ---- the network


@contextmanager
def _network() -> Iterator[str]:
    """A namespace for each node but the silent one, all on a bridge in one more. Yields the name of that one."""
    numbers = [number for number in range(1, NODES + 1) if name_of(number) != SILENT]
    names = [_namespace(number) for number in (0, *numbers)]
    asking = names[0]
    with ExitStack() as stack:
        for name in names:
            _ip(f"netns add {name}")
            stack.callback(_ip, f"netns delete {name}")
        wires = [
            f"link add {_WIRE}{number} master {_BRIDGE} up type veth peer name {_WIRE} netns {_namespace(number)}"
            for number in numbers
        ]
        _ip(
            "link set lo up",
            f"link add {_BRIDGE} up type bridge",
            f"address add {_address(254)}/24 dev {_BRIDGE}",
            *wires,
            f"neighbour add {_address(_number(SILENT))} lladdr {_NOBODY} dev {_BRIDGE} nud permanent",
            namespace=asking,
        )
        for number in numbers:
            own = (
                "link set lo up",
                f"address add {_address(number)}/24 dev {_WIRE}",
                f"link set {_WIRE} up",
            )
            _ip(*own, namespace=_namespace(number))
        yield asking


def _ip(*lines: str, namespace: str = "") -> None:
    where = ["-n", namespace] if namespace else []
    subprocess.run(["ip", *where, "-batch", "-"], input="\n".join(lines), text=True, check=True, capture_output=True)


def _within(namespace: str, work: Callable[[], T]) -> T:
    """What work() returns in a thread of that network namespace, which the threads that it starts are in as well."""
    found: list[T] = []
    errors: list[BaseException] = []

    def enter_and_work() -> None:
        try:
            descriptor = os.open(NETNS / namespace, os.O_RDONLY)
            try:
                libc = ctypes.CDLL(None, use_errno=True)
                if libc.setns(descriptor, _CLONE_NEWNET):
                    raise OSError(ctypes.get_errno(), f"setns() to {namespace}")
            finally:
                os.close(descriptor)
            found.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=enter_and_work)
    thread.start()
    thread.join()
    for one in errors:
        raise one
    return found[0]


# ---- nodes


class _Server(NamedTuple):
    number: int
    process: subprocess.Popen[bytes]
    log: Path

    def is_ready(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        return bool(_SERVING.search(self.log.read_text()))


@contextmanager
def _server(folder: Path, number: int, certificate: Path) -> Iterator[_Server]:
    """Started, and not ready yet."""
    own = folder / name_of(number)
    own.mkdir()
    address = _address(number)
    log = own / "log"
    command = [
        *inside(_namespace(number)),
        *COMMAND,
        "serve",
        f"--web.listen-address={address}:{_SERVE_PORT}",
        f"--web.allowed-hosts={address}",
        f"--web.config.file={certificate}",
        f"--web.token-file={folder / 'tokens.toml'}",
        f"--history.path={own / _HISTORY}",
    ]
    with log.open("wb") as output, subprocess.Popen(command, stderr=output) as process:
        try:
            yield _Server(number, process, log)
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(_STOP_SECONDS)
            process.kill()


def _record(path: Path, number: int) -> None:
    """One window, of the rank of the node, in a job of all nodes."""
    now_unix_ns = time.time_ns()
    labels = ProcessLabels(Identity(node=name_of(number), rank=str(number - 1), pod=f"trainer-{number}"), 100, "python")
    window = a_window(
        (now_unix_ns - NOON) / SECOND,
        began_unix_ns=now_unix_ns - _WINDOW_SECONDS * SECOND,
        labels=labels,
        steps=times(steps_of(number), 20 * MS),
    )
    place = a_membership(rank=number - 1, ranks=NODES, entered_unix_ns=now_unix_ns, labels=labels)
    file = claim(path)
    store = Store(file, 4 << 20, began_unix_ns=now_unix_ns - 600 * SECOND, version="1.0", has_chains=True)
    batch = WindowBatch(window.began_unix_ns, window.ended_unix_ns, [window], memberships=[place])
    store.write([], [batch], now_unix_ns)
    store.close()
    file.release()


@contextmanager
def _relay(number: int) -> Iterator[Relay]:
    delivery = {TRICKLING: Delivery.TRICKLED, HOLDING: Delivery.HELD}.get(name_of(number), Delivery.LATE)
    address = _address(number)
    with relaying((address, PORT), (address, _SERVE_PORT), delivery, LATENCY_SECONDS) as found:
        yield found


@contextmanager
def _garbling(folder: Path, number: int) -> Iterator[None]:
    """A server with the right certificate, whose answer is not HTTP."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "certificate" / "serve.crt", folder / "certificate" / "serve.key")
    with socket.create_server((_address(number), PORT)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with suppress(OSError), context.wrap_socket(connection, server_side=True) as encrypted:
                    encrypted.recv(1 << 16)
                    encrypted.sendall(b"\x00\x1b[2J not a response\r\n\r\n")

        thread = threading.Thread(target=serve, name="garbling", daemon=True)
        thread.start()
        try:
            yield
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()
