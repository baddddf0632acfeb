"""Writes exporter/kernel/abi.py: the enums, limits and structs of abi/*.h, as clang lays them out.

usage: layouts.py CLANG FLAG... > abi.py

Compiles one variable of each type, reads the BTF of that object, and prints Python.
Run by the Makefile whenever a header changes; the result is committed, so that nothing has to be built to import it.
"""

from __future__ import annotations

import re
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

HEADERS = Path(__file__).parent / "abi"
LIMITS = "_limits"
"""End of the name of an enum whose members are separate constants."""

HEAD = '''"""What kernel programs and user space share: enums, limits, and the layout of keys and rows.

Written by bpf/layouts.py from bpf/abi/*.h, which explain every member: do not edit, run `make -C bpf`.
"""

from __future__ import annotations

import enum

from exporter.kernel.layout import Layout

COUNT = Layout(count="Q")
NUMBER = Layout(number="I")
'''

_INT, _ARRAY, _STRUCT, _ENUM, _TYPEDEF, _FUNC_PROTO, _VAR, _DATASEC = 1, 3, 4, 6, 8, 13, 14, 15
_PART_BYTES = {_STRUCT: 12, 5: 12, _ENUM: 8, _FUNC_PROTO: 8, _DATASEC: 12}
_WHOLE_BYTES = {_INT: 4, _ARRAY: 12, _VAR: 4, 17: 4}
_SIGNED, _CHAR = 1, 2
_CODES = {(1, 0): "B", (2, 0): "H", (4, 0): "I", (8, 0): "Q", (4, _SIGNED): "i", (8, _SIGNED): "q"}


class Wrong(Exception):
    """A header that has no exact layout in Python."""


class Type(NamedTuple):
    """One BTF type (Documentation/bpf/btf.rst). size: bytes, or the type referred to. body: what follows the head."""

    kind: int
    name: str
    size: int
    body: bytes


class Btf:
    """The types of one object file."""

    def __init__(self, elf: bytes) -> None:
        raw = _section(elf, b".BTF")
        head_bytes, types_at, types_bytes, names_at, names_bytes = struct.unpack_from("<IIIII", raw, 4)
        self._names = raw[head_bytes + names_at :][:names_bytes]
        self._types = [Type(0, "void", 0, b""), *self._read(raw[head_bytes + types_at :][:types_bytes])]

    def _read(self, raw: bytes) -> Iterator[Type]:
        at = 0
        while at < len(raw):
            name, info, size = struct.unpack_from("<III", raw, at)
            kind, parts = info >> 24 & 31, info & 0xFFFF
            body_bytes = _WHOLE_BYTES.get(kind, parts * _PART_BYTES.get(kind, 0))
            at += 12 + body_bytes
            yield Type(kind, self._name(name), size, raw[at - body_bytes : at])

    def _name(self, offset: int) -> str:
        return self._names[offset : self._names.index(b"\0", offset)].decode()

    def enum(self, name: str) -> dict[str, int]:
        """C name -> value."""
        body = self._named(_ENUM, name).body
        return {self._name(offset): value for offset, value in struct.iter_unpack("<Ii", body)}

    def members(self, name: str) -> dict[str, str]:
        """Member -> format codes. Raises Wrong where the compiler has put padding."""
        found, end = {}, 0
        whole = self._named(_STRUCT, name)
        for offset, number, bits in struct.iter_unpack("<III", whole.body):
            member, codes = self._name(offset), self._codes(number)
            if bits != 8 * end:
                raise Wrong(f"struct {name}: padding of the compiler in front of {member}: write it out")
            found[member] = codes
            end += struct.calcsize("=" + codes)
        if end != whole.size:
            raise Wrong(f"struct {name}: padding of the compiler at the end: write it out")
        return found

    def _named(self, kind: int, name: str) -> Type:
        return next(one for one in self._types if (one.kind, one.name) == (kind, name))

    def _codes(self, number: int) -> str:
        one = self._types[number]
        if one.kind == _TYPEDEF:
            return self._codes(one.size)
        if one.kind == _STRUCT:
            return "".join(self.members(one.name).values())
        if one.kind == _ARRAY:
            element, _, count = struct.unpack("<III", one.body)
            codes = self._codes(element)
            return f"{count * len(codes)}{codes[0]}" if len(set(codes)) == 1 else codes * count
        encoding = int.from_bytes(one.body, "little") >> 24 & 15
        if one.kind == _INT and one.size == 1 and encoding & (_SIGNED | _CHAR):
            return "s"
        if one.kind != _INT or (one.size, encoding) not in _CODES:
            raise Wrong(f"{one.name}: not an integer of fixed width")
        return _CODES[one.size, encoding]


def _section(elf: bytes, name: bytes) -> bytes:
    """The contents of a section of an ELF64 file."""
    (headers_at,) = struct.unpack_from("<Q", elf, 40)
    header_bytes, count, names = struct.unpack_from("<HHH", elf, 58)
    headers = [struct.unpack_from("<IIQQQQ", elf, headers_at + i * header_bytes) for i in range(count)]
    texts = elf[headers[names][4] :][: headers[names][5]]
    found = next(one for one in headers if texts[one[0] :].startswith(name + b"\0"))
    return elf[found[4] : found[4] + found[5]]


def compiled(compiler: list[str], declared: list[tuple[str, str]]) -> Btf:
    """clang only describes types that are used: one variable for each."""
    includes = [f'#include "{header}"' for header in sorted(HEADERS.glob("*.h"))]
    variables = [f"{kind} {name} use_of_{kind}_{name};" for kind, name in declared]
    with tempfile.NamedTemporaryFile(suffix=".o") as made:
        subprocess.run(
            [*compiler, "-x", "c", "-c", "-", "-o", made.name],
            input="\n".join([*includes, *variables, ""]),
            text=True,
            check=True,
        )
        return Btf(Path(made.name).read_bytes())


def class_name(name: str) -> str:
    """`thread_state` -> `ThreadState`."""
    return "".join(word.capitalize() for word in name.split("_"))


def without_prefix(values: dict[str, int]) -> dict[str, int]:
    """{`API_NCCL`: 2} -> {`NCCL`: 2}: what all names begin with, up to an underscore."""
    first, last = min(values), max(values)
    common = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    at = first.rfind("_", 0, common) + 1
    return {name[at:]: value for name, value in values.items()}


def module(btf: Btf, declared: list[tuple[str, str]]) -> str:
    """The text of exporter/kernel/abi.py, as the formatter leaves it."""
    enums = {name: btf.enum(name) for kind, name in declared if kind == "enum"}
    limits = [
        f"{key} = {value}\n" for name, values in enums.items() if name.endswith(LIMITS) for key, value in values.items()
    ]
    classes = [
        f"\n\nclass {class_name(name)}(enum.IntEnum):\n"
        + "".join(f"    {key} = {value}\n" for key, value in without_prefix(values).items())
        for name, values in enums.items()
        if not name.endswith(LIMITS)
    ]
    layouts = [
        f"{name.upper()} = Layout(\n"
        + "".join(f'    {member}="{codes}",\n' for member, codes in btf.members(name).items())
        + ")\n"
        for kind, name in declared
        if kind == "struct"
    ]
    return "".join([HEAD, "\n", *limits, "\n", *layouts, *classes])


def main() -> None:
    text = "".join(header.read_text(encoding="ascii") for header in sorted(HEADERS.glob("*.h")))
    declared = re.findall(r"^(enum|struct) (\w+) \{", text, flags=re.MULTILINE)
    try:
        print(module(compiled(sys.argv[1:], declared), declared), end="")
    except Wrong as reason:
        sys.exit(f"bpf/abi: {reason}")


if __name__ == "__main__":
    main()
