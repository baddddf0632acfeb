"""Opens and loads the kernel programs, and picks the best way to attach uprobes that this kernel has.

In: the objects built from bpf/*.bpf.c, map capacities. Out: a Kernel with programs to attach, maps to read, and what failed.
Objects share maps of equal name: whichever is loaded first creates them.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from exporter.errors import KernelRefused, NotPossibleHere
from exporter.kernel import abi
from exporter.kernel import libbpf as bpf
from exporter.kernel.facts import KernelFacts, kernel_facts
from exporter.kernel.libbpf import Libbpf, Ring
from exporter.kernel.maps import KernelMap
from exporter.units import NANOSECONDS

OBJECTS_DIR = Path(__file__).parent / "objects"
SUBJECTS_OF = {"sched": ("sched", "reclaim", "interrupt", "threads")}
"""Collector -> its objects, where they are not one of the same name."""
SUBJECTS = ("process", "cuda", "nccl", *SUBJECTS_OF["sched"])
IDLE_SECONDS = 60
CALL_SUBJECTS = ("cuda", "nccl")
BTF = Path("/sys/kernel/btf/vmlinux")


def subjects_of(collectors: Iterable[str]) -> tuple[str, ...]:
    """The objects to load for these collectors; who comes and goes is needed by all of them."""
    return ("process", *(subject for name in collectors for subject in SUBJECTS_OF.get(name, (name,))))


class AttachKind(enum.StrEnum):
    """How function entries and returns are probed, best first."""

    SESSION = "session"  # one program for both, one link a library; kernel 6.13
    MULTI = "multi"  # two links a library; kernel 6.6
    SINGLE = "single"  # two perf events a function; every kernel


@dataclass(slots=True)
class Kernel:
    """Loaded programs and open maps. close() undoes everything; the kernel does so by itself when the process dies."""

    libbpf: Libbpf
    attach_kind: AttachKind
    maps: dict[str, KernelMap]
    programs: dict[str, int]
    failures: dict[str, KernelRefused]
    _objects: list[int] = field(default_factory=list)
    _links: list[int] = field(default_factory=list)
    _iterators: dict[str, int] = field(default_factory=dict)
    _event_fd: int = -1

    def open_events(self, receive: list[bytes]) -> Ring:
        """A reader that appends raw `struct event` records to `receive`."""
        return self.libbpf.open_ring(self._event_fd, receive.append)

    def iterate(self, name: str) -> bytes:
        """Run an iterator program; returns what it wrote, nothing when it is not loaded."""
        link = self._iterators.get(name)
        return self.libbpf.run_iterator(link) if link else b""

    def recursion_misses(self) -> dict[str, int]:
        """Program name -> runs the kernel left out, for every loaded program."""
        libbpf = self.libbpf
        return {name: libbpf.recursion_misses(libbpf.program_fd(one)) for name, one in self.programs.items()}

    def close(self) -> None:
        """Detach and unload."""
        for link in (*self._links, *self._iterators.values()):
            self.libbpf.destroy_link(link)
        for handle in self._objects:
            self.libbpf.close_object(handle)
        self._links.clear()
        self._iterators.clear()
        self._objects.clear()
        self.programs.clear()


def load(
    *,
    wanted: AttachKind | None = None,
    subjects: Sequence[str] = SUBJECTS,
    capacities: Mapping[str, int] | None = None,
    idle_ns: int = IDLE_SECONDS * NANOSECONDS,
    objects_dir: Path = OBJECTS_DIR,
    btf: Path = BTF,
) -> Kernel:
    """Load the programs of `subjects` and attach those with a fixed place in the kernel.

    wanted: force an attachment kind; None takes the best that loads. capacities: max_entries by map name. idle_ns: a gap
    between calls that is longer is idle from then on.
    A subject that fails stands in `failures` and costs only itself. Raises NotPossibleHere when nothing could be loaded.
    """
    if not btf.exists():
        raise NotPossibleHere(
            f"this kernel has no BTF at {btf}", remedy="use a kernel built with CONFIG_DEBUG_INFO_BTF"
        )
    libbpf = Libbpf()
    facts = kernel_facts(libbpf)
    capacities = {"cpu_runs": facts.cpus, **(capacities or {})}
    refusal = KernelRefused(f"this kernel cannot attach uprobes as {wanted}", remedy="use --probes.attach=auto")
    for kind in (wanted,) if wanted else tuple(AttachKind):
        kernel = Kernel(libbpf, kind, {}, {}, {})
        for subject in subjects:
            try:
                _load_subject(kernel, subject, objects_dir, capacities)
            except KernelRefused as error:
                kernel.failures[subject] = error
        loaded = [subject for subject in subjects if subject in CALL_SUBJECTS and subject not in kernel.failures]
        if loaded and _is_supported(kernel, loaded[0]):
            _tell_settings(kernel, facts, idle_ns)
            attach_fixed(kernel)
            return kernel
        if not loaded:
            refusal = next(kernel.failures[subject] for subject in subjects if subject in CALL_SUBJECTS)
        kernel.close()
    raise refusal


def _tell_settings(kernel: Kernel, facts: KernelFacts, idle_ns: int) -> None:
    """Before anything is attached."""
    pid_namespace = Path("/proc/self/ns/pid").stat().st_ino
    majors = (*facts.gpu_majors, *(0,) * abi.GPU_MAJORS)[: abi.GPU_MAJORS]
    row = abi.SETTINGS.pack(pid_namespace, 0, idle_ns, facts.preempt_count_offset, facts.is_cpu_cgroup_v1, *majors, 0)
    kernel.maps["settings"].put(abi.NUMBER.pack(0), row)


def _wanted_programs(subject: str, kind: AttachKind) -> dict[str, int] | None:
    """Program name -> expected attach type, of the programs of a call subject that `kind` uses; None for other subjects."""
    if subject not in CALL_SUBJECTS:
        return None
    return call_programs(subject, kind)


def call_programs(subject: str, kind: AttachKind) -> dict[str, int]:
    """Program name -> expected attach type."""
    if kind is AttachKind.SESSION:
        return {f"{subject}_session": bpf.TRACE_UPROBE_SESSION}
    attach_type = bpf.TRACE_UPROBE_MULTI if kind is AttachKind.MULTI else 0
    return {f"{subject}_enter": attach_type, f"{subject}_exit": attach_type}


def _load_subject(kernel: Kernel, subject: str, objects_dir: Path, capacities: Mapping[str, int]) -> None:
    path = objects_dir / f"{subject}.bpf.o"
    if not path.exists():
        raise NotPossibleHere(f"the kernel program {path.name} is not built", remedy="run `make build`")
    load_object(kernel, path, _wanted_programs(subject, kernel.attach_kind), capacities)


def load_object(kernel: Kernel, path: Path, wanted: Mapping[str, int] | None, capacities: Mapping[str, int]) -> None:
    """Load one object into `kernel`. wanted: program name -> expected attach type; None: every program as its section says."""
    libbpf = kernel.libbpf
    handle = libbpf.open_object(path)
    try:
        programs = libbpf.programs(handle)
        if wanted is not None:
            for name, program in programs.items():
                libbpf.set_autoload(program, name in wanted)
                libbpf.set_attach_type(program, wanted.get(name, 0))
            programs = {name: programs[name] for name in wanted}
        _share_maps(kernel, handle, capacities)
        libbpf.load_object(handle, path.name)
    except BaseException:
        libbpf.close_object(handle)
        raise
    kernel._objects.append(handle)
    kernel.programs.update(programs)
    _collect_maps(kernel, handle)


def _share_maps(kernel: Kernel, handle: int, capacities: Mapping[str, int]) -> None:
    for name, one in kernel.libbpf.maps(handle).items():
        if name == "events" and kernel._event_fd >= 0:
            kernel.libbpf.reuse_map(one, kernel._event_fd)
        elif name in kernel.maps:
            kernel.libbpf.reuse_map(one, kernel.maps[name].fd)
        elif name in capacities:
            kernel.libbpf.set_max_entries(one, capacities[name])


def _collect_maps(kernel: Kernel, handle: int) -> None:
    libbpf = kernel.libbpf
    for name, one in libbpf.maps(handle).items():
        if "." in name or name in kernel.maps:  # .rodata and the like are an object's own
            continue
        if name == "events":
            kernel._event_fd = libbpf.map_fd(one)
        else:
            kernel.maps[name] = KernelMap(libbpf, libbpf.map_fd(one), *libbpf.map_shape(one))


def _is_supported(kernel: Kernel, subject: str) -> bool:
    """Whether links of this kind exist: `/` is no file to probe, and only a kernel that knows the kind says so (EBADF)."""
    if kernel.attach_kind is AttachKind.SINGLE:
        return True
    name, attach_type = next(iter(call_programs(subject, kernel.attach_kind).items()))
    return kernel.libbpf.knows_uprobe_links(kernel.libbpf.program_fd(kernel.programs[name]), attach_type)


def attach_fixed(kernel: Kernel) -> None:
    """Attach the programs whose place in the kernel their section names."""
    calls = {name for subject in CALL_SUBJECTS for name in call_programs(subject, kernel.attach_kind)}
    for name, program in kernel.programs.items():
        try:
            if name.startswith("threads_"):
                kernel._iterators[name] = kernel.libbpf.attach_iterator(program, name)
            elif name not in calls:
                kernel._links.append(kernel.libbpf.attach(program, name))
        except KernelRefused as error:
            kernel.failures[name] = error
