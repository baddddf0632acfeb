"""A typed binding to the system's libbpf.so.1, and to parts of bpf(2) that libbpf before 1.3 lacks.

No Python package on PyPI can attach a uprobe to a chosen file; this module binds only what the exporter calls. Every failure
becomes KernelRefused with the call, the errno and the last line that libbpf logged.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Callable, Iterator, Sequence
from ctypes import byref, c_bool, c_char_p, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path

from exporter.errors import KernelRefused, NotPossibleHere
from exporter.kernel.libbpf_library import RING_CALLBACK, LibbpfLibrary

BPF_LINK_CREATE = 28
TRACE_RAW_TP = 23
PERF_EVENT = 41
TRACE_UPROBE_MULTI = 48
TRACE_UPROBE_SESSION = 57
UPROBE_MULTI_RETURN = 1 << 0

_SYS_BPF = {"x86_64": 321, "aarch64": 280}
_PROG_TYPE_KPROBE = 2
_RETURN_0 = bytes.fromhex("b700000000000000 9500000000000000")  # r0 = 0; exit


VMLINUX = Path("/sys/kernel/btf/vmlinux")
"""Types of the kernel without its modules."""


class _OpenOptions(ctypes.Structure):
    """`struct bpf_object_open_opts` up to btf_custom_path; the rest is zero."""

    _fields_ = (
        ("sz", c_size_t),
        ("object_name", c_char_p),
        ("relaxed_maps", c_bool),
        ("pin_root_path", c_char_p),
        ("removed", c_uint32),
        ("kconfig", c_char_p),
        ("btf_custom_path", c_char_p),
    )


class _LoadOptions(ctypes.Structure):
    """`struct bpf_prog_load_opts` up to expected_attach_type; the rest is zero."""

    _fields_ = (("sz", c_size_t), ("attempts", c_int), ("expected_attach_type", c_int))


class _IteratorTarget(ctypes.Structure):
    """`union bpf_iter_link_info` of an iterator over tasks."""

    _fields_ = (("tid", c_uint32), ("tgid", c_uint32), ("pidfd", c_uint32), ("padding", c_uint32))


class _IteratorOptions(ctypes.Structure):
    """`struct bpf_iter_attach_opts`."""

    _fields_ = (("sz", c_size_t), ("link_info", c_void_p), ("link_info_len", c_uint32))


class _RunOptions(ctypes.Structure):
    """`struct bpf_test_run_opts`."""

    _fields_ = (
        ("sz", c_size_t),
        ("data_in", c_void_p),
        ("data_out", c_void_p),
        ("data_size_in", c_uint32),
        ("data_size_out", c_uint32),
        ("ctx_in", c_void_p),
        ("ctx_out", c_void_p),
        ("ctx_size_in", c_uint32),
        ("ctx_size_out", c_uint32),
        ("retval", c_uint32),
        ("repeat", c_int),
        ("duration", c_uint32),
        ("flags", c_uint32),
        ("cpu", c_uint32),
        ("batch_size", c_uint32),
    )


class _ProgramInfo(ctypes.Structure):
    """`struct bpf_prog_info` up to recursion_misses (kernel 5.12)."""

    _fields_ = (
        ("until_run_time", ctypes.c_ubyte * 192),
        ("run_time_ns", c_uint64),
        ("run_cnt", c_uint64),
        ("recursion_misses", c_uint64),
    )


class _PerfEventAttributes(ctypes.Structure):
    """`union bpf_attr` of BPF_LINK_CREATE for a perf event."""

    _fields_ = (
        ("prog_fd", c_uint32),
        ("target_fd", c_uint32),
        ("attach_type", c_uint32),
        ("flags", c_uint32),
        ("bpf_cookie", c_uint64),
    )


class _UprobeMultiAttributes(ctypes.Structure):
    """`union bpf_attr` of BPF_LINK_CREATE for a uprobe_multi or uprobe_session link."""

    _fields_ = (
        ("prog_fd", c_uint32),
        ("target_fd", c_uint32),
        ("attach_type", c_uint32),
        ("link_flags", c_uint32),
        ("path", c_uint64),
        ("offsets", c_uint64),
        ("ref_ctr_offsets", c_uint64),
        ("cookies", c_uint64),
        ("cnt", c_uint32),
        ("flags", c_uint32),
        ("tgid", c_uint32),
        ("padding", c_uint32),
    )


class Libbpf(LibbpfLibrary):
    """Objects, programs, links, maps and BTF. Handles are pointers that libbpf owns until they are closed here."""

    # ---- objects and programs

    def open_object(self, path: Path, *, without_modules: bool = False) -> int:
        """Open an object without loading it; returns its handle.

        without_modules: do not search the BTF of modules for types that the kernel lacks, which takes CAP_SYS_ADMIN. It costs
        the time and the memory of reading the kernel's BTF once more.
        """
        options = _OpenOptions(sz=ctypes.sizeof(_OpenOptions))
        if without_modules:
            options.btf_custom_path = str(VMLINUX).encode()
        handle = self._lib.bpf_object__open_file(str(path).encode(), byref(options))
        if not handle:
            raise self.refused(f"cannot open {path.name}")
        return int(handle)

    def load_object(self, handle: int, name: str) -> None:
        """Create the maps, and verify and load every program that set_autoload() has not excluded."""
        self._log.clear()
        self.checked(f"cannot load {name}", self._lib.bpf_object__load(handle))

    def close_object(self, handle: int) -> None:
        """Unload programs and maps that have no other references."""
        self._lib.bpf_object__close(handle)

    def programs(self, handle: int) -> dict[str, int]:
        """Program name -> handle."""
        return {
            self._lib.bpf_program__name(program).decode(): program
            for program in self._each(self._lib.bpf_object__next_program, handle)
        }

    def maps(self, handle: int) -> dict[str, int]:
        """Map name -> handle, .rodata and the like included."""
        return {
            self._lib.bpf_map__name(one).decode(): one for one in self._each(self._lib.bpf_object__next_map, handle)
        }

    @staticmethod
    def _each(following: Callable[[int, int | None], int | None], handle: int) -> Iterator[int]:
        item: int | None = None
        while item := following(handle, item):
            yield item

    def set_autoload(self, program: int, wanted: bool) -> None:
        """Whether load_object() loads this program."""
        self._lib.bpf_program__set_autoload(program, wanted)

    def set_attach_type(self, program: int, attach_type: int) -> None:
        """Set the expected attach type, by which the kernel recognises sessions at load."""
        self._lib.bpf_program__set_expected_attach_type(program, attach_type)

    def program_fd(self, program: int) -> int:
        """Descriptor of a loaded program, owned by libbpf."""
        return int(self._lib.bpf_program__fd(program))

    def recursion_misses(self, program_fd: int) -> int:
        """Runs that the kernel skipped because the program was already running on that CPU."""
        info, size = _ProgramInfo(), c_uint32(ctypes.sizeof(_ProgramInfo))
        self.checked("cannot read program information", self._lib.bpf_obj_get_info_by_fd(program_fd, byref(info), size))
        return int(info.recursion_misses)

    def run(self, program_fd: int, name: str, arguments: Sequence[int]) -> None:
        """Run a raw tracepoint program once, with arguments instead of those of an event (kernel 5.10)."""
        context = (c_uint64 * len(arguments))(*arguments)
        options = _RunOptions(
            sz=ctypes.sizeof(_RunOptions), ctx_in=ctypes.addressof(context), ctx_size_in=ctypes.sizeof(context)
        )
        self.checked(f"cannot run {name}", self._lib.bpf_prog_test_run_opts(program_fd, byref(options)))

    # ---- links

    def attach(self, program: int, name: str) -> int:
        """Attach a program where its section says; returns a link handle for destroy_link()."""
        link = self._lib.bpf_program__attach(program)
        if not link:
            raise self.refused(f"cannot attach {name}")
        return int(link)

    def attach_iterator(self, program: int, name: str, *, tid: int = 0) -> int:
        """Make an iterator program runnable; returns a link handle for run_iterator() and destroy_link().

        tid: the only thread to visit; kernels before 6.1 visit every thread anyway.
        """
        target = _IteratorTarget(tid=tid)
        options = _IteratorOptions(ctypes.sizeof(_IteratorOptions), ctypes.addressof(target), ctypes.sizeof(target))
        link = self._lib.bpf_program__attach_iter(program, byref(options) if tid else None)
        if not link:
            raise self.refused(f"cannot attach {name}")
        return int(link)

    def run_iterator(self, link: int) -> bytes:
        """Run an attached iterator once; returns its output."""
        fd = self.checked("cannot run an iterator", self._lib.bpf_iter_create(self._lib.bpf_link__fd(link)))
        with os.fdopen(fd, "rb", buffering=0) as output:
            return output.readall() or b""

    def attach_perf_event(self, program: int, name: str, fd: int) -> int:
        """Run a program at every event; returns a link handle for destroy_link(), which also closes the event."""
        link = self._lib.bpf_program__attach_perf_event(program, fd)
        if not link:
            os.close(fd)
            raise self.refused(f"cannot attach {name}")
        return int(link)

    def destroy_link(self, link: int) -> None:
        self._lib.bpf_link__destroy(link)

    def knows_uprobe_links(self, attach_type: int) -> bool:
        """Whether this kernel has links of `attach_type`: only then a probe of a directory fails with EBADF."""
        options = _LoadOptions(sz=ctypes.sizeof(_LoadOptions), expected_attach_type=attach_type)
        program_fd = self._lib.bpf_prog_load(
            _PROG_TYPE_KPROBE, b"nothing", b"Dual BSD/GPL", _RETURN_0, len(_RETURN_0) // 8, byref(options)
        )
        if program_fd < 0:
            return False
        try:
            os.close(self.link_uprobes(program_fd, attach_type, "/", [0], [0]))
        except KernelRefused:
            return ctypes.get_errno() == errno.EBADF
        finally:
            os.close(program_fd)
        return True

    def link_uprobes(
        self, program_fd: int, attach_type: int, path: str, offsets: list[int], cookies: list[int], *, flags: int = 0
    ) -> int:
        """One link over many functions of one file; returns its descriptor, to be closed with os.close()."""
        count = len(offsets)
        c_offsets, c_cookies = (c_uint64 * count)(*offsets), (c_uint64 * count)(*cookies)
        c_path = ctypes.create_string_buffer(os.fsencode(path))
        attributes = _UprobeMultiAttributes(
            prog_fd=program_fd,
            attach_type=attach_type,
            path=ctypes.addressof(c_path),
            offsets=ctypes.addressof(c_offsets),
            cookies=ctypes.addressof(c_cookies),
            cnt=count,
            flags=flags,
        )
        return self._link(attributes, f"cannot attach {count} uprobes to {path}")

    def link_event(self, program_fd: int, event_fd: int, cookie: int) -> int:
        """One link over a perf event, which it holds; returns its descriptor, to be closed with os.close()."""
        attributes = _PerfEventAttributes(
            prog_fd=program_fd, target_fd=event_fd, attach_type=PERF_EVENT, bpf_cookie=cookie
        )
        return self._link(attributes, "cannot attach to a perf event")

    def _link(self, attributes: ctypes.Structure, failure: str) -> int:
        number = _SYS_BPF.get(platform.machine())
        if number is None:
            raise NotPossibleHere(f"machine {platform.machine()} is not supported", remedy="use x86-64 or arm64")
        fd = int(self._libc.syscall(number, BPF_LINK_CREATE, byref(attributes), ctypes.sizeof(attributes)))
        if fd < 0:
            raise self.refused(failure)
        return fd

    # ---- type information

    def kernel_types(self) -> BtfTypes:
        """The kernel's BTF; close() it after use, it takes megabytes."""
        handle = self._lib.btf__load_vmlinux_btf()
        if not handle:
            raise self.refused("cannot read the kernel's type information")
        return BtfTypes(self._lib, int(handle))

    def map_structs(self, handle: int) -> Iterator[tuple[str, dict[str, int]]]:
        """Each struct that is key or value of a map of an opened object, with the offsets of its members in bytes."""
        types = BtfTypes(self._lib, self._lib.bpf_object__btf(handle))
        numbers = {
            number(one)
            for one in self._each(self._lib.bpf_object__next_map, handle)
            for number in (self._lib.bpf_map__btf_key_type_id, self._lib.bpf_map__btf_value_type_id)
        }
        for number in numbers - {0}:
            found = types.struct(number)
            if found:
                yield found

    # ---- maps

    def map_fd(self, handle: int) -> int:
        """Descriptor of a created map, owned by libbpf."""
        return int(self._lib.bpf_map__fd(handle))

    def reuse_map(self, handle: int, fd: int) -> None:
        """Make an object that is not loaded yet use an existing map."""
        self.checked("cannot share a map", self._lib.bpf_map__reuse_fd(handle, fd))

    def set_max_entries(self, handle: int, entries: int) -> None:
        """Capacity of a map that is not created yet."""
        self.checked("cannot size a map", self._lib.bpf_map__set_max_entries(handle, entries))

    def map_shape(self, handle: int) -> tuple[int, int, int]:
        """Bytes of a key, bytes of a value, max_entries."""
        lib = self._lib
        return lib.bpf_map__key_size(handle), lib.bpf_map__value_size(handle), lib.bpf_map__max_entries(handle)

    def lookup(self, fd: int, key: bytes, value_size: int) -> bytes | None:
        """The value of `key`, or None."""
        value = ctypes.create_string_buffer(value_size)
        if self._lib.bpf_map_lookup_elem(fd, key, value) < 0:
            if ctypes.get_errno() == errno.ENOENT:
                return None
            raise self.refused("cannot read a map")
        return value.raw

    def update(self, fd: int, key: bytes, value: bytes) -> None:
        """Insert or replace."""
        self.checked("cannot write a map", self._lib.bpf_map_update_elem(fd, key, value, 0))

    def delete(self, fd: int, key: bytes) -> None:
        """Remove `key`; it may be gone already."""
        if self._lib.bpf_map_delete_elem(fd, key) < 0 and ctypes.get_errno() != errno.ENOENT:
            raise self.refused("cannot delete from a map")

    def lookup_batch(
        self, fd: int, position: ctypes.Array[ctypes.c_char], *, is_first: bool, keys: object, values: object, room: int
    ) -> tuple[int, bool]:
        """Read up to `room` entries into the buffers. position: keeps the place between calls.

        Returns (entries read, whether this was the end). (-1, False): one bucket has more than `room` entries; use a larger
        buffer.
        """
        count = c_uint32(room)
        result = self._lib.bpf_map_lookup_batch(
            fd, None if is_first else position, position, keys, values, byref(count), None
        )
        code = 0 if result >= 0 else ctypes.get_errno()
        if code == errno.ENOSPC:
            return -1, False
        if code not in (0, errno.ENOENT):
            raise self.refused("cannot read a map", code)
        return count.value, code == errno.ENOENT

    # ---- ring buffers

    def open_ring(self, map_fd: int, receive: Callable[[bytes], None]) -> Ring:
        """A reader of the ring buffer `map_fd`, which passes every record to `receive`."""
        return Ring(self, map_fd, receive)


_BTF_STRUCT, _BTF_DATASEC = 4, 15
_BTF_TYPE = struct.Struct("=III")  # name, info (number of members in the low 16 bits), size or type
_BTF_PART = struct.Struct("=III")  # a member: name, type, offset in bits; a variable of a section: type, offset, size


class BtfTypes:
    """Where members and variables are, by the BTF of the kernel or of an object."""

    def __init__(self, library: ctypes.CDLL, handle: int) -> None:
        self._lib = library
        self._handle = handle

    def _type(self, number: int) -> tuple[str, int, int]:
        """Name, number of parts, address of the first part."""
        address = self._lib.btf__type_by_id(self._handle, number)
        name, info, _ = _BTF_TYPE.unpack(ctypes.string_at(address, _BTF_TYPE.size))
        return self._name(name), info & 0xFFFF, address + _BTF_TYPE.size

    def struct(self, number: int) -> tuple[str, dict[str, int]] | None:
        """Name of a struct and the offsets of its members in bytes; None for any other type."""
        address = self._lib.btf__type_by_id(self._handle, number)
        _, info, _ = _BTF_TYPE.unpack(ctypes.string_at(address, _BTF_TYPE.size))
        if info >> 24 & 31 != _BTF_STRUCT:
            return None
        struct_name, count, first = self._type(number)
        return struct_name, {self._name(name): bits // 8 for name, _, bits in self._parts(first, count)}

    def _name(self, offset: int) -> str:
        return str(self._lib.btf__name_by_offset(self._handle, offset).decode())

    def _parts(self, address: int, count: int) -> Iterator[tuple[int, ...]]:
        for i in range(count):
            yield _BTF_PART.unpack(ctypes.string_at(address + i * _BTF_PART.size, _BTF_PART.size))

    def per_cpu_offsets(self, wanted: set[str]) -> dict[str, int]:
        """Variable -> offset in the per-CPU section, for those that exist."""
        section = self._lib.btf__find_by_name_kind(self._handle, b".data..percpu", _BTF_DATASEC)
        if section < 0:
            return {}
        _, count, first = self._type(section)
        named = ((self._type(variable)[0], offset) for variable, offset, _ in self._parts(first, count))
        return {name: offset for name, offset in named if name in wanted}

    def member_offset(self, struct_name: str, member: str) -> int | None:
        """Bytes from the beginning of a struct to a member, also inside its unnamed structs; None if it does not exist."""
        number = self._lib.btf__find_by_name_kind(self._handle, struct_name.encode(), _BTF_STRUCT)
        bits = self._member_bits(number, member) if number >= 0 else None
        return None if bits is None else bits // 8

    def _member_bits(self, number: int, member: str) -> int | None:
        _, count, first = self._type(number)
        for name, inner, bits in self._parts(first, count):
            if self._name(name) == member:
                return bits
            if not name and (within := self._member_bits(inner, member)) is not None:
                return bits + within
        return None

    def close(self) -> None:
        """Free the kernel's BTF; that of an object is freed with the object."""
        self._lib.btf__free(self._handle)


class Ring:
    """A consumer of one ring buffer. fileno() becomes readable when there are records to consume()."""

    def __init__(self, libbpf: Libbpf, map_fd: int, receive: Callable[[bytes], None]) -> None:
        self._lib = libbpf._lib

        def deliver(_context: int, data: int, size: int) -> int:
            receive(ctypes.string_at(data, size))
            return 0

        self._callback = RING_CALLBACK(deliver)
        handle = self._lib.ring_buffer__new(map_fd, self._callback, None, None)
        if not handle:
            raise libbpf.refused("cannot open the event ring")
        self._handle: int | None = int(handle)

    def fileno(self) -> int:
        """Descriptor for select(), owned by libbpf."""
        return int(self._lib.ring_buffer__epoll_fd(self._handle))

    def consume(self) -> None:
        """Deliver all pending records."""
        self._lib.ring_buffer__consume(self._handle)

    def close(self) -> None:
        """Free the reader; may be called twice."""
        if self._handle is not None:
            self._lib.ring_buffer__free(self._handle)
            self._handle = None
