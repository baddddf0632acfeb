"""Why this kernel refuses bpf(2) or perf_event_open(2), and what to do about it.

In: the error, the capabilities of this process, kernel lockdown. Out: the remedy of a KernelRefused. A refusal looks the same
whether a capability is missing, or SELinux, AppArmor, a seccomp filter or kernel lockdown forbids the call.
Source: security_locked_down() in kernel/trace/bpf_trace.c and kernel/events/core.c; proc_pid_status(5).
"""

from __future__ import annotations

import errno
import re
from pathlib import Path
from typing import Final

LOCKDOWN: Final = Path("/sys/kernel/security/lockdown")
STATUS: Final = Path("/proc/self/status")
UID_MAP: Final = Path("/proc/self/uid_map")
COMMAND_LINE: Final = Path("/proc/cmdline")
CONFIDENTIALITY: Final = "confidentiality"
LOCKDOWN_REMEDY: Final = (
    "kernel lockdown is in confidentiality mode, in which no program may read kernel memory: boot with lockdown=integrity, or"
    " without lockdown"
)
_WHOLE_MAP: Final = ["0", "0", "4294967295"]
"""The first user namespace has this one: user_namespaces(7)."""
_NEEDED: Final = {"CAP_BPF": 39, "CAP_PERFMON": 38}
_SYS_ADMIN: Final = 21  # stands for both
_CHOSEN: Final = re.compile(r"\[(\w+)\]")
_BOOTED_WITH: Final = re.compile(r"(?:^|\s)lockdown=(\w+)")
_FIELD: Final = re.compile(r"^(CapEff|Seccomp):\s*(\w+)$", re.MULTILINE)


def lockdown_mode(lockdown: Path = LOCKDOWN, command_line: Path = COMMAND_LINE) -> str:
    """`integrity` or `confidentiality`; `none` without lockdown, or if that cannot be seen: many containers lack securityfs."""
    if found := _CHOSEN.search(_text(lockdown)):
        return found[1]
    booted_with = _BOOTED_WITH.search(_text(command_line))
    return booted_with[1] if booted_with else "none"


def remedy_for(
    call: str,
    code: int,
    *,
    without_sys_admin: str = "",
    status: Path = STATUS,
    uid_map: Path = UID_MAP,
    mode: str | None = None,
) -> str:
    """call: such as `bpf(2)`. code: its errno. without_sys_admin: where a kernel may take CAP_SYS_ADMIN for it, the remedy.

    mode: of lockdown; None: that of this kernel. Returns "" if there is none.
    """
    if (lockdown_mode() if mode is None else mode) == CONFIDENTIALITY:
        return LOCKDOWN_REMEDY
    if code not in (errno.EPERM, errno.EACCES):
        return ""
    fields = dict(_FIELD.findall(_text(status)))
    held = int(fields.get("CapEff", "0"), 16)
    missing = [name for name, bit in _NEEDED.items() if not held >> bit & 1]
    if missing and not held >> _SYS_ADMIN & 1:
        return "run as root, or with CAP_BPF and CAP_PERFMON"
    if _text(uid_map).split() not in ([], _WHOLE_MAP):
        return "capabilities of a user namespace do not count: run outside of one (in Kubernetes without `hostUsers: false`)"
    if without_sys_admin and not held >> _SYS_ADMIN & 1:
        return without_sys_admin
    filtered = "the seccomp filter of this process, " if fields.get("Seccomp") == "2" else ""
    return (
        f"its capabilities suffice, so {filtered}SELinux or AppArmor refuses {call}: see `dmesg` and `ausearch -m AVC`;"
        " docs/security.md says which calls to allow"
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
