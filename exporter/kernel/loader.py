"""Loads the kernel programs, and chooses the best way to attach uprobes that this kernel supports.

In: the objects built from bpf/*.bpf.c, map capacities. Out: a Kernel with programs to attach, maps to read, and failures.
Objects share maps of equal name: the object that is loaded first creates them.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from exporter.config.probes import AttachKind
from exporter.errors import KernelRefused, NotPossibleHere
from exporter.kernel import abi, perf_events
from exporter.kernel import libbpf as bpf
from exporter.kernel.apis import CALL_SUBJECTS
from exporter.kernel.attachment_numbers import AttachmentNumbers
from exporter.kernel.capacities import capacity, machine_bytes
from exporter.kernel.event_source import OWN_EVENTS, EventSource
from exporter.kernel.facts import PID_NAMESPACE_OF_MACHINE, KernelFacts, kernel_facts
from exporter.kernel.libbpf import Libbpf, Ring
from exporter.kernel.maps import KernelMap
from exporter.kernel.perf_events import PerCpu
from exporter.kernel.share_rows import TABLES, write_capacities
from exporter.kernel.thread_rows import IDLE_NS

OBJECTS_DIR = Path(__file__).parent / "objects"
SUBJECTS_OF: dict[str, tuple[str, ...]] = {
    "cuda": ("cuda",),
    "allocator": ("cuda",),
    "graph": ("cuda",),
    "launch": ("cuda",),
    "memcpy": ("cuda",),
    "sched": ("sched", "reclaim", "fault", "interrupt", "threads"),
    "chains": ("stacks", "python"),
    "engine": (),
    "memory": ("memory",),
    "cpu": (),
    "process": (),
    "network": ("network",),
    "device": (),
}
"""Collector -> the objects that it needs."""
ON_REQUEST = {"pages": "memory"}
"""Expensive objects that are loaded only if requested -> the collectors they belong to."""
ALWAYS = ("process", "mappings")
"""Starts and ends of processes, and the files they run: needed by all collectors."""
SUBJECTS = tuple(
    dict.fromkeys((*ALWAYS, *CALL_SUBJECTS, *(one for subjects in SUBJECTS_OF.values() for one in subjects), "block"))
)
OPTIONAL = {"fault": "time in major page faults not spent asleep counts as running"}
"""Objects whose events not every architecture has -> what is missing without them."""
_ON_EVENTS = {"fault_end": perf_events.MAJOR_FAULTS}
"""Programs that run at perf events, on every CPU."""
_ON_ONE_TASK = ("mappings_", "stacks_", "python_")
"""Prefixes of iterators that run on one task at a time."""
_ON_REQUEST = "process_share"
"""The program that request_share() runs."""
_SHARE_ARGUMENTS = 4
HASH_KEY_BYTES = 8 * abi.HASH_KEY_WORDS
NO_KEY = bytes(HASH_KEY_BYTES)
"""Without a key, every node makes the same hash of a communicator."""
BTF = bpf.VMLINUX
_BUILD = "run `make build`"


def subjects_of(collectors: Iterable[str], requested: Iterable[str] = ()) -> tuple[str, ...]:
    """The objects to load for these collectors. requested: of ON_REQUEST."""
    names = tuple(collectors)
    of_collectors = (subject for name in names for subject in SUBJECTS_OF.get(name, (name,)))
    return (*ALWAYS, *of_collectors, *(subject for subject in requested if ON_REQUEST[subject] in names))


def subject_of(failure: str) -> str:
    """The object of a key of Kernel.failures: `sched` for the object itself and for its program `sched_switch`."""
    return failure.partition("_")[0]


def collector_of(subject: str) -> str:
    """The collector that an object belongs to."""
    of_others = next((name for name, subjects in SUBJECTS_OF.items() if subject in subjects), subject)
    return ON_REQUEST.get(subject, of_others)


ENTRY_LABEL = "entry"
"""The attachment kind in metrics if only entries are probed."""


_ATTACH_TYPES = {
    AttachKind.SESSION: bpf.TRACE_UPROBE_SESSION,
    AttachKind.MULTI: bpf.TRACE_UPROBE_MULTI,
    AttachKind.SINGLE: 0,
}


@dataclass(slots=True)
class Kernel:
    """Loaded programs and open maps. close() undoes everything; the kernel does the same when the process dies.

    with_returns: whether returns of functions are probed. Without, calls are only counted, as they begin. event_source: for
    AttachKind.SINGLE.
    """

    libbpf: Libbpf
    attach_kind: AttachKind
    maps: dict[str, KernelMap]
    programs: dict[str, int]
    failures: dict[str, KernelRefused]
    with_returns: bool = True
    event_source: EventSource = OWN_EVENTS
    numbers: AttachmentNumbers = field(default_factory=AttachmentNumbers)
    _objects: list[int] = field(default_factory=list)
    _links: list[int] = field(default_factory=list)
    _iterators: dict[str, int] = field(default_factory=dict)
    _on_cpus: list[PerCpu[int]] = field(default_factory=list)
    _event_fd: int = -1

    @property
    def kind_label(self) -> str:
        """The attachment kind in metrics."""
        return self.attach_kind.value if self.with_returns else ENTRY_LABEL

    def open_events(self, receive: list[bytes]) -> Ring:
        """A reader that appends raw `struct event` records to `receive`."""
        return self.libbpf.open_ring(self._event_fd, receive.append)

    def iterate(self, name: str) -> bytes:
        """Run an iterator program; returns its output, empty if it is not loaded."""
        link = self._iterators.get(name)
        return self.libbpf.run_iterator(link) if link else b""

    def iterate_thread(self, name: str, tid: int) -> bytes:
        """Run an iterator program on one thread; returns its output, empty if it is not loaded. Raises KernelRefused."""
        program = self.programs.get(name)
        if program is None:
            return b""
        link = self.libbpf.attach_iterator(program, name, tid=tid)
        try:
            return self.libbpf.run_iterator(link)
        finally:
            self.libbpf.destroy_link(link)

    def request_share(self, *arguments: int) -> None:
        """Run the program that changes the shares of processes. arguments: a ShareRequest and what it is about."""
        program = self.programs.get(_ON_REQUEST)
        if program is not None:
            padded = (*arguments, *(0,) * _SHARE_ARGUMENTS)[:_SHARE_ARGUMENTS]
            self.libbpf.run(self.libbpf.program_fd(program), _ON_REQUEST, padded)

    def recursion_misses(self) -> dict[str, int]:
        """Program name -> runs that the kernel skipped, for every loaded program."""
        libbpf = self.libbpf
        return {name: libbpf.recursion_misses(libbpf.program_fd(one)) for name, one in self.programs.items()}

    def detach(self) -> None:
        """Detach the programs with a fixed attach point. Their maps can still be read."""
        while self._links:
            self.libbpf.destroy_link(self._links.pop())
        while self._on_cpus:
            self._on_cpus.pop().close()

    def follow_cpus(self) -> None:
        """Attach what runs at events of a CPU to CPUs that have come online. Raises KernelRefused, once for each of them."""
        for links in self._on_cpus:
            links.follow()

    def close(self) -> None:
        """Detach and unload."""
        self.detach()
        for link in self._iterators.values():
            self.libbpf.destroy_link(link)
        for handle in self._objects:
            self.libbpf.close_object(handle)
        self._iterators.clear()
        self._objects.clear()
        self.programs.clear()


def load(
    *,
    wanted: AttachKind | None = None,
    subjects: Sequence[str] = SUBJECTS,
    capacities: Mapping[str, int] | None = None,
    idle_ns: int = IDLE_NS,
    with_launches: bool = True,
    with_returns: bool = True,
    hash_key: bytes = NO_KEY,
    event_source: EventSource = OWN_EVENTS,
    objects_dir: Path = OBJECTS_DIR,
    btf: Path = BTF,
) -> Kernel:
    """Load the programs of `subjects` and attach those with a fixed attach point.

    wanted: the attachment kind; None: the best one that loads. capacities: max_entries by map name, for a map that is shared by
    owner what a single owner may have; those not named follow the machine. idle_ns: the part of a gap between calls beyond this
    length is idle. with_launches: whether launches will be probed. with_returns: False loads programs on entries only.
    hash_key: HASH_KEY_BYTES that the hashes of communicators depend on. The error of a subject goes to `failures`; the other
    subjects are not affected. Raises NotPossibleHere if no call subject loads, or if the objects were built from other sources.
    """
    try:
        btf.open("rb").close()
    except FileNotFoundError:
        raise NotPossibleHere(
            f"this kernel has no BTF at {btf}", remedy="use a kernel built with CONFIG_DEBUG_INFO_BTF"
        ) from None
    except OSError as error:
        raise NotPossibleHere(
            f"cannot read {btf}: {error.strerror}",
            remedy="a security module forbids it: see `dmesg`, `ausearch -m AVC`",
        ) from error
    libbpf = Libbpf()
    facts = kernel_facts(libbpf)
    capacities = {"cpu_runs": facts.cpus, **(capacities or {})}
    refusal = KernelRefused(f"this kernel cannot attach uprobes as {wanted}", remedy="use --probes.attach=auto")
    for kind in _kinds(wanted, with_returns=with_returns):
        if not _is_supported(libbpf, kind):
            continue
        kernel = Kernel(libbpf, kind, {}, {}, {}, with_returns, event_source)
        for subject in subjects:
            try:
                _load_subject(kernel, subject, objects_dir, capacities)
            except KernelRefused as error:
                kernel.failures[subject] = error
        loaded = [subject for subject in subjects if subject in CALL_SUBJECTS and subject not in kernel.failures]
        if loaded:
            start(kernel, facts, idle_ns=idle_ns, with_launches=with_launches, hash_key=hash_key)
            return kernel
        refusal = next(kernel.failures[subject] for subject in subjects if subject in CALL_SUBJECTS)
        kernel.close()
    raise refusal


def links_many(wanted: AttachKind | None) -> bool:
    """Whether a link has many functions, so that no perf event is opened. wanted: None for the best kind."""
    return wanted is not AttachKind.SINGLE and _is_supported(Libbpf(), wanted or AttachKind.MULTI)


def start(kernel: Kernel, facts: KernelFacts, *, idle_ns: int, with_launches: bool, hash_key: bytes = NO_KEY) -> None:
    """Write the settings of loaded programs, and attach those with a fixed attach point."""
    _write_settings(kernel, facts, idle_ns, with_launches=with_launches, hash_key=hash_key)
    write_capacities(kernel.maps)
    attach_fixed(kernel)


def _kinds(wanted: AttachKind | None, *, with_returns: bool) -> tuple[AttachKind, ...]:
    """The kinds to try, in this order. Entries alone need no session: a kernel that has sessions has uprobe_multi as well."""
    kinds = (wanted,) if wanted else tuple(AttachKind)
    if with_returns:
        return kinds
    return tuple(kind for kind in kinds if kind is not AttachKind.SESSION) or (AttachKind.MULTI,)


def _write_settings(kernel: Kernel, facts: KernelFacts, idle_ns: int, *, with_launches: bool, hash_key: bytes) -> None:
    pid_namespace = Path("/proc/self/ns/pid").stat().st_ino
    is_confined = pid_namespace != PID_NAMESPACE_OF_MACHINE
    majors = (*facts.gpu_majors, *(0,) * abi.GPU_MAJORS)[: abi.GPU_MAJORS]
    values = (pid_namespace, with_launches, idle_ns, facts.preempt_count_offset, facts.is_cpu_cgroup_v1)
    key_words = struct.unpack(f"={abi.HASH_KEY_WORDS}Q", hash_key[:HASH_KEY_BYTES].ljust(HASH_KEY_BYTES, b"\0"))
    loaded_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    row = abi.SETTINGS.pack(*values, *majors, is_confined, loaded_ns, os.getpid(), 0, *key_words)
    kernel.maps["settings"].put(abi.NUMBER.pack(0), row)


def _wanted_programs(kernel: Kernel, subject: str) -> dict[str, int] | None:
    """Program name -> expected attach type, for the programs of a call subject that are used; None for other subjects."""
    if subject not in CALL_SUBJECTS:
        return None
    return call_programs(subject, kernel.attach_kind, with_returns=kernel.with_returns)


def call_programs(subject: str, kind: AttachKind, *, with_returns: bool = True) -> dict[str, int]:
    """Program name -> expected attach type, in the order to attach: returns first, or a call could stay open."""
    attach_type = _ATTACH_TYPES[kind]
    if kind is AttachKind.SESSION:
        return {f"{subject}_session": attach_type}
    if not with_returns:
        return {f"{subject}_count": attach_type}
    return {f"{subject}_exit": attach_type, f"{subject}_enter": attach_type}


def object_name(subject: str, kind: AttachKind) -> str:
    """The file that is loaded for a subject. Programs for sessions have objects of their own."""
    is_session = subject in CALL_SUBJECTS and kind is AttachKind.SESSION
    return f"{subject}_session.bpf.o" if is_session else f"{subject}.bpf.o"


def _load_subject(kernel: Kernel, subject: str, objects_dir: Path, capacities: Mapping[str, int]) -> None:
    path = objects_dir / object_name(subject, kernel.attach_kind)
    if not path.exists():
        raise NotPossibleHere(f"the kernel program {path.name} is not built", remedy=_BUILD)
    load_object(kernel, path, _wanted_programs(kernel, subject), capacities)


def load_object(kernel: Kernel, path: Path, wanted: Mapping[str, int] | None, capacities: Mapping[str, int]) -> None:
    """Load one object into `kernel`. wanted: program name -> expected attach type; None: every program, as its section says.

    Raises KernelRefused; NotPossibleHere if the object lays rows out otherwise than abi.py.
    """
    try:
        _load_opened(kernel, path, wanted, capacities, without_modules=False)
    except KernelRefused:  # perhaps for lack of CAP_SYS_ADMIN: the kernel lacks a type that the object names
        _load_opened(kernel, path, wanted, capacities, without_modules=True)


def _load_opened(
    kernel: Kernel,
    path: Path,
    wanted: Mapping[str, int] | None,
    capacities: Mapping[str, int],
    *,
    without_modules: bool,
) -> None:
    libbpf = kernel.libbpf
    handle = libbpf.open_object(path, without_modules=without_modules)
    try:
        check_layouts(libbpf, handle, path.name)
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


def check_layouts(libbpf: Libbpf, handle: int, name: str) -> None:
    """Compare the rows of an opened object with abi.py, member by member. Raises NotPossibleHere where they differ."""
    for struct_name, offsets in libbpf.map_structs(handle):
        layout = getattr(abi, struct_name.upper(), None)
        if layout is not None and offsets != layout.offsets:
            raise NotPossibleHere(f"{name} and this exporter differ in struct {struct_name}", remedy=_BUILD)


def _share_maps(kernel: Kernel, handle: int, capacities: Mapping[str, int]) -> None:
    for name, one in kernel.libbpf.maps(handle).items():
        if name == "events" and kernel._event_fd >= 0:
            kernel.libbpf.reuse_map(one, kernel._event_fd)
        elif name in kernel.maps:
            kernel.libbpf.reuse_map(one, kernel.maps[name].fd)
        elif name in capacities:
            kernel.libbpf.set_max_entries(one, capacities[name] * (2 if name in TABLES else 1))
        else:
            _size_by_machine(kernel.libbpf, name, one)


def _size_by_machine(libbpf: Libbpf, name: str, one: int) -> None:
    declared = libbpf.map_shape(one)[2]
    wanted = capacity(name, declared, machine_bytes())
    if wanted != declared:
        libbpf.set_max_entries(one, wanted)


def _collect_maps(kernel: Kernel, handle: int) -> None:
    libbpf = kernel.libbpf
    for name, one in libbpf.maps(handle).items():
        if "." in name or name in kernel.maps:  # .rodata and the like are an object's own
            continue
        if name == "events":
            kernel._event_fd = libbpf.map_fd(one)
        else:
            kernel.maps[name] = KernelMap(libbpf, libbpf.map_fd(one), *libbpf.map_shape(one))


def _is_supported(libbpf: Libbpf, kind: AttachKind) -> bool:
    """Whether this kernel has links of this kind. Loading programs to find out would take ten times as long."""
    return kind is AttachKind.SINGLE or libbpf.knows_uprobe_links(_ATTACH_TYPES[kind])


def attach_fixed(kernel: Kernel) -> None:
    """Attach the programs with a fixed attach point."""
    calls = {name for subject in CALL_SUBJECTS for name in _wanted_programs(kernel, subject) or ()}
    for name, program in kernel.programs.items():
        try:
            if name in _ON_EVENTS:
                _attach_to_event(kernel, name)
            elif name in kernel._iterators:
                continue  # detach() leaves it attached
            elif name.startswith("threads_"):
                kernel._iterators[name] = kernel.libbpf.attach_iterator(program, name)
            elif name not in calls and name != _ON_REQUEST and not name.startswith(_ON_ONE_TASK):
                kernel._links.append(kernel.libbpf.attach(program, name))
        except KernelRefused as error:
            kernel.failures[name] = error


def _attach_to_event(kernel: Kernel, name: str) -> None:
    """Attach on all CPUs or on none."""

    def attach(cpu: int) -> int:
        fd = kernel.event_source.software(_ON_EVENTS[name], cpu, period=1)
        return kernel.libbpf.attach_perf_event(kernel.programs[name], name, fd)

    kernel._on_cpus.append(PerCpu(attach, kernel.libbpf.destroy_link))
