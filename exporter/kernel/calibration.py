"""What a traced call costs the process that makes it, on this machine. Measured once, on a function of our own.

In: loaded kernel programs. Out: a CallCost. A child maps a few bytes of machine code from a file in memory and calls them in a
loop, first without probes, then with them; no other process maps that file. The programs are those that trace real calls.
"""

from __future__ import annotations

import ctypes
import logging
import mmap
import os
import platform
import subprocess
import sys
import time
from dataclasses import dataclass

from exporter.errors import KernelRefused
from exporter.kernel import probes
from exporter.kernel.abi import Api
from exporter.kernel.loader import Kernel

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CallCost:
    """Nanoseconds that a call takes longer. timed: entry and return are probed; counted: only the entry."""

    timed_ns: float
    counted_ns: float


TYPICAL = CallCost(timed_ns=1800.0, counted_ns=700.0)
"""Measured on x86-64 in a virtual machine (docs/measurements.md). Used where it cannot be measured."""

# Functions begin with `push`, as most of the real ones do: the kernel emulates it.
_CODE = {
    "x86_64": {
        "cudaEventQuery": "55 5d 31 c0 c3",  # push rbp; pop rbp; xor eax, eax; ret
        # The runtime's launch calls the driver's, 16 bytes further on: push rbp; call; pop rbp; xor eax, eax; ret
        "cudaLaunchKernel": "55 e8 0a 00 00 00 5d 31 c0 c3",
        "cuLaunchKernel": "55 5d 31 c0 c3",
        # repeat(times, function): push rbx; push rbp; sub rsp, 8; mov rbx, rdi; mov rbp, rsi; 1: call rbp; dec rbx; jnz 1b;
        # add rsp, 8; pop rbp; pop rbx; ret
        "repeat": "53 55 48 83 ec 08 48 89 fb 48 89 f5 ff d5 48 ff cb 75 f9 48 83 c4 08 5d 5b c3",
    }
}
_SPACING = 16
_API_OF = {"cudaEventQuery": Api.RUNTIME, "cudaLaunchKernel": Api.RUNTIME, "cuLaunchKernel": Api.DRIVER}
_MAP_FAILED = ctypes.c_void_p(-1).value
_TIMES, _BATCHES = 500, 20  # the fastest batch counts


def calibrate(kernel: Kernel) -> CallCost:
    """Measure; TYPICAL where that is not possible. Leaves rows of one ended process in the maps."""
    code = _CODE.get(platform.machine())
    if code is None or ("cuda_session" not in kernel.programs and "cuda_enter" not in kernel.programs):
        return TYPICAL
    offsets = {name: place * _SPACING for place, name in enumerate(code)}
    child = subprocess.Popen(
        [sys.executable, "-I", "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        return _measured(kernel, child, offsets)
    except (KernelRefused, OSError, ValueError) as error:
        log.info("cannot measure the cost of a probe (%s): assuming %.0f ns for a timed call", error, TYPICAL.timed_ns)
        return TYPICAL
    finally:
        child.kill()
        child.communicate()


def _measured(kernel: Kernel, child: subprocess.Popen[str], offsets: dict[str, int]) -> CallCost:
    assert child.stdout is not None  # noqa: S101 - PIPE above
    fd = os.open(f"/proc/{child.pid}/fd/{int(child.stdout.readline())}", os.O_RDONLY)
    before = _measure(child)
    attachments = []
    try:
        for api in (Api.RUNTIME, Api.DRIVER):
            of_api = {name: offset for name, offset in offsets.items() if _API_OF.get(name) is api}
            attachments.append(probes.attach(kernel, api, fd, of_api))
        after = _measure(child)
    finally:
        os.close(fd)
        for attachment in attachments:
            attachment.detach()
    timed_ns, both_ns = (with_ns - without_ns for with_ns, without_ns in zip(after, before, strict=True))
    if not 0 < timed_ns < both_ns:
        raise ValueError(f"{timed_ns:.0f} ns for one probe, {both_ns:.0f} ns for two")
    return CallCost(timed_ns, both_ns - timed_ns)


def _measure(child: subprocess.Popen[str]) -> list[float]:
    """Nanoseconds of a timed call, and of a timed call that makes a counted one."""
    assert child.stdin is not None  # noqa: S101 - PIPE above
    assert child.stdout is not None  # noqa: S101
    child.stdin.write("go\n")
    child.stdin.flush()
    return [float(word) for word in child.stdout.readline().split()]


def _main() -> None:
    """The child: prints the descriptor to probe, then measures once for each line it reads."""
    code = _CODE[platform.machine()]
    content = b"".join(bytes.fromhex(one).ljust(_SPACING, b"\xcc") for one in code.values())
    fd = os.memfd_create("probed")
    os.write(fd, content)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    # Not writable: the kernel does not probe writable mappings. The module mmap hides the address of its mappings.
    page = libc.mmap(None, len(content), mmap.PROT_READ | mmap.PROT_EXEC, mmap.MAP_PRIVATE, fd, ctypes.c_long(0))
    if page == _MAP_FAILED:
        raise OSError(ctypes.get_errno(), "mmap")
    place = {name: page + number * _SPACING for number, name in enumerate(code)}
    repeat = ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_void_p)(place["repeat"])

    def batch_ns(function: str) -> float:
        started_ns = time.perf_counter_ns()
        repeat(_TIMES, place[function])
        return (time.perf_counter_ns() - started_ns) / _TIMES

    print(fd, flush=True)
    while sys.stdin.readline():
        # Alternating, so that other load on the machine affects both.
        batches = [(batch_ns("cudaEventQuery"), batch_ns("cudaLaunchKernel")) for _ in range(_BATCHES)]
        print(*map(min, zip(*batches, strict=True)), flush=True)


if __name__ == "__main__":
    _main()
