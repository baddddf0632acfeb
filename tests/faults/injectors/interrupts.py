"""Soft interrupts on one CPU: packets whose reception is dear, in a network namespace that ends with them.

Run as a program in namespaces of its own (`unshare --net --mount`), it makes a pair of interfaces, steers what one of them
receives to a CPU, and sends over the other one. A packet is looked at by many filters of hundreds of divisions, as those of
captures that were left running, and is then dropped: all in the soft interrupt.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.faults.injectors import NotPossible

ROOT = Path(__file__).parent.parent.parent.parent
FLOOD = "fault-flood"
SENDER, RECEIVER = "stall0", "stall1"
DIVISIONS = 500  # of one filter: what a socket may use for options holds no more, 20 KiB before kernel 6.7
CAPTURES = 16
SO_ATTACH_FILTER = 26
PR_SET_NAME = 15
ETH_P_ALL = 3
FRAME = bytes(12) + struct.pack("!H", 0x88B5) + bytes(46)  # to no one; a protocol that is reserved for experiments
TURN_SECONDS = 0.001
BEHIND_SECONDS = 0.004  # what is late by more is not sent: a long burst would be left to a thread of the kernel
LONGEST_SECONDS = 300.0
READY = "ready"
PATIENCE_SECONDS = 10.0


@contextmanager
def storm(cpu: int, others: str, share: float) -> Iterator[None]:
    """Soft interrupts take about this share of a CPU. others: the CPUs that the sender may use, as taskset takes them."""
    tools = ("unshare", "ip", "mount", "taskset")
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        raise NotPossible(f"{missing[0]} is not installed")
    if os.geteuid() != 0:
        raise NotPossible("network namespaces are made by root")
    own = [sys.executable, "-m", __name__, str(cpu), str(share), str(os.getpid())]
    line = ["taskset", "-c", others, "nice", "-n", "-10", "unshare", "--net", "--mount", "--", *own]
    with subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as flood:
        try:
            assert flood.stdout is not None
            if flood.stdout.readline().strip() != READY:
                assert flood.stderr is not None
                raise NotPossible(f"no flood of packets: {flood.stderr.read().strip()[-200:]}")
            yield
        finally:
            flood.kill()


def _dear_filter() -> bytes:
    """A classic BPF program: divisions that depend on each other, then `drop`."""
    load_x = struct.pack("=HBBI", 0x01, 0, 0, 3)  # ldx #3
    load_a = struct.pack("=HBBI", 0x00, 0, 0, 0xFFFFFFFF)  # ld #
    divide = struct.pack("=HBBI", 0x3C, 0, 0, 0)  # div x
    drop = struct.pack("=HBBI", 0x06, 0, 0, 0)  # ret #0
    return load_x + load_a + divide * DIVISIONS + drop


def _attach(one: socket.socket) -> ctypes.Array[ctypes.c_char]:
    """Returns what must be kept as long as the call lasts."""
    code = ctypes.create_string_buffer(_dear_filter())
    one.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HL", DIVISIONS + 3, ctypes.addressof(code)))
    return code


def _cost_seconds() -> float:
    """Seconds that the filter takes once: a pair of local sockets sends with it and without it."""
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with one, other:
        other.setblocking(False)
        bare = min(_sent_seconds(one, other) for _ in range(100))
        _attach(other)
        return max(min(_sent_seconds(one) for _ in range(100)) - bare, 1e-7)


def _sent_seconds(one: socket.socket, emptied: socket.socket | None = None) -> float:
    before = time.perf_counter()
    one.send(FRAME)
    took = time.perf_counter() - before
    if emptied:
        emptied.recv(len(FRAME))
    return took


def _make_interfaces(cpu: int) -> None:
    """In this namespace, which has nothing yet. /sys shows the interfaces of the namespace that it was mounted in."""
    run = ("ip", "link", "add", SENDER, "type", "veth", "peer", "name", RECEIVER)
    subprocess.run(run, check=True)
    for name in (SENDER, RECEIVER):
        subprocess.run(("ip", "link", "set", name, "up"), check=True)
    subprocess.run(("mount", "-t", "sysfs", "sysfs", "/sys"), check=True)
    Path(f"/sys/class/net/{RECEIVER}/queues/rx-0/rps_cpus").write_text(f"{1 << cpu:x}", encoding="ascii")


def flood(cpu: int, share: float, parent: int) -> None:
    """Until it is killed, or the parent is gone, or it has lasted for long."""
    ctypes.CDLL(None).prctl(PR_SET_NAME, FLOOD.encode(), 0, 0, 0)
    _make_interfaces(cpu)
    a_second = share / (CAPTURES * _cost_seconds())
    with ExitStack() as sockets:
        out, *captures = (
            sockets.enter_context(socket.socket(socket.AF_PACKET, socket.SOCK_RAW)) for _ in range(1 + CAPTURES)
        )
        out.bind((SENDER, 0))
        for one in captures:
            _attach(one)
            one.bind((RECEIVER, ETH_P_ALL))
        print(READY, flush=True)
        began = last = time.monotonic()
        due = 0.0
        while last - began < LONGEST_SECONDS and os.getppid() == parent:
            time.sleep(TURN_SECONDS)
            now = time.monotonic()
            due += min(now - last, BEHIND_SECONDS) * a_second
            last = now
            while due >= 1:
                out.send(FRAME)
                due -= 1


if __name__ == "__main__":
    flood(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))
