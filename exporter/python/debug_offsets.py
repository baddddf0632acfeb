"""The offsets that an interpreter since 3.13 has at the beginning of _PyRuntime, for debuggers that read it from outside.

In: the memory of a process, the address of _PyRuntime. Out: offsets by name, or None without the cookie. The structure has no
length and no names of its own: a version says which numbers it has, and in which order.
Source: struct _Py_DebugOffsets in Include/internal/pycore_runtime.h (3.13) and pycore_debug_offsets.h (3.14).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from exporter.errors import NotReadable
from exporter.python.memory import BoundedMemory

COOKIE: Final = b"xdebugpy"
OFFSET_MAX: Final = 4 << 20
"""An interpreter's state has 400 KB."""
_FIRST: Final = 3  # numbers before the offsets: cookie, version, free_threaded

_NUMBERS_3_13: Final = {
    "runtime": "size finalizing interpreters_head",
    "interpreter": "size id next threads_head gc imports_modules sysdict builtins ceval_gil"
    " gil_runtime_state gil_runtime_state_enabled gil_runtime_state_locked gil_runtime_state_holder",
    "thread": "size prev next interp current_frame thread_id native_thread_id datastack_chunk status",
    "frame": "size previous executable instr_ptr localsplus owner",
    "code": "size filename name qualname linetable firstlineno argcount localsplusnames localspluskinds co_code_adaptive",
    "object": "size ob_type",
    "type": "size tp_name tp_repr tp_flags",
    "tuple": "size ob_item ob_size",
    "list": "size ob_item ob_size",
    "dict": "size ma_keys ma_values",
    "float": "size ob_fval",
    "long": "size lv_tag ob_digit",
    "bytes": "size ob_size ob_sval",
    "text": "size state length asciiobject_size",
}
_NUMBERS_3_14: Final = {
    "runtime": "size finalizing interpreters_head",
    "interpreter": "size id next threads_head threads_main gc imports_modules sysdict builtins ceval_gil"
    " gil_runtime_state gil_runtime_state_enabled gil_runtime_state_locked gil_runtime_state_holder"
    " code_object_generation tlbc_generation",
    "thread": "size prev next interp current_frame thread_id native_thread_id datastack_chunk status",
    "frame": "size previous executable instr_ptr localsplus owner stackpointer tlbc_index",
    "code": "size filename name qualname linetable firstlineno argcount localsplusnames localspluskinds co_code_adaptive"
    " co_tlbc",
    "object": "size ob_type",
    "type": "size tp_name tp_repr tp_flags",
    "tuple": "size ob_item ob_size",
    "list": "size ob_item ob_size",
    "set": "size used table mask",
    "dict": "size ma_keys ma_values",
    "float": "size ob_fval",
    "long": "size lv_tag ob_digit",
    "bytes": "size ob_size ob_sval",
    "text": "size state length asciiobject_size",
    "gc": "size collecting",
    "generator": "size name frame frame_state",
    "list_node": "next prev",
}


def _names(numbers: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(f"{part}.{name}" for part, names in numbers.items() for name in names.split())


NAMES: Final[Mapping[tuple[int, int], tuple[str, ...]]] = {
    (3, 13): _names(_NUMBERS_3_13),
    (3, 14): _names(_NUMBERS_3_14),
}
"""Version -> the name of each number behind the first three."""


@dataclass(frozen=True, slots=True)
class DebugOffsets:
    """values: by `part.name`, such as thread.current_frame."""

    version: tuple[int, int]
    is_free_threaded: bool
    values: Mapping[str, int]

    def __getitem__(self, name: str) -> int:
        return self.values[name]


def debug_offsets(memory: BoundedMemory, runtime: int) -> DebugOffsets | tuple[int, int] | None:
    """The offsets; only the version if its numbers are not known; None without the cookie. Raises NotReadable."""
    cookie, version_number, free_threaded = struct.unpack("<8sQQ", memory.content(runtime, 8 * _FIRST))
    if cookie != COOKIE:
        return None
    version = version_number >> 24 & 0xFF, version_number >> 16 & 0xFF
    names = NAMES.get(version)
    if names is None:
        return version
    values = memory.words(runtime + 8 * _FIRST, len(names))
    offsets = DebugOffsets(version, free_threaded != 0, dict(zip(names, values, strict=True)))
    if not _is_plausible(offsets):
        raise NotReadable("the debug offsets of the interpreter are none")
    return offsets


def _is_plausible(offsets: DebugOffsets) -> bool:
    """Whether numbers lie where they must, as they do not when a version has others or in another order."""
    head_bytes, type_at = offsets["object.size"], offsets["object.ob_type"]
    return (
        max(value for name, value in offsets.values.items() if not name.endswith(".size")) < OFFSET_MAX
        and type_at == head_bytes - 8
        and offsets["type.tp_name"] == head_bytes + 8
        and offsets["bytes.ob_size"] == head_bytes
        and offsets["text.length"] == head_bytes
        and offsets["bytes.ob_sval"] == offsets["text.state"] == head_bytes + 16
        and head_bytes + 20 <= offsets["text.asciiobject_size"] <= head_bytes + 32
        and offsets["frame.owner"] < offsets["frame.localsplus"] <= 256
    )
