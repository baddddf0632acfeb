"""Breakpoints: the instruction that a probe places at the beginning of each probed function."""

from __future__ import annotations

import os
from pathlib import Path

from exporter.host.elf import read_elf
from exporter.kernel.abi import Api
from exporter.kernel.operations import wanted_symbols

INSTRUCTION_BYTES = 4


def patched(tgid: int, library: Path, api: Api) -> set[str]:
    """Functions of a mapped library whose first bytes in the process's memory are not those of the file."""
    fd = os.open(library, os.O_RDONLY | os.O_CLOEXEC)
    try:
        offsets = read_elf(fd).symbol_offsets(wanted_symbols(api))
        original = {symbol: os.pread(fd, INSTRUCTION_BYTES, offset) for symbol, offset in offsets.items()}
    finally:
        os.close(fd)
    text = _text_of(tgid, library)
    with Path(f"/proc/{tgid}/mem").open("rb", buffering=0) as memory:

        def found(offset: int) -> bytes:
            begin, mapped_from = next((b, f) for b, f, size in text if f <= offset < f + size)
            return os.pread(memory.fileno(), INSTRUCTION_BYTES, begin + offset - mapped_from)

        return {symbol for symbol, offset in offsets.items() if found(offset) != original[symbol]}


def _text_of(tgid: int, library: Path) -> list[tuple[int, int, int]]:
    """(address, offset in the file, bytes) of its executable mappings."""
    found = []
    for line in Path(f"/proc/{tgid}/maps").read_text().splitlines():
        addresses, rights, offset, *_ = line.split()
        if "x" in rights and line.endswith(str(library)):
            begin, end = (int(address, 16) for address in addresses.split("-"))
            found.append((begin, int(offset, 16), end - begin))
    return found
