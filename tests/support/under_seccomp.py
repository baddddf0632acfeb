"""`python -m tests.support.under_seccomp PROFILE COMMAND…` runs a command under a seccomp profile of container engines.

A system call that the profile does not allow kills the process, where an engine would make the call fail, so that a test notices.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import json
import os
import platform
import sys
from pathlib import Path

_ACT_KILL_PROCESS, _ACT_ALLOW = 0x8000_0000, 0x7FFF_0000
_UNKNOWN = -1
# x86-64 names that libseccomp does not know before 2.6.
_NEWER = {"x86_64": {"uretprobe": 335, "uprobe": 336, "fchmodat2": 452}, "aarch64": {"fchmodat2": 452}}


def libseccomp() -> ctypes.CDLL | None:
    """None when it is not installed."""
    try:
        library = ctypes.CDLL("libseccomp.so.2", use_errno=True)
    except OSError:
        return None
    library.seccomp_init.restype = ctypes.c_void_p
    return library


def allowed(profile: Path) -> set[str]:
    """Names of the allowed system calls."""
    document = json.loads(profile.read_text(encoding="utf-8"))
    assert document["defaultAction"] == "SCMP_ACT_ERRNO"
    return {name for rule in document["syscalls"] for name in rule["names"] if rule["action"] == "SCMP_ACT_ALLOW"}


def enter(profile: Path) -> None:
    """Apply the profile to this process and to all that it starts, for good."""
    library = libseccomp()
    assert library is not None
    context = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(_ACT_KILL_PROCESS)))
    newer = _NEWER[platform.machine()]
    for name in sorted(allowed(profile)):
        number = library.seccomp_syscall_resolve_name(name.encode())
        number = newer.get(name, _UNKNOWN) if number == _UNKNOWN else number
        if number >= 0:  # negative: of another architecture
            added = library.seccomp_rule_add(context, ctypes.c_uint32(_ACT_ALLOW), number, 0)
            assert added == 0, f"{name}: {os.strerror(-added)}"
    assert library.seccomp_load(context) == 0
    library.seccomp_release(context)


if __name__ == "__main__":
    enter(Path(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606 - what a launcher is for
