"""Would `run` work here, and what would it see? Each check says ok, absent or failed, and what to do.

In: this machine. Out: a list of Findings. `failed` keeps `run` from working; `absent` costs something that is named, no more.
Nothing is left behind: programs that are loaded to see whether they load are unloaded again.
"""

from __future__ import annotations

import enum
import platform
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from exporter.config import Config
from exporter.config.otlp import LOGS, TRACES, Target
from exporter.errors import BadInput, ExporterError, NotPossibleHere, ProcessGone
from exporter.gpu.nvml import Nvml
from exporter.gpu.sampler import GpuSampler
from exporter.history import file_guard
from exporter.host import capabilities, libraries
from exporter.host.libraries import MARKS, MappedLibrary, SkippedLibrary
from exporter.host.privileges import NEEDS
from exporter.host.processes import Processes
from exporter.host.symbols import SYSTEM_PYTHON
from exporter.kernel import hazards, loader
from exporter.kernel.libbpf import Libbpf
from exporter.kernel.loader import OBJECTS_DIR, SUBJECTS, AttachKind
from exporter.kernel.mapping_watch import MappingWatch
from exporter.kernel.operations import OPERATIONS, wanted_symbols
from exporter.output.web import listeners
from exporter.output.web.access import AccessControl
from exporter.probes.discovery import API_OF

if TYPE_CHECKING:
    from exporter.output.otlp.response import PushResult

KERNEL_FLOOR = (5, 15)  # bpf_get_attach_cookie() of a uprobe, task storage
KERNEL_TESTED = (6, 1)  # the oldest that the tests run in; see tests/kernels
_PUSH_REMEDY = "start the receiver, or correct --otlp.endpoint (HTTP is usually on port 4318); `run` tries on"
_BCC_PROBE = "import bcc; print(bcc.__version__)"


class CheckState(enum.StrEnum):
    """How a check came out."""

    OK = "ok"
    ABSENT = "absent"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """One row. remedy: empty when state is ok. symbols: exported functions found, of a library."""

    subject: str
    state: CheckState
    detail: str
    remedy: str = ""
    symbols: tuple[str, ...] = ()


def findings(config: Config, machine: str = platform.machine()) -> Iterator[Finding]:
    """Every check, in the order in which one would fix what they find."""
    yield _kernel()
    yield _btf()
    yield _capabilities()
    yield _libbpf()
    yield _objects()
    returns = _return_probes(config)
    yield returns
    yield from _arm64_probes(config, machine)
    yield _programs(config, with_returns=returns.state is CheckState.OK or config.returns == "always")
    yield _mapping_watch()
    yield _tracefs()
    yield _driver()
    yield _nvml(config, GpuSampler(Nvml()))
    yield from _libraries(config)
    yield _bcc()
    yield _history(config)
    yield from _ports(config)
    yield from _web_config(config)
    yield from _receivers(config)


def _kernel() -> Finding:
    release, machine = platform.release(), platform.machine()
    detail = f"{release} on {machine}"
    if machine not in ("x86_64", "aarch64"):
        return Finding("kernel", CheckState.FAILED, detail, "use x86-64 or arm64")
    version = tuple(int(part) for part in release.split("-")[0].split(".")[:2] if part.isdigit())
    if version < KERNEL_FLOOR:
        return Finding("kernel", CheckState.FAILED, detail, "use kernel 5.15 or newer, with BTF")
    if version < KERNEL_TESTED:
        return Finding("kernel", CheckState.OK, f"{detail}; older than 6.1, the oldest on which this is tested")
    return Finding("kernel", CheckState.OK, detail)


def _btf() -> Finding:
    if loader.BTF.exists():
        return Finding("BTF", CheckState.OK, f"{loader.BTF}, {loader.BTF.stat().st_size:,} bytes")
    return Finding("BTF", CheckState.FAILED, f"no {loader.BTF}", "use a kernel built with CONFIG_DEBUG_INFO_BTF=y")


def _capabilities() -> Finding:
    missing = [need for need in NEEDS if not capabilities.has(need.capability)]
    if not missing:
        return Finding("capabilities", CheckState.OK, ", ".join(need.capability.label for need in NEEDS))
    detail = "; ".join(f"without {need.capability.label} {need.cost}" for need in missing)
    state = CheckState.FAILED if any(need.is_vital for need in missing) else CheckState.ABSENT
    return Finding("capabilities", state, detail, "run with sudo, or add them: docs/security.md says what each is for")


def _libbpf() -> Finding:
    try:
        return Finding("libbpf", CheckState.OK, Libbpf().version())
    except NotPossibleHere as error:
        return Finding("libbpf", CheckState.FAILED, str(error), error.remedy)


def _objects() -> Finding:
    missing = [f"{subject}.bpf.o" for subject in SUBJECTS if not (OBJECTS_DIR / f"{subject}.bpf.o").exists()]
    if missing:
        return Finding("BPF objects", CheckState.FAILED, f"not built: {', '.join(missing)}", "run `make build`")
    return Finding("BPF objects", CheckState.OK, ", ".join(f"{subject}.bpf.o" for subject in SUBJECTS))


def _return_probes(config: Config) -> Finding:
    """Whether a job under a seccomp filter survives them here, tried out on a child; and what is lost without them."""
    subject = "return probes"
    if config.returns == "never":
        return Finding(
            subject,
            CheckState.ABSENT,
            f"left out by --probes.returns=never: {hazards.WITHOUT_RETURNS}",
            "leave --probes.returns at auto",
        )
    judgement = hazards.judge_returns()
    if judgement.is_safe:
        return Finding(subject, CheckState.OK, judgement.why)
    if config.returns == "always":
        detail = f"{judgement.why}; they are used all the same, as --probes.returns=always says"
        return Finding(subject, CheckState.ABSENT, detail, "use --probes.returns=auto unless no job has a filter")
    detail = f"left out: {judgement.why}; {hazards.WITHOUT_RETURNS}"
    return Finding(subject, CheckState.ABSENT, detail, hazards.RETURNS_REMEDY)


def _arm64_probes(config: Config, machine: str) -> Iterator[Finding]:
    if not hazards.may_single_step_wrongly(machine):
        return
    subject = "arm64 probes"
    if config.probes_on_arm64:
        remedy = "watch the jobs, or leave --probes.on-arm64 out"
        yield Finding(subject, CheckState.ABSENT, f"{hazards.ARM64_FAULT}; they are used all the same", remedy)
    else:
        yield Finding(
            subject, CheckState.ABSENT, f"nothing is probed: {hazards.ARM64_FAULT}", "--probes.on-arm64 probes even so"
        )


def _programs(config: Config, *, with_returns: bool) -> Finding:
    wanted = None if config.attach_kind == "auto" else AttachKind(config.attach_kind)
    collectors = config.collectors
    if not with_returns:
        collectors = tuple(name for name in collectors if name in hazards.COLLECTORS_WITHOUT_RETURNS)
        if "cuda" not in collectors:
            detail = "nothing could be told without return probes while the cuda collector is off"
            return Finding("BPF programs", CheckState.FAILED, detail, "leave --collector.cuda on")
    try:
        kernel = loader.load(wanted=wanted, subjects=loader.subjects_of(collectors), with_returns=with_returns)
    except ExporterError as error:
        return Finding("BPF programs", CheckState.FAILED, str(error), error.remedy or "see the kernel's log")
    try:
        lacking = {loader.subject_of(failure) for failure in kernel.failures}
        if lacking and lacking <= set(loader.OPTIONAL):
            costs = "; ".join(loader.OPTIONAL[subject] for subject in sorted(lacking))
            return Finding(
                "BPF programs", CheckState.ABSENT, f"this kernel has not every tracepoint: {costs}", "none needed"
            )
        if lacking:
            reasons = "; ".join(f"{name}: {failure}" for name, failure in kernel.failures.items())
            return Finding(
                "BPF programs", CheckState.FAILED, reasons, "report this with the output of `check --format json`"
            )
        means = kernel.attach_kind if with_returns else f"{kernel.attach_kind}, entries alone"
        return Finding("BPF programs", CheckState.OK, f"{len(kernel.programs)} load, functions probed by {means}")
    finally:
        kernel.close()


def _mapping_watch() -> Finding:
    try:
        MappingWatch(MARKS).close()
    except ExporterError as error:
        return Finding(
            "perf events", CheckState.ABSENT, f"{error}: new libraries are found only by walking /proc", error.remedy
        )
    return Finding("perf events", CheckState.OK, "new libraries are seen as they are mapped")


def _tracefs() -> Finding:
    for path in (Path("/sys/kernel/tracing"), Path("/sys/kernel/debug/tracing")):
        if (path / "events").exists():
            return Finding("tracefs", CheckState.OK, str(path))
    remedy = "mount -t tracefs tracefs /sys/kernel/tracing"
    return Finding("tracefs", CheckState.ABSENT, "not mounted; not needed for uprobes on this kernel", remedy)


def _driver() -> Finding:
    version = Path("/proc/driver/nvidia/version")
    try:
        return Finding(
            "NVIDIA driver", CheckState.OK, version.read_text(encoding="utf-8", errors="replace").splitlines()[0]
        )
    except (OSError, IndexError):
        remedy = "to try it out without a GPU: `gpu-stall-exporter demo`"
        return Finding("NVIDIA driver", CheckState.ABSENT, "not loaded", remedy)


def _nvml(config: Config, sampler: GpuSampler) -> Finding:
    """What the driver tells of GPUs, asked once. Calls that hang are not waited for."""
    subject = "NVML"
    if "device" not in config.collectors:
        return Finding(subject, CheckState.ABSENT, "not asked, as --collector.device=false says", "leave it on")
    sampler.round()
    sampler.stop()
    if sampler.absent_reason:
        detail = f"{sampler.absent_reason}; GPUs are not told of, jobs are"
        return Finding(
            subject,
            CheckState.ABSENT,
            detail,
            "in a container: give it the driver's library, docs/deployment.md says how",
        )
    known = sampler.reading().records
    answering = [one.facts for one in known if one.sample is not None]
    if len(answering) < len(known) or not known:
        detail = sampler.last_failure or "the driver counts no GPU"
        return Finding(
            subject,
            CheckState.ABSENT,
            f"{len(answering)} of {len(known)} GPUs answer: {detail}",
            "see the kernel's log",
        )
    models = ", ".join(dict.fromkeys(one.model for one in answering))
    return Finding(subject, CheckState.OK, f"driver {answering[0].driver_version}, {len(answering)} GPUs: {models}")


def _libraries(config: Config) -> Iterator[Finding]:
    """One row for each library file that some process maps."""
    processes = Processes(config.procfs)
    seen: set[tuple[int, int, bytes]] = set()
    for tgid in processes.tgids():
        try:
            mapped = libraries.find(processes, tgid)
        except (ProcessGone, NotPossibleHere):
            continue
        for library in mapped:
            key = (library.mapping.device, library.mapping.inode, library.mapping.path)
            if key not in seen:
                seen.add(key)
                yield _library(processes, tgid, library)
    if not seen:
        yield Finding(
            "libraries", CheckState.ABSENT, "no process uses CUDA or NCCL now", "start a job; it is found by itself"
        )


def _library(processes: Processes, tgid: int, library: MappedLibrary) -> Finding:
    subject = f"{library.kind.value} library"
    found = libraries.inspect(processes, tgid, library)
    if isinstance(found, SkippedLibrary):
        return Finding(subject, CheckState.ABSENT, found.detail, "it will not be probed")
    api = API_OF[library.kind]
    with found:
        symbols = tuple(sorted(found.elf.symbol_offsets(wanted_symbols(api))))
    operations = [operation for operation in OPERATIONS if operation.api is api]
    present = sum(any(symbol in symbols for symbol in operation.symbols()) for operation in operations)
    detail = f"{library.mapping.shown_path}: {present} of {len(operations)} operations, {len(symbols)} functions"
    if not symbols:
        return Finding(subject, CheckState.ABSENT, detail, "it will not be probed")
    return Finding(subject, CheckState.OK, detail, symbols=symbols)


def _bcc() -> Finding:
    """In the distribution's own interpreter; PyPI's package of that name is an unrelated one."""
    try:
        probe = subprocess.run(
            [SYSTEM_PYTHON, "-I", "-c", _BCC_PROBE], capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return Finding(
            "bcc",
            CheckState.ABSENT,
            "whoever makes a stuck call is told by file and offset, not by function",
            "apt-get install python3-bpfcc",
        )
    return Finding(
        "bcc", CheckState.OK, f"{probe.stdout.strip()} in {SYSTEM_PYTHON}: names the functions of stuck threads"
    )


def _history(config: Config) -> Finding:
    """Nothing is written."""
    if config.history_path is None:
        return Finding(
            "history",
            CheckState.ABSENT,
            "none is kept, as --history.path=none says",
            "leave --history.path out: `explain` reads it",
        )
    try:
        file_guard.look(config.history_path)
    except file_guard.Unusable as error:
        return Finding("history", CheckState.ABSENT, str(error), error.remedy or "mend that; `run` tries on")
    bounds = (
        f"{config.history_max_bytes / (1 << 20):.3g} MiB and {config.history_retention_seconds / 3600:.3g} h at most"
    )
    return Finding("history", CheckState.OK, f"{config.history_path}: {bounds}")


def _ports(config: Config) -> Iterator[Finding]:
    if config.with_systemd_sockets:
        yield Finding("port", CheckState.OK, "whichever systemd holds")
        return
    for address in config.listen_addresses:
        name = listeners.shown(*address)
        try:
            listeners.listening([address])[0].close()
        except BadInput as error:
            yield Finding("port", CheckState.FAILED, str(error), error.remedy)
            continue
        yield Finding("port", CheckState.OK, f"{name} is free")


def _web_config(config: Config) -> Iterator[Finding]:
    path = config.web_config_file
    if path is None:
        return
    try:
        gate = AccessControl(path).gate()
    except BadInput as error:
        yield Finding("web config", CheckState.FAILED, str(error), error.remedy)
        return
    said = [
        "TLS" if gate.context else "no TLS",
        f"{len(gate.config.users)} users" if gate.config.users else "no users",
        "a rate limit" if gate.bucket else "no rate limit",
    ]
    yield Finding("web config", CheckState.OK, f"{path}: {', '.join(said)}")


def _receivers(config: Config) -> Iterator[Finding]:
    """Whether each OTLP receiver takes a request without a point. One that is down now keeps `run` from nothing."""
    if not config.receivers:
        yield Finding("push", CheckState.ABSENT, "no OTLP receiver is configured", "set --otlp.endpoint to push")
        return
    from exporter.output.otlp import chain_exporter, metric_exporter  # noqa: PLC0415 - 10 MiB that only a push needs

    for receiver in config.receivers:
        result = metric_exporter.probe(receiver)
        yield _answer(f"push {receiver.name}", receiver, result, _PUSH_REMEDY)
        if result.may_pass or "chains" not in config.collectors:
            continue  # whoever is not there need not be asked three times
        for signal, target in ((LOGS, receiver.logs), (TRACES, receiver.traces)):
            if target is not None:
                remedy = f"--otlp.{signal}=false if this receiver takes none"
                yield _answer(f"push {receiver.name} {signal}", target, chain_exporter.probe(target, signal), remedy)


def _answer(subject: str, target: Target, result: PushResult, remedy: str) -> Finding:
    """What a receiver has said to an empty request."""
    if result.is_taken:
        return Finding(subject, CheckState.OK, f"{target.shown_url} takes {target.protocol}")
    detail = f"{target.shown_url}: {result.outcome.value.replace('_', ' ')}: {result.detail}"
    return Finding(subject, CheckState.ABSENT, detail, remedy)
