"""libbpf.so.1 as a shared library: its functions with their types, its log, and failures as KernelRefused."""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, c_bool, c_char_p, c_int, c_long, c_size_t, c_uint32, c_uint64, c_void_p

from exporter.errors import KernelRefused, NotPossibleHere
from exporter.kernel.refusals import remedy_for

PRINT_CALLBACK = ctypes.CFUNCTYPE(c_int, c_int, c_char_p, c_void_p)
RING_CALLBACK = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t)
_LOG_LINES = 40
_WARNING = 0  # LIBBPF_WARN

_FUNCTIONS = (
    ("libbpf_set_print", c_void_p, (PRINT_CALLBACK,)),
    ("libbpf_version_string", c_char_p, ()),
    ("bpf_object__open_file", c_void_p, (c_char_p, c_void_p)),
    ("bpf_object__load", c_int, (c_void_p,)),
    ("bpf_object__close", None, (c_void_p,)),
    ("bpf_object__btf", c_void_p, (c_void_p,)),
    ("bpf_object__next_program", c_void_p, (c_void_p, c_void_p)),
    ("bpf_object__next_map", c_void_p, (c_void_p, c_void_p)),
    ("bpf_program__name", c_char_p, (c_void_p,)),
    ("bpf_program__fd", c_int, (c_void_p,)),
    ("bpf_program__set_autoload", c_int, (c_void_p, c_bool)),
    ("bpf_program__set_expected_attach_type", c_int, (c_void_p, c_int)),
    ("bpf_prog_load", c_int, (c_int, c_char_p, c_char_p, c_char_p, c_size_t, c_void_p)),
    ("bpf_program__attach", c_void_p, (c_void_p,)),
    ("bpf_program__attach_perf_event", c_void_p, (c_void_p, c_int)),
    ("bpf_link__destroy", c_int, (c_void_p,)),
    ("bpf_map__name", c_char_p, (c_void_p,)),
    ("bpf_map__fd", c_int, (c_void_p,)),
    ("bpf_map__btf_key_type_id", c_uint32, (c_void_p,)),
    ("bpf_map__btf_value_type_id", c_uint32, (c_void_p,)),
    ("bpf_map__reuse_fd", c_int, (c_void_p, c_int)),
    ("bpf_map__set_max_entries", c_int, (c_void_p, c_uint32)),
    ("bpf_map__max_entries", c_uint32, (c_void_p,)),
    ("bpf_map__key_size", c_uint32, (c_void_p,)),
    ("bpf_map__value_size", c_uint32, (c_void_p,)),
    ("bpf_map_lookup_elem", c_int, (c_int, c_void_p, c_void_p)),
    ("bpf_map_update_elem", c_int, (c_int, c_void_p, c_void_p, c_uint64)),
    ("bpf_map_delete_elem", c_int, (c_int, c_void_p)),
    ("bpf_map_lookup_batch", c_int, (c_int, c_void_p, c_void_p, c_void_p, c_void_p, POINTER(c_uint32), c_void_p)),
    ("bpf_obj_get_info_by_fd", c_int, (c_int, c_void_p, POINTER(c_uint32))),
    ("bpf_prog_test_run_opts", c_int, (c_int, c_void_p)),
    ("bpf_program__attach_iter", c_void_p, (c_void_p, c_void_p)),
    ("bpf_link__fd", c_int, (c_void_p,)),
    ("bpf_iter_create", c_int, (c_int,)),
    ("btf__load_vmlinux_btf", c_void_p, ()),
    ("btf__free", None, (c_void_p,)),
    ("btf__find_by_name_kind", c_int, (c_void_p, c_char_p, c_uint32)),
    ("btf__type_by_id", c_void_p, (c_void_p, c_uint32)),
    ("btf__name_by_offset", c_char_p, (c_void_p, c_uint32)),
    ("ring_buffer__new", c_void_p, (c_int, RING_CALLBACK, c_void_p, c_void_p)),
    ("ring_buffer__epoll_fd", c_int, (c_void_p,)),
    ("ring_buffer__consume", c_int, (c_void_p,)),
    ("ring_buffer__free", None, (c_void_p,)),
)
"""Name, result, arguments."""


class LibbpfLibrary:
    """One per process: libbpf's log callback is global. Raises NotPossibleHere when libbpf is not installed."""

    _installed: object = None
    """The callback that libbpf has, which must live as long as the process, also if its owner does not."""

    def __init__(self) -> None:
        try:
            self._lib = ctypes.CDLL("libbpf.so.1", use_errno=True)
        except OSError as error:
            raise NotPossibleHere("libbpf.so.1 is not installed", remedy="apt-get install libbpf1") from error
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._log: list[str] = []
        for name, result, arguments in _FUNCTIONS:
            function = getattr(self._lib, name)
            function.restype, function.argtypes = result, arguments
        self._libc.vsnprintf.argtypes = (c_char_p, c_size_t, c_char_p, c_void_p)
        self._libc.syscall.restype = c_long
        self._callback = PRINT_CALLBACK(self._on_print)
        self._lib.libbpf_set_print(self._callback)
        LibbpfLibrary._installed = self._callback

    def _on_print(self, level: int, pattern: bytes, arguments: int) -> int:
        if level != _WARNING:  # the others are about what succeeds
            return 0
        buffer = ctypes.create_string_buffer(2048)
        self._libc.vsnprintf(buffer, len(buffer), pattern, arguments)
        self._log.extend(buffer.value.decode(errors="replace").splitlines())
        del self._log[:-_LOG_LINES]
        return 0

    def refused(self, what: str, code: int = 0) -> KernelRefused:
        """The error to raise for a failed call. code: positive errno; 0: that of the thread."""
        code = code or ctypes.get_errno()
        logged = next((line for line in reversed(self._log) if "libbpf" in line), "")
        self._log.clear()  # a later failure may log nothing
        detail = f" ({logged.strip()})" if logged else ""
        remedy = remedy_for("bpf(2) or perf_event_open(2)", code)
        return KernelRefused(f"{what}: {os.strerror(code)}{detail}", remedy=remedy)

    def checked(self, what: str, result: int) -> int:
        """`result`, unless it is a negative errno."""
        if result < 0:
            raise self.refused(what, -result if result != -1 else 0)
        return result

    def version(self) -> str:
        """Such as `v1.1`."""
        return str(self._lib.libbpf_version_string().decode())
