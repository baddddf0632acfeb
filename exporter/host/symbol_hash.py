"""Looks up the address of a function by name, without walking through all symbols of a library.

In: the file offsets of the dynamic tables. Out: an address or None, found as the dynamic linker finds it: in DT_GNU_HASH (bloom
filter, bucket, chain), else in DT_HASH. A name costs about six reads in a library of any size.
Source: the gABI, chapter 5, "Hash Table"; glibc elf/dl-lookup.c do_lookup_x() for DT_GNU_HASH.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from exporter.errors import MalformedElf
from exporter.host.bounded_file import BoundedFile

CHAIN_STEPS_MAX: Final = 4096  # GNU ld stops at 32,771 buckets: libtorch's 500,000 symbols make chains of about 15
CHAIN_WORDS_AT_ONCE: Final = 64

SYMBOL: Final = struct.Struct("<IBBHQQ")  # Elf64_Sym: name, info, other, section index, value, size
STT_OBJECT: Final = 1
STT_FUNC: Final = 2
SHN_UNDEF, SHN_ABS, SHN_COMMON = 0, 0xFFF1, 0xFFF2
VERSYM_HIDDEN: Final = 0x8000  # set on every version of a symbol but the default one


@dataclass(frozen=True, slots=True)
class SymbolTables:
    """Offsets of the dynamic tables in the file, in bytes; None for a table that the library does not have."""

    symbols_offset: int
    strings_offset: int
    strings_size_bytes: int
    gnu_hash_offset: int | None
    sysv_hash_offset: int | None
    versions_offset: int | None


class Definition(NamedTuple):
    """A symbol that the library defines. function_address: None for data and for STT_GNU_IFUNC. data_address: for data."""

    function_address: int | None
    data_address: int | None = None


def gnu_hash(name: bytes) -> int:
    """The hash of DT_GNU_HASH: h = h * 33 + c from 5381, 32 bits."""
    value = 5381
    for byte in name:
        value = (value * 33 + byte) & 0xFFFFFFFF
    return value


def sysv_hash(name: bytes) -> int:
    """The hash of DT_HASH: the PJW hash, 28 bits."""
    value = 0
    for byte in name:
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ (high >> 24)) & 0x0FFFFFFF
    return value


def defined_function_address(file: BoundedFile, tables: SymbolTables, name: bytes) -> int | None:
    """The virtual address of the function `name` in this library; None when it does not define it.

    Among several versions the default one, else the first. Not found: imports, data, STT_GNU_IFUNC (its address is that of the
    resolver, which runs once, not of the function).
    Raises MalformedElf when a table points outside of the file or a chain never ends.
    """
    found = _defined(file, tables, name)
    return found.function_address if found else None


def defined_data_address(file: BoundedFile, tables: SymbolTables, name: bytes) -> int | None:
    """The same of the variable `name`."""
    found = _defined(file, tables, name)
    return found.data_address if found else None


def _defined(file: BoundedFile, tables: SymbolTables, name: bytes) -> Definition | None:
    if tables.gnu_hash_offset is not None:
        candidates = _gnu_candidates(file, tables.gnu_hash_offset, gnu_hash(name))
    elif tables.sysv_hash_offset is not None:
        candidates = _sysv_candidates(file, tables.sysv_hash_offset, sysv_hash(name))
    else:
        return None
    first = None
    for index in candidates:
        symbol = _definition(file, tables, index, name)
        if symbol is None:
            continue
        first = first or symbol
        if _is_default_version(file, tables, index):
            return symbol
    return first


def _gnu_candidates(file: BoundedFile, table_offset: int, name_hash: int) -> Iterator[int]:
    """Numbers of the symbols whose hash equals `name_hash` but for its lowest bit."""
    header = file.read(table_offset, 16)
    bucket_count, first_symbol, bloom_words, bloom_shift = struct.unpack("<IIII", header)
    if bucket_count == 0:
        return
    if bloom_words == 0 or bloom_words & (bloom_words - 1):
        raise MalformedElf(f"DT_GNU_HASH has a bloom filter of {bloom_words} words, not a power of two")
    bloom_offset = table_offset + 16
    buckets_offset = bloom_offset + 8 * bloom_words
    chains_offset = buckets_offset + 4 * bucket_count

    word_number = (name_hash // 64) & (bloom_words - 1)
    (bloom_word,) = struct.unpack("<Q", file.read(bloom_offset + 8 * word_number, 8))
    if not (bloom_word >> (name_hash % 64)) & (bloom_word >> ((name_hash >> bloom_shift) % 64)) & 1:
        return
    index = _word(file, buckets_offset + 4 * (name_hash % bucket_count))
    if index == 0:
        return
    if index < first_symbol:
        raise MalformedElf(f"DT_GNU_HASH names symbol {index}, which is before its first one, {first_symbol}")
    for chain_hash in _gnu_chain(file, chains_offset + 4 * (index - first_symbol)):
        if chain_hash | 1 == name_hash | 1:
            yield index
        index += 1


def _gnu_chain(file: BoundedFile, offset: int) -> Iterator[int]:
    """The hashes of one chain, the last of which has its lowest bit set."""
    for _ in range(CHAIN_STEPS_MAX // CHAIN_WORDS_AT_ONCE):
        piece = file.read_up_to(offset, 4 * CHAIN_WORDS_AT_ONCE)
        if len(piece) < 4:
            raise MalformedElf("a chain of DT_GNU_HASH runs out of the file")
        for (chain_hash,) in struct.iter_unpack("<I", piece[: len(piece) // 4 * 4]):
            yield chain_hash
            if chain_hash & 1:
                return
        offset += len(piece) // 4 * 4
    raise MalformedElf(f"a chain of DT_GNU_HASH is longer than {CHAIN_STEPS_MAX} symbols")


def _sysv_candidates(file: BoundedFile, table_offset: int, name_hash: int) -> Iterator[int]:
    """Numbers of all symbols in the bucket of `name_hash`; DT_HASH keeps no hashes, so names decide."""
    bucket_count, chain_count = struct.unpack("<II", file.read(table_offset, 8))
    if bucket_count == 0:
        return
    chains_offset = table_offset + 8 + 4 * bucket_count
    index = _word(file, table_offset + 8 + 4 * (name_hash % bucket_count))
    for _ in range(CHAIN_STEPS_MAX):
        if index == 0:
            return
        if index >= chain_count:
            raise MalformedElf(f"DT_HASH names symbol {index} of {chain_count}")
        yield index
        index = _word(file, chains_offset + 4 * index)
    raise MalformedElf(f"a chain of DT_HASH is longer than {CHAIN_STEPS_MAX} symbols")


def _definition(file: BoundedFile, tables: SymbolTables, index: int, name: bytes) -> Definition | None:
    """What symbol number `index` defines if its name is exactly `name`; None for an import or another name."""
    symbol = file.read(tables.symbols_offset + SYMBOL.size * index, SYMBOL.size)
    name_offset, info, _other, section, address, _size = SYMBOL.unpack(symbol)
    if section in (SHN_UNDEF, SHN_ABS, SHN_COMMON):
        return None
    wanted = name + b"\0"
    if name_offset + len(wanted) > tables.strings_size_bytes:
        return None
    if file.read_up_to(tables.strings_offset + name_offset, len(wanted)) != wanted:
        return None
    kind = info & 0xF
    return Definition(
        address if kind == STT_FUNC and address else None, address if kind == STT_OBJECT and address else None
    )


def _is_default_version(file: BoundedFile, tables: SymbolTables, index: int) -> bool:
    if tables.versions_offset is None:
        return True
    (version,) = struct.unpack("<H", file.read(tables.versions_offset + 2 * index, 2))
    return not version & VERSYM_HIDDEN


def _word(file: BoundedFile, offset: int) -> int:
    return int.from_bytes(file.read(offset, 4), "little")
