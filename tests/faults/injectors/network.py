"""A server that answers late, and a wire that loses packets: in network namespaces of our own, or on the loopback interface."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.faults.injectors import NotPossible
from tests.faults.injectors.cpu import in_groups

PEER = Path(__file__).with_name("peer.py")
DROP = Path(__file__).with_name("drop.bpf.c")
NETNS = Path("/run/netns")
PREFIX = "gpu-stall-fault"
OWN_ADDRESS, PEER_ADDRESS = "198.18.0.1", "198.18.0.2"
"""RFC 2544: of networks under test. They reach nothing outside of the two namespaces."""
OWN_ADDRESS_6, PEER_ADDRESS_6 = "2001:2::1", "2001:2::2"
"""RFC 5180: the same."""


@dataclass(frozen=True)
class Wire:
    """Two network namespaces with a veth between them; its end is called `wire` in both. own, peer: their names."""

    own: str
    peer: str

    def dropped(self, namespace: str) -> int:
        """Packets that a program has dropped where they arrived."""
        text = _said("tc", "-n", namespace, "-s", "qdisc", "show", "dev", "wire", "clsact")
        return int(text.partition("(dropped ")[2].partition(",")[0] or 0)

    def retransmitted(self, namespace: str) -> int:
        """RetransSegs of the namespace, as the kernel counts it."""
        text = _said(*inside(namespace), "cat", "/proc/net/snmp")
        names, values = (line.split() for line in text.splitlines() if line.startswith("Tcp:"))
        return int(values[names.index("RetransSegs")])


@dataclass(frozen=True)
class Server:
    """A server that runs."""

    address: str
    port: int
    process: subprocess.Popen[str]

    @property
    def flags(self) -> tuple[str, ...]:
        """Flags of a trainer that fetches from it."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return (f"--loader-connect={host}:{self.port}",)

    def tell(self, line: str) -> None:
        """See peer.py. It holds for each request from now on."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        if self.process.stdout.readline() != line + "\n":
            raise NotPossible(f"the server of the rig did not take {line!r}")

    @contextmanager
    def late(self, seconds: float) -> Iterator[None]:
        """Each answer takes so much longer."""
        self.tell(f"late {seconds}")
        try:
            yield
        finally:
            self.tell("late 0")

    @contextmanager
    def once_late(self, seconds: float) -> Iterator[None]:
        """The next answer does."""
        self.tell(f"once {seconds}")
        yield


def inside(namespace: str) -> list[str]:
    """The beginning of a command line that runs what follows in this network namespace; "" is ours."""
    return ["nsenter", f"--net={NETNS / namespace}", "--"] if namespace else []


@contextmanager
def server(address: str = "127.0.0.1", namespace: str = "", group: Path | None = None) -> Iterator[Server]:
    """One that answers at once. group: the control group it starts in."""
    line = [*in_groups([group] if group else []), *inside(namespace), sys.executable, "-S", str(PEER), address]
    with subprocess.Popen(
        line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            assert process.stdout is not None
            port = process.stdout.readline()
            if not port:
                raise NotPossible("the server of the rig did not start")
            yield Server(address, int(port), process)
        finally:
            process.kill()


@contextmanager
def wire() -> Iterator[Wire]:
    """Two namespaces, each with one address of either family; gone at the end, and all that was in them."""
    if os.geteuid() != 0:
        raise NotPossible("network namespaces are made by root")
    for tool in ("ip", "tc", "nsenter"):
        if shutil.which(tool) is None:
            raise NotPossible(f"there is no {tool}")
    found = Wire(f"{PREFIX}-{os.getpid()}-own", f"{PREFIX}-{os.getpid()}-peer")
    with ExitStack() as stack:
        for name in (found.own, found.peer):
            _do("ip", "netns", "add", name)
            stack.callback(_do, "ip", "netns", "delete", name)
        _do("ip", "-n", found.own, "link", "add", "wire", "type", "veth", "peer", "name", "wire", "netns", found.peer)
        for name, *addresses in (
            (found.own, f"{OWN_ADDRESS}/30", f"{OWN_ADDRESS_6}/64"),
            (found.peer, f"{PEER_ADDRESS}/30", f"{PEER_ADDRESS_6}/64"),
        ):
            for address in addresses:
                nodad = ["nodad"] if ":" in address else []
                _do("ip", "-n", name, "address", "add", address, "dev", "wire", *nodad)
            _do("ip", "-n", name, "link", "set", "lo", "up")
            _do("ip", "-n", name, "link", "set", "wire", "up")
            _do("tc", "-n", name, "qdisc", "add", "dev", "wire", "clsact")
        yield found


@contextmanager
def dropper(one_of: int) -> Iterator[Path]:
    """A program that drops each so-manieth packet with data.

    It is to be there before a job runs: while it is made the job's output is not read, and the job waits for the pipe.
    """
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "drop.bpf.o"
        options = ("-target", "bpf", "-O2", "-g", f"-DEVERY={one_of}", f"-I/usr/include/{os.uname().machine}-linux-gnu")
        _do("clang", *options, "-c", str(DROP), "-o", str(program))
        yield program


@contextmanager
def loss(program: Path, *namespaces: str) -> Iterator[None]:
    """Where packets arrive in these namespaces, the dropper is at work."""
    with ExitStack() as stack:
        for name in namespaces:
            place = ("tc", "-n", name, "filter")
            _do(*place, "add", "dev", "wire", "ingress", "bpf", "direct-action", "obj", str(program), "sec", "tc")
            stack.callback(_do, *place, "delete", "dev", "wire", "ingress")
        yield


def left_behind() -> list[Path]:
    """Namespaces of this process that were not removed."""
    return list(NETNS.glob(f"{PREFIX}-{os.getpid()}-*"))


def _said(*line: str) -> str:
    return subprocess.run(line, check=True, capture_output=True, text=True).stdout


def _do(*line: str) -> None:
    try:
        subprocess.run(line, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        said = error.stderr.strip() if isinstance(error, subprocess.CalledProcessError) else error
        raise NotPossible(f"{' '.join(line)}: {said}") from error
