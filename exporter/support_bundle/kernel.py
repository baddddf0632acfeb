"""The kernel: release, build options and sysctls that matter to BPF, security modules, and its log lines about BPF and probes."""

from __future__ import annotations

import gzip
import platform
import re
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from exporter.support_bundle.machine import LOG_LINES_MAX, Machine

_KERNEL_OPTIONS = re.compile(
    r"(CONFIG_(?:BPF\w*|HAVE_EBPF_JIT|DEBUG_INFO_BTF\w*|UPROBES|UPROBE_EVENTS|KPROBES|KPROBE_EVENTS|FTRACE|PERF_EVENTS|SCHEDSTATS|"
    r"SCHED_INFO|TASK_DELAY_ACCT|CGROUPS|CGROUP_BPF|CFS_BANDWIDTH|PSI\w*|SECCOMP_FILTER|LSM|SECURITY_LOCKDOWN_LSM|SECURITY_YAMA|"
    r"PREEMPT\w*|HZ|NO_HZ\w*|PARAVIRT_TIME_ACCOUNTING|IRQ_TIME_ACCOUNTING|CHECKPOINT_RESTORE|MODVERSIONS))=(.*)"
)
_SYSCTLS = (
    *(
        "kernel/unprivileged_bpf_disabled",
        "kernel/perf_event_paranoid",
        "kernel/kptr_restrict",
        "kernel/dmesg_restrict",
    ),
    *("kernel/bpf_stats_enabled", "kernel/sched_schedstats", "kernel/task_delayacct", "kernel/tainted"),
    *("kernel/yama/ptrace_scope", "kernel/perf_event_max_sample_rate", "kernel/perf_cpu_time_max_percent"),
    *("net/core/bpf_jit_enable", "net/core/bpf_jit_harden", "net/core/bpf_jit_limit", "user/max_user_namespaces"),
)
_KERNEL_LINES = re.compile(r"bpf|uprobe|kprobe|\bBTF\b|lockdown", re.IGNORECASE)


def kernel(machine: Machine) -> dict[str, Any]:
    """What decides whether BPF programs load."""
    return {
        "release": platform.release(),
        "version": platform.version(),
        "machine": platform.machine(),
        "btf_bytes": _size(machine.root / "sys/kernel/btf/vmlinux"),
        "options": _kernel_options(machine),
        "sysctls": {name.replace("/", "."): machine.read_or_error(f"/proc/sys/{name}") for name in _SYSCTLS},
        "security_modules": machine.read_or_error("/sys/kernel/security/lsm"),
        "lockdown": machine.read_or_error("/sys/kernel/security/lockdown"),
        "selinux_enforces": machine.read_or_error("/sys/fs/selinux/enforce"),
        "apparmor_profile": machine.read_or_error("/proc/self/attr/apparmor/current"),
        "nvidia_driver": machine.read_or_error("/proc/driver/nvidia/version"),
    }


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None


def _kernel_options(machine: Machine) -> dict[str, str] | str:
    release = platform.release()
    for path in ("/proc/config.gz", f"/boot/config-{release}", f"/lib/modules/{release}/config"):
        try:
            content = machine.read_bytes(path)
        except OSError:
            continue
        text = (gzip.decompress(content) if path.endswith(".gz") else content).decode("utf-8", "replace")
        return {match[1]: match[2] for line in text.splitlines() if (match := _KERNEL_OPTIONS.fullmatch(line))}
    return "cannot be read: neither /proc/config.gz nor a file in /boot or /lib/modules"


def kernel_log(machine: Machine) -> str:
    """Its last lines about BPF and probes, with seconds since boot; a line that repeats stands once."""
    found: list[tuple[str, str]] = []
    for record in machine.kernel_log():
        head, semicolon, text = record.partition(";")
        if semicolon and _KERNEL_LINES.search(text):
            stamp = head.split(",")[2:3]
            found.append((f"{int(stamp[0]) / 1e6:.6f}" if stamp and stamp[0].isdigit() else "?", text))
    lines = []
    for text, repeated in groupby(found, key=itemgetter(1)):
        stamps = [stamp for stamp, _ in repeated]
        lines.append(f"[{stamps[0]}] {text}" + (f" ({len(stamps)} times, until {stamps[-1]})" if stamps[1:] else ""))
    return "\n".join(lines[-LOG_LINES_MAX:]) + "\n" if lines else "no lines about BPF or probes\n"
