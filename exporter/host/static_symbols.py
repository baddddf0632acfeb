"""Looks up functions and variables in the symbol table that is for linkers and debuggers: .symtab, which `strip` removes.

In: a file, names. Out: addresses. A library that is linked statically into another file exports nothing, so only this table has
its functions. Most files have no table; of the others the names are searched, and symbols are read only if one was found.
Source: the gABI, chapter 4, "Sections" and "Symbol Table". Linkers let a name be the end of a longer one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final

from exporter.errors import MalformedElf
from exporter.host.bounded_file import PIECE_BYTES_MAX, BoundedFile
from exporter.host.sections import sections
from exporter.host.symbol_hash import SHN_ABS, SHN_COMMON, SHN_UNDEF, STT_FUNC, STT_OBJECT, SYMBOL

STRINGS_BYTES_MAX: Final = 32 << 20
SYMBOLS_BYTES_MAX: Final = 24 << 20  # a million
WORDS_MAX: Final = SYMBOLS_BYTES_MAX // SYMBOL.size
NAMES_FOUND_MAX: Final = 4_096
"""Places of wanted names: a linker writes each name once."""

_READS_MAX: Final = (STRINGS_BYTES_MAX + SYMBOLS_BYTES_MAX) // PIECE_BYTES_MAX + 16
_SHT_SYMTAB: Final = 2
_NAME_BYTES_MAX: Final = 128
_WORD: Final = re.compile(r"[a-z]+|\w+")


def static_functions(fd: int, size_bytes: int, names: Collection[str]) -> dict[str, int]:
    """Name -> address of the functions among names that the table has; {} without a table, and for one that is too large.

    Raises MalformedElf when the table is broken.
    """
    return _symbols(fd, size_bytes, names, STT_FUNC)


def static_variables(fd: int, size_bytes: int, names: Collection[str]) -> dict[str, int]:
    """The same of variables."""
    return _symbols(fd, size_bytes, names, STT_OBJECT)


def _symbols(fd: int, size_bytes: int, names: Collection[str], kind: int) -> dict[str, int]:
    file = BoundedFile(fd, size_bytes, reads_left=_READS_MAX)
    found = _table(file)
    if found is None or not names:
        return {}
    (symbols_offset, symbols_bytes), (strings_offset, strings_bytes) = found
    if symbols_bytes > SYMBOLS_BYTES_MAX or strings_bytes > STRINGS_BYTES_MAX:
        return {}
    places = _places(file, strings_offset, strings_bytes, names)
    return _addresses(file, symbols_offset, symbols_bytes, places, kind) if places else {}


def _table(file: BoundedFile) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Offset and size of the symbols, and of their names."""
    found, _ = sections(file)
    for section in found:
        if section.kind == _SHT_SYMTAB and section.link < len(found):
            strings = found[section.link]
            return (section.offset, section.size_bytes), (strings.offset, strings.size_bytes)
    return None


def _places(file: BoundedFile, offset: int, size_bytes: int, names: Collection[str]) -> dict[int, str]:
    """Where each wanted name begins in the table of names."""
    by_name = {name.encode(): name for name in names}
    prefixes = {match[0].encode() for name in names if (match := _WORD.match(name))}
    found: dict[int, str] = {}
    before, words = b"", 0
    for at, piece in _pieces(file, offset, size_bytes):
        text = before + piece
        *ended, rest = text.split(b"\0") if any(prefix in text for prefix in prefixes) else [text.rpartition(b"\0")[2]]
        words += len(ended)
        end = at - len(before)
        for word in ended:
            end += len(word) + 1
            tail = word[-_NAME_BYTES_MAX:]
            for prefix in prefixes:
                last = tail.rfind(prefix)
                if last < 0:
                    continue
                first = tail.find(prefix)
                for begin in (first, last) if first != last else (last,):
                    if (name := by_name.get(tail[begin:])) is not None:
                        found[end - 1 - len(tail) + begin] = name
        if words > WORDS_MAX or len(found) > NAMES_FOUND_MAX:
            raise MalformedElf("its symbol table has more names than symbols, or a name too often")
        before = rest[-_NAME_BYTES_MAX:]  # a name may lie across the border
    return found


def _addresses(
    file: BoundedFile, offset: int, size_bytes: int, places: dict[int, str], wanted_kind: int
) -> dict[str, int]:
    found: dict[str, int] = {}
    for _, piece in _pieces(file, offset, size_bytes - size_bytes % SYMBOL.size):
        for name_at, info, _, section, address, _ in SYMBOL.iter_unpack(piece):
            if name_at in places and info & 0xF == wanted_kind and section not in (SHN_UNDEF, SHN_ABS, SHN_COMMON):
                found.setdefault(places[name_at], address)
    return found


def _pieces(file: BoundedFile, offset: int, size_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Each piece with its place in the table; all but the last one hold whole symbols. Raises MalformedElf if it is cut short."""
    step = PIECE_BYTES_MAX - PIECE_BYTES_MAX % SYMBOL.size
    for at in range(0, size_bytes, step):
        yield at, file.read(offset + at, min(step, size_bytes - at))
