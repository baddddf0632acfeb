"""Each part of a bundle: a name, and a function that collects it. What one cannot have it raises; the others go on.

Asked for is only what is told: of the environment names, of receivers where they are, of the web configuration which keys
are set.
Nothing is asked of other processes but which libraries they map.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.metadata
import os
import platform
import re
import resource
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from exporter.config import Config, strict_yaml
from exporter.config.otlp import Receiver, Target
from exporter.errors import ExporterError
from exporter.host import libraries
from exporter.host.libraries import MappedLibrary, SkippedLibrary
from exporter.host.processes import Processes
from exporter.kernel.libbpf import Libbpf
from exporter.kernel.loader import OBJECTS_DIR
from exporter.kernel.operations import OPERATIONS, wanted_symbols
from exporter.probes.discovery import API_OF
from exporter.support_bundle.machine import Machine
from exporter.support_bundle.redaction import KNOWN_PATHS, SHOWN_VARIABLES

if TYPE_CHECKING:
    from exporter.support_bundle import Part

DISTRIBUTION = "gpu-stall-exporter"
LOG_LINES_MAX = 300
_WEB_KEYS = frozenset(
    {
        *(
            "cert",
            "cert_file",
            "key",
            "key_file",
            "client_ca",
            "client_ca_file",
            "client_auth_type",
            "client_allowed_sans",
        ),
        *("min_version", "max_version", "cipher_suites", "curve_preferences", "prefer_server_cipher_suites"),
        *("http2", "headers", "interval", "burst"),
        *("tls_server_config", "http_server_config", "basic_auth_users", "rate_limit"),
    }
)
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
_STATUS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")
_KERNEL_LINES = re.compile(r"bpf|uprobe|kprobe|\bBTF\b|lockdown", re.IGNORECASE)
_IDS = re.compile(r"[0-9a-f]{32,64}|[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}")
# Labels whose values are ours or numbers. Any other names a workload, a machine or a program.
_SHOWN_LABELS = frozenset(
    {
        *("api", "attach_kind", "blocked_on", "cause", "code", "collector", "communicator", "communicator_rank"),
        *("container_runtime", "direction", "effect", "fate", "figure", "format", "kernel", "kind", "le", "libbpf"),
        *(
            "library",
            "local_rank",
            "map",
            "model",
            "nranks",
            "operation",
            "outcome",
            "pid",
            "program",
            "python",
            "rank",
        ),
        *("reason", "receiver", "result", "severity", "signal", "state", "version", "world_size"),
        *("implementation", "major", "minor", "patchlevel", "quantile"),
    }
)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def parts(config: Config, findings: Sequence[Mapping[str, Any]], version: str, machine: Machine) -> Mapping[str, Part]:
    """Member -> how it is made, the most telling first: what does not fit is the last. findings: what `check` has found."""
    return {
        "findings.json": lambda: list(findings),
        "exporter.json": lambda: exporter(version),
        "configuration.json": lambda: configuration(config),
        "kernel.json": lambda: kernel(machine),
        "machine.json": lambda: about_machine(machine),
        "cgroups.json": lambda: cgroups(machine),
        "environment.json": lambda: environment(machine.environment),
        "libraries.json": lambda: gpu_libraries(Processes(config.procfs)),
        "metrics.txt": lambda: metrics(config, machine),
        "log.txt": lambda: log(machine),
        "kernel-log.txt": lambda: kernel_log(machine),
    }


def exporter(version: str) -> dict[str, Any]:
    """What is installed: versions, and which objects it would load."""
    try:
        libbpf = Libbpf().version()
    except ExporterError as error:
        libbpf = f"cannot be loaded: {error}"
    objects = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(OBJECTS_DIR.glob("*.bpf.o"))}
    return {
        "version": version,
        "python": sys.version,
        "libbpf": libbpf,
        "packages": packages(),
        "objects_sha256": objects,
    }


def packages() -> dict[str, str]:
    """Ours, those it needs, those they need, each with its version; nothing else that is installed."""
    found: dict[str, str] = {}
    waiting = [DISTRIBUTION]
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in found:
            continue
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed as a package"
            continue
        found[name] = distribution.version
        needs = (need for need in distribution.requires or () if ";" not in need)
        waiting += [match[0] for need in needs if (match := re.match(r"[\w.-]+", need))]
    return dict(sorted(found.items()))


def configuration(config: Config) -> dict[str, Any]:
    """Every setting in force, those that may hold a secret cut down to what is none."""
    special: dict[str, Any] = {
        "node": "set",
        "receivers": [_receiver(one) for one in config.receivers],
        "resource_attributes": [key for key, _ in config.resource_attributes],
        "web_config_file": _web_config(config.web_config_file),
        "orchestrator": {
            "kind": config.orchestrator.kind,
            "url": _shown(config.orchestrator.url),
            "ca_file": str(config.orchestrator.ca_file),
            "has_token": config.orchestrator.token_file.exists(),
            "is_verified": config.orchestrator.is_verified,
        },
    }
    plain = {one.name: getattr(config, one.name) for one in fields(config) if one.name not in special}
    return {name: str(value) if isinstance(value, Path) else value for name, value in plain.items()} | special


def _receiver(receiver: Receiver) -> dict[str, Any]:
    signals = {"logs": receiver.logs, "traces": receiver.traces}
    return {
        **_target(receiver),
        "interval_seconds": receiver.interval_seconds,
        "temporality": receiver.temporality,
        "histograms": receiver.histograms,
        **{name: _target(target) if target else None for name, target in signals.items()},
    }


def _target(target: Target) -> dict[str, Any]:
    return {
        "name": target.name,
        "url": _shown(target.url),
        "protocol": target.protocol,
        "compression": target.compression,
        "timeout_seconds": target.timeout_seconds,
        "headers": [name for name, _ in target.headers],
        "has_ca_file": target.ca_file is not None,
        "has_client_certificate": target.client_certificate_file is not None,
    }


def _shown(url: str) -> str:
    """Without user and query; of the path, which may hold a key, what is of a known form."""
    if not url:
        return ""
    there = urlsplit(url)
    path = "/".join(one if one.lower() in KNOWN_PATHS else "…" for one in there.path.split("/"))
    port = f":{there.port}" if there.port else ""
    return f"{there.scheme}://{there.hostname}{port}{path}"


def _web_config(path: Path | None) -> Any:
    """Which keys are set, and how many users there are."""
    if path is None:
        return None
    try:
        content = strict_yaml.load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        return f"cannot be read: {type(error).__name__}"
    if not isinstance(content, dict):
        return "holds no keys"
    return {
        _web_key(key): len(below)
        if key == "basic_auth_users" and isinstance(below, dict)
        else sorted(map(_web_key, below))
        if isinstance(below, dict)
        else "set"
        for key, below in content.items()
    }


def _web_key(key: str) -> str:
    return key if key in _WEB_KEYS else "another key"


def kernel(machine: Machine) -> dict[str, Any]:
    """Release, options and sysctls that matter to BPF, modules of security."""
    return {
        "release": platform.release(),
        "version": platform.version(),
        "machine": platform.machine(),
        "btf_bytes": _size(machine.root / "sys/kernel/btf/vmlinux"),
        "options": _kernel_options(machine),
        "sysctls": {name.replace("/", "."): machine.said(f"/proc/sys/{name}") for name in _SYSCTLS},
        "security_modules": machine.said("/sys/kernel/security/lsm"),
        "lockdown": machine.said("/sys/kernel/security/lockdown"),
        "selinux_enforces": machine.said("/sys/fs/selinux/enforce"),
        "apparmor_profile": machine.said("/proc/self/attr/apparmor/current"),
        "nvidia_driver": machine.said("/proc/driver/nvidia/version"),
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


def about_machine(machine: Machine) -> dict[str, Any]:
    """Distribution, size, what this process may do, and in which namespaces it is."""
    release = dict(line.partition("=")[::2] for line in machine.said("/etc/os-release").splitlines())
    status = dict(line.partition(":")[::2] for line in machine.said("/proc/self/status").splitlines())
    processor = re.search(r"^model name\s*: (.*)", machine.said("/proc/cpuinfo"), re.MULTILINE)
    memory = re.search(r"^MemTotal:\s*(\d+) kB", machine.said("/proc/meminfo"), re.MULTILINE)
    return {
        "distribution": {key: release.get(key, "").strip('"') for key in ("ID", "VERSION_ID", "PRETTY_NAME")},
        "processor": processor[1] if processor else "",
        "cpus": os.cpu_count(),
        "is_virtual": "hypervisor" in machine.said("/proc/cpuinfo"),
        "memory_bytes": int(memory[1]) * 1024 if memory else None,
        "is_root": os.geteuid() == 0,
        "rights": {name: status.get(name, "").strip() for name in _STATUS},
        "namespaces": {
            name: _link(machine.root / "proc/self/ns" / name) for name in ("pid", "mnt", "user", "net", "cgroup")
        },
        "open_files": resource.getrlimit(resource.RLIMIT_NOFILE),
        "locked_memory_bytes": resource.getrlimit(resource.RLIMIT_MEMLOCK),
    }


def _link(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def cgroups(machine: Machine) -> dict[str, Any]:
    """Which hierarchies are mounted, and the form of our own place in them: ids and numbers taken out."""
    mounts = []
    for line in machine.read("/proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        if after.startswith(("cgroup ", "cgroup2 ")):
            mounts.append({"at": before.split()[4], "type": after.split()[0], "options": after.split()[2]})
    own = _IDS.sub("<id>", machine.read("/proc/self/cgroup")).splitlines()
    return {
        "mounts": mounts,
        "controllers": machine.said("/sys/fs/cgroup/cgroup.controllers"),
        # Of the names in the path only those that a runtime gives: a unit or a pod may be called after somebody.
        "own": [_form_of(line) for line in own],
    }


_RUNTIME_WORDS = re.compile(
    r"(?:system|user|kubepods|docker|machine|init|podruntime|runtime|burstable|besteffort|pod|cri|containerd|crio|libpod|lxc|"
    r"slice|scope|service|ecs|<id>|[-_.:/]|\d)+"
)


def _form_of(line: str) -> str:
    """`0::/system.slice/train.service` -> `0::/system.slice/….service`."""
    number, _, rest = line.partition(":")
    controllers, _, path = rest.partition(":")
    pieces = (
        piece
        if _RUNTIME_WORDS.fullmatch(piece) or not piece
        else "…" + (re.search(r"\.(slice|scope|service)$", piece) or [""])[0]
        for piece in path.split("/")
    )
    return f"{number}:{controllers}:{'/'.join(pieces)}"


def environment(variables: Mapping[str, str]) -> dict[str, Any]:
    """Names; values of those few that can only be ordinary."""
    return {name: variables[name] if name in SHOWN_VARIABLES else "set" for name in sorted(variables)}


def gpu_libraries(processes: Processes) -> list[dict[str, Any]]:
    """Each file that some process maps: build id, functions found, operations that are missing in it."""
    users: Counter[tuple[int, int, bytes]] = Counter()
    first: dict[tuple[int, int, bytes], tuple[int, MappedLibrary]] = {}
    for tgid in processes.tgids():
        try:
            mapped = libraries.find(processes, tgid)
        except ExporterError:
            continue
        for library in mapped:
            key = (library.mapping.device, library.mapping.inode, library.mapping.path)
            users[key] += 1
            first.setdefault(key, (tgid, library))
    return [
        {
            "path": one.mapping.shown_path,
            "kind": one.kind.value,
            "processes": users[key],
            **_inspected(processes, tgid, one),
        }
        for key, (tgid, one) in first.items()
    ]


def _inspected(processes: Processes, tgid: int, library: MappedLibrary) -> dict[str, Any]:
    found = libraries.inspect(processes, tgid, library)
    if isinstance(found, SkippedLibrary):
        return {"skipped": found.reason.value, "detail": found.detail}
    api = API_OF[library.kind]
    with found:
        symbols = found.elf.symbol_offsets(wanted_symbols(api))
        return {
            "soname": found.elf.soname,
            "machine": found.elf.machine,
            "size_bytes": found.elf.size_bytes,
            "build_id": found.elf.build(),
            "functions": symbols,
            "missing_operations": [
                one.name for one in OPERATIONS if one.api is api and not any(name in symbols for name in one.symbols())
            ],
        }


def metrics(config: Config, machine: Machine) -> str:
    """What the exporter that listens here serves, whatever names a workload replaced by numbers: equal ones stay equal."""
    if config.with_systemd_sockets:
        raise OSError("systemd holds the socket: which one is not known here")
    content = _web_config(config.web_config_file)
    is_tls = isinstance(content, dict) and "tls_server_config" in content
    why = ["no address has a fixed port"]
    for host, port in config.listen_addresses:
        if not port:
            continue
        where = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, and not listened on
        try:
            reply = machine.get(where, port, config.telemetry_path, is_tls=is_tls)
        except OSError as error:
            why.append(f"{where}:{port}: {error.strerror or error}")
            continue
        if reply.status != 200:
            why.append(f"{where}:{port} answers with status {reply.status}")
        elif "gpustall_" not in reply.body:
            why.append(f"what answers at {where}:{port} is no gpu-stall-exporter")
        else:
            return without_names(reply.body)
    raise OSError(why[-1])


def without_names(exposition: str) -> str:
    """`pod="alice-0"` -> `pod="name-1"`, everywhere the same."""
    numbers: dict[str, str] = {}

    def replaced(match: re.Match[str]) -> str:
        label, value = match.groups()
        if label in _SHOWN_LABELS or not value:
            return match[0]
        return f'{label}="{numbers.setdefault(value, f"name-{len(numbers) + 1}")}"'

    return _LABEL.sub(replaced, exposition)


def log(machine: Machine) -> str:
    """The last lines of the exporter as a service, but for what it says of chains: those name programs and commands."""
    text = machine.output_of(
        ["journalctl", "--unit=gpu-stall-exporter", f"--lines={LOG_LINES_MAX}", "--no-pager", "--quiet", "--output=cat"]
    )
    lines = [line for line in text.splitlines() if not re.search(r'"?msg"?[=:] ?"?chain ', line)]
    return "\n".join(lines) + "\n" if lines else "no lines in the journal of the unit gpu-stall-exporter\n"


def kernel_log(machine: Machine) -> str:
    """Its last lines about probes and BPF, with seconds since boot."""
    found: list[tuple[str, str]] = []
    for record in machine.kernel_log():
        head, semicolon, text = record.partition(";")
        if semicolon and _KERNEL_LINES.search(text):
            stamp = head.split(",")[2:3]
            found.append((f"{int(stamp[0]) / 1e6:.6f}" if stamp and stamp[0].isdigit() else "?", text))
    lines = []
    for text, alike in groupby(found, key=itemgetter(1)):
        stamps = [stamp for stamp, _ in alike]
        lines.append(f"[{stamps[0]}] {text}" + (f" ({len(stamps)} times, until {stamps[-1]})" if stamps[1:] else ""))
    return "\n".join(lines[-LOG_LINES_MAX:]) + "\n" if lines else "no lines about BPF or probes\n"
