"""The experiment of hazards.py: calls a function with a return probe, under a seccomp filter. Prints `survived`, or dies.

A program of its own, run by path, that needs only the standard library and touches no other process. The function is a few
bytes of machine code in a file in memory; the probe is a counting perf event on this process alone.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import struct
import sys
from pathlib import Path

FUNCTION = bytes((0x55, 0x5D, 0xC3))  # push %rbp; pop %rbp; ret: the kernel emulates the first, which is the probed one
CALLS = 3
PMU = Path("/sys/bus/event_source/devices/uprobe")

_SYS_PERF_EVENT_OPEN = 298
_OPEN_CLOEXEC = 1 << 3
# struct perf_event_attr: type, size, config, four unused members, wakeup and bp_type; then config1, the path, and config2, the
# offset; the rest up to VER5 stays 0.
_ATTRIBUTES = struct.Struct("=IIQ32xIIQQ40x")

_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _SECCOMP_MODE_FILTER = 22, 38, 2
_LOAD_NUMBER, _IF_AT_LEAST, _RETURN = 0x20, 0x35, 0x06  # BPF_LD|BPF_W|BPF_ABS, BPF_JMP|BPF_JGE|BPF_K, BPF_RET|BPF_K
_ALLOW, _KILL_PROCESS = 0x7FFF0000, 0x80000000
# 334 is rseq, 424 pidfd_send_signal. The only calls in between on x86-64 are those that the kernel itself makes in a probed
# process (335 uretprobe, 336 uprobe), so the interpreter can run under this strict filter.
_FIRST_DENIED, _FIRST_ALLOWED_AGAIN = 335, 424
_FILTER = (
    (_LOAD_NUMBER, 0, 0, 0),
    (_IF_AT_LEAST, 0, 2, _FIRST_DENIED),
    (_IF_AT_LEAST, 1, 0, _FIRST_ALLOWED_AGAIN),
    (_RETURN, 0, 0, _KILL_PROCESS),
    (_RETURN, 0, 0, _ALLOW),
)


class _Program(ctypes.Structure):
    """`struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def main() -> None:
    """Raises, and so ends with an error, if the experiment is not possible."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    libc = ctypes.CDLL(None, use_errno=True)
    fd = os.memfd_create("probed")
    os.write(fd, FUNCTION)
    libc.mmap.restype, libc.mmap.argtypes = ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_long] * 4)
    address = libc.mmap(None, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_EXEC, mmap.MAP_PRIVATE, fd, 0)
    if address == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), "cannot map the function")
    event = _probe_returns(libc, f"/proc/self/fd/{fd}")
    _set_filter(libc)
    function = ctypes.CFUNCTYPE(None)(address)
    for _ in range(CALLS):
        function()
    if int.from_bytes(os.read(event, 8), sys.byteorder) != CALLS:
        raise RuntimeError("the probe did not fire: the experiment proves nothing")
    print("survived", flush=True)


def _probe_returns(libc: ctypes.CDLL, path: str) -> int:
    """Opens a perf event that counts returns of the function at the beginning of a file, in this thread."""
    where = ctypes.create_string_buffer(path.encode())
    returns = 1 << int((PMU / "format" / "retprobe").read_text().strip().removeprefix("config:"))
    attributes = ctypes.create_string_buffer(
        _ATTRIBUTES.pack(int((PMU / "type").read_text()), _ATTRIBUTES.size, returns, 0, 0, ctypes.addressof(where), 0)
    )
    event = libc.syscall(_SYS_PERF_EVENT_OPEN, attributes, 0, -1, -1, _OPEN_CLOEXEC)
    if event < 0:
        raise OSError(ctypes.get_errno(), "cannot probe the function")
    return int(event)


def _set_filter(libc: ctypes.CDLL) -> None:
    """Irrevocable for this process."""
    program = _Program(len(_FILTER), b"".join(struct.pack("=HBBI", *instruction) for instruction in _FILTER))
    of_words = (ctypes.c_ulong(0),) * 3
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), *of_words):
        raise OSError(ctypes.get_errno(), "cannot set no_new_privs")
    if libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(program)):
        raise OSError(ctypes.get_errno(), "cannot set a filter")


if __name__ == "__main__":
    main()
