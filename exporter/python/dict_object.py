"""The entries of a dict in memory, of interpreters of 3.12 and 3.13 with a global lock.

In: the memory of a process, the address of a dict. Out: addresses of keys and values. The process can write anything into its
memory: at most so many entries as the caller allows are read.
Source: struct _dictkeysobject in Include/internal/pycore_dict.h, PyDictObject in Include/cpython/dictobject.h.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from exporter.errors import NotReadable
from exporter.python.layout import CodeLayout
from exporter.python.memory import READ_BYTES_MAX, BoundedMemory

_KEYS_AT, _VALUES_AT = 32, 40  # ma_keys, ma_values
_INDEX_BYTES_AT, _KIND_AT, _COUNT_AT, _INDICES_AT = (
    9,
    10,
    24,
    32,
)  # dk_log2_index_bytes, dk_kind, dk_nentries, dk_indices
_LOG2_INDEX_BYTES_MAX: Final = 24
_ENTRY_WORDS: Final = {0: 3, 1: 2}  # by DICT_KEYS_GENERAL: hash, key, value; DICT_KEYS_UNICODE: key, value


def entries(memory: BoundedMemory, address: int, count_max: int) -> Iterator[tuple[int, int]]:
    """Keys and values, the oldest first. Raises NotReadable, also if there are more than count_max entries."""
    keys = memory.word(address + _KEYS_AT)
    head = memory.content(keys, _INDICES_AT)
    log2_index_bytes, words = head[_INDEX_BYTES_AT], _ENTRY_WORDS.get(head[_KIND_AT])
    count = int.from_bytes(head[_COUNT_AT : _COUNT_AT + 8], "little")
    has_values_apart = memory.word(address + _VALUES_AT) != 0  # its keys are shared with other objects
    if words is None or has_values_apart or log2_index_bytes > _LOG2_INDEX_BYTES_MAX or count > count_max:
        raise NotReadable(f"no dict of at most {count_max} entries at {address:#x}")
    begin = keys + _INDICES_AT + (1 << log2_index_bytes)
    at_once = READ_BYTES_MAX // (8 * words)
    for first in range(0, count, at_once):
        some = memory.words(begin + 8 * words * first, words * min(at_once, count - first))
        for key, value in zip(some[words - 2 :: words], some[words - 1 :: words], strict=True):
            if key and value:
                yield key, value


def value_of(memory: BoundedMemory, code: CodeLayout, address: int, name: str, count_max: int) -> int | None:
    """The address of the value whose key is the text `name`, of ASCII. Raises NotReadable."""
    length, text = len(name).to_bytes(8, "little"), name.encode("ascii")
    end = code.text_ascii + len(text)
    for key, value in entries(memory, address, count_max):
        found = memory.up_to(key, end)
        if found[code.text_length : code.text_length + 8] == length and found[code.text_ascii : end] == text:
            return value
    return None
