"""BPF programs: libbpf, the object files, the kinds of probes that are safe here, and whether all of it loads."""

from __future__ import annotations

import mmap
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TypeVar

from exporter.checks.check import Check, CheckState
from exporter.config import Config
from exporter.config.probes import ReturnProbes
from exporter.errors import ExporterError, NotPossibleHere
from exporter.host import privileges
from exporter.host.libraries import MARKS
from exporter.kernel import hazards, loader, probes
from exporter.kernel.apis import SUBJECT_OF
from exporter.kernel.event_source import EventSource
from exporter.kernel.libbpf import Libbpf
from exporter.kernel.loader import OBJECTS_DIR, SUBJECTS, Kernel
from exporter.kernel.mapping_watch import MappingWatch
from exporter.kernel.operations import wanted_symbols
from exporter.probes import event_opener

T = TypeVar("T")

_PROGRAMS = "BPF programs"


def check(config: Config) -> Iterator[Check]:
    """libbpf, objects, return probes, probes on arm64, programs, perf events."""
    yield _libbpf()
    yield _objects()
    returns = return_probes(config)
    yield returns
    yield from arm64_probes(config, platform.machine())
    yield _programs(config, with_returns=returns.state is CheckState.OK or config.probes.returns is ReturnProbes.ALWAYS)
    yield _perf_events(config)


def _libbpf() -> Check:
    try:
        return Check("libbpf", CheckState.OK, Libbpf().version())
    except NotPossibleHere as error:
        return Check("libbpf", CheckState.FAILED, str(error), error.remedy)


def _objects() -> Check:
    missing = [f"{subject}.bpf.o" for subject in SUBJECTS if not (OBJECTS_DIR / f"{subject}.bpf.o").exists()]
    if missing:
        return Check("BPF objects", CheckState.FAILED, f"not built: {', '.join(missing)}", "run `make build`")
    return Check("BPF objects", CheckState.OK, ", ".join(f"{subject}.bpf.o" for subject in SUBJECTS))


def return_probes(config: Config) -> Check:
    """Whether a job under a seccomp filter survives them, tested on a child process."""
    name = "return probes"
    if config.probes.returns is ReturnProbes.NEVER:
        found = f"disabled by --probes.returns=never: {hazards.WITHOUT_RETURNS}"
        return Check(name, CheckState.WARNING, found, "set --probes.returns=auto")
    judgement = hazards.judge_returns()
    if judgement.is_safe:
        return Check(name, CheckState.OK, judgement.why)
    if config.probes.returns is ReturnProbes.ALWAYS:
        found = f"{judgement.why}; used anyway because of --probes.returns=always"
        return Check(name, CheckState.WARNING, found, "set --probes.returns=auto unless no job has a seccomp filter")
    found = f"disabled: {judgement.why}; {hazards.WITHOUT_RETURNS}"
    return Check(name, CheckState.WARNING, found, hazards.RETURNS_REMEDY)


def arm64_probes(config: Config, machine: str) -> Iterator[Check]:
    """Nothing on other machines."""
    if not hazards.may_single_step_wrongly(machine):
        return
    name = "arm64 probes"
    if config.probes.on_arm64:
        found = f"{hazards.ARM64_FAULT}; used anyway because of --probes.on-arm64"
        yield Check(name, CheckState.WARNING, found, "watch the jobs for crashes, or remove --probes.on-arm64")
    else:
        found = f"nothing is probed: {hazards.ARM64_FAULT}"
        yield Check(name, CheckState.WARNING, found, "set --probes.on-arm64 to probe anyway")


def _programs(config: Config, *, with_returns: bool) -> Check:
    collectors = config.collectors.enabled
    if not with_returns:
        collectors = tuple(name for name in collectors if name in hazards.COLLECTORS_WITHOUT_RETURNS)
        if "cuda" not in collectors:
            found = "without return probes only the cuda collector has metrics, and it is off"
            return Check(_PROGRAMS, CheckState.FAILED, found, "leave --collector.cuda on")
    try:
        return _with_rights_of_run(config, partial(_loaded, config, collectors, with_returns=with_returns))
    except ExporterError as error:
        return Check(_PROGRAMS, CheckState.FAILED, str(error), error.remedy or "read the kernel log (dmesg)")


def _with_rights_of_run(config: Config, tried: Callable[[EventSource], T]) -> T:
    """What a function returns in a thread with the capabilities of `run`. Raises ExporterError."""
    with_namespaces = config.collectors.network_namespaces
    with ExitStack() as resources:
        event_source = event_opener.prepared(config.probes.attach, resources, with_network_namespaces=with_namespaces)
        return privileges.after_drop(partial(tried, event_source), with_network_namespaces=with_namespaces)


def _loaded(config: Config, collectors: Sequence[str], event_source: EventSource, *, with_returns: bool) -> Check:
    """Raises ExporterError."""
    kernel = loader.load(
        wanted=config.probes.attach,
        subjects=loader.subjects_of(collectors),
        with_returns=with_returns,
        event_source=event_source,
    )
    try:
        failed = {loader.subject_of(failure) for failure in kernel.failures}
        if failed and failed <= set(loader.OPTIONAL):
            costs = "; ".join(loader.OPTIONAL[subject] for subject in sorted(failed))
            refused = next((one for one in kernel.failures.values() if one.remedy), None)
            if refused is not None:
                return Check(_PROGRAMS, CheckState.WARNING, f"{refused}: {costs}", refused.remedy)
            return Check(_PROGRAMS, CheckState.WARNING, f"this kernel lacks tracepoints: {costs}", "no action needed")
        if failed:
            reasons = "; ".join(f"{name}: {failure}" for name, failure in kernel.failures.items())
            return Check(
                _PROGRAMS, CheckState.FAILED, reasons, "report this, with a file of `check --support-bundle=FILE`"
            )
        _probe(kernel)
        kind = kernel.attach_kind if with_returns else f"{kernel.attach_kind}, entries only"
        return Check(_PROGRAMS, CheckState.OK, f"{len(kernel.programs)} programs load, functions are probed by {kind}")
    finally:
        kernel.close()


def _probe(kernel: Kernel) -> None:
    """Probe a function of each API at the beginning of a file that nothing runs. Raises KernelRefused."""
    with os.fdopen(os.memfd_create("probed"), "wb", buffering=0) as file:
        file.write(bytes(mmap.PAGESIZE))
        subjects = {loader.subject_of(name) for name in kernel.programs}
        for api, subject in SUBJECT_OF.items():
            if subject in subjects:
                probes.attach(kernel, api, file.fileno(), {next(iter(wanted_symbols(api))): 0}).detach()


def _perf_events(config: Config) -> Check:
    try:
        _with_rights_of_run(config, lambda event_source: MappingWatch(MARKS, event_source=event_source).close())
    except ExporterError as error:
        found = f"{error}: new libraries are found by scanning /proc only"
        return Check("perf events", CheckState.WARNING, found, error.remedy)
    return Check("perf events", CheckState.OK, "new libraries are found as soon as they are mapped")
