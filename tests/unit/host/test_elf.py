"""elf: what a library defines and where, and what is refused."""

from __future__ import annotations

import os
import struct

import pytest

from exporter.errors import MalformedElf
from exporter.host.elf import SEGMENTS_MAX, read_elf
from exporter.host.symbol_hash import gnu_hash

from .elf_image import DATA_SHIFT, IFUNC, OBJECT, TABLES_OFFSET, Image, Sym, opened


def offsets_in(image: Image, *names: str) -> dict[str, int]:
    with opened(image.content()) as fd:
        return read_elf(fd).symbol_offsets(names)


def refusal_of(content: bytes, *names: str) -> str:
    with opened(content) as fd, pytest.raises(MalformedElf) as caught:
        read_elf(fd).symbol_offsets(names)
    return str(caught.value)


def with_field(content: bytes, offset: int, layout: str, value: int) -> bytes:
    changed = bytearray(content)
    struct.pack_into(layout, changed, offset, value)
    return bytes(changed)


class TestHeaders:
    """Facts about the library as a whole."""

    def test_soname_build_id_machine_and_size_are_read(self) -> None:
        """The four attributes of a library."""
        content = Image(soname="libcudart.so.12", build_id=b"\x01\xab").content()

        with opened(content) as fd:
            elf = read_elf(fd)

        assert (elf.soname, elf.build_id, elf.machine) == ("libcudart.so.12", "01ab", "x86_64")
        assert elf.size_bytes == len(content)

    @pytest.mark.parametrize(("number", "name"), [(62, "x86_64"), (183, "aarch64"), (243, "other-243")])
    def test_unknown_machines_are_named_by_number(self, number: int, name: str) -> None:
        """Two machines have names, RISC-V does not."""
        with opened(Image(machine=number).content()) as fd:
            assert read_elf(fd).machine == name

    def test_control_characters_of_a_soname_are_replaced(self) -> None:
        """The author of the file chooses the soname."""
        with opened(Image(soname="lib\n\x1b[31m.so").content()) as fd:
            assert read_elf(fd).soname == "lib\ufffd\ufffd[31m.so"

    def test_build_is_the_build_id_or_the_names(self) -> None:
        """Lacking one, libraries of other functions are of other builds."""
        builds = []
        for names in (["cudaMalloc"], ["cudaMalloc"], ["cudaFree"]):
            with opened(Image([Sym(name) for name in names], build_id=b"").content()) as fd:
                builds.append(read_elf(fd).build())
        with opened(Image(build_id=b"\x01\xab").content()) as fd:
            known = read_elf(fd).build()

        assert builds[0] == builds[1] != builds[2]
        assert known == "01ab"

    def test_broken_note_costs_the_build_id_only(self) -> None:
        """A note that claims 4 GiB ends the search for a build id."""
        content = Image(build_id=b"\x01" * 20).content()
        note = content.rindex(b"GNU\0") - 12

        with opened(with_field(content, note + 4, "<I", 0xFFFFFFFF)) as fd:
            assert read_elf(fd).build_id == ""

    def test_build_id_behind_another_note_is_found(self) -> None:
        """Notes are padded to four bytes: a name of 5 and a description of 3 fill 8 and 4."""
        content = Image(build_id=b"\x07" * 4).content()
        note = content.rindex(b"GNU\0") - 12
        other = struct.pack("<III8s4s", 5, 3, 1, b"Abcd\0", b"xyz")
        size_field = 64 + 3 * 56 + 32

        longer = with_field(content[:note] + other + content[note:], size_field, "<Q", len(other) + 20)

        with opened(longer) as fd:
            assert read_elf(fd).build_id == "07070707"


class TestSymbols:
    """Which functions are found, and at which file offset."""

    @pytest.mark.parametrize("hash_style", ["gnu", "sysv"])
    def test_offset_is_the_address_moved_by_the_executable_segment(self, hash_style: str) -> None:
        """The segment maps file offset 0x100 to address 0x401000."""
        image = Image([Sym("first", 0x401000), Sym("second", 0x401040)], hash_style=hash_style)

        assert offsets_in(image, "first", "second", "third") == {"first": 0x100, "second": 0x140}

    @pytest.mark.parametrize("hash_style", ["gnu", "sysv"])
    @pytest.mark.parametrize(
        "symbol",
        [
            Sym("f", section=0),
            Sym("f", kind=OBJECT),
            Sym("f", kind=IFUNC),
            Sym("f", section=0xFFF1),
            Sym("f", address=0),
            Sym("f", address=0x401100),
            Sym("f", address=TABLES_OFFSET + DATA_SHIFT),
            Sym("ff"),
        ],
        ids=["import", "data", "ifunc", "absolute", "zero", "behind", "not executable", "longer name"],
    )
    def test_only_functions_of_the_library_are_found(self, symbol: Sym, hash_style: str) -> None:
        """Not imports, data, resolvers, and addresses outside of the executable segment."""
        assert offsets_in(Image([symbol], hash_style=hash_style), "f") == {}

    def test_equal_hashes_are_resolved_by_name(self) -> None:
        """Two names with one hash are in one chain."""
        image = Image([Sym("a", 0x401010), Sym("b", 0x401020)], gnu_hashes={"a": gnu_hash(b"b")})

        assert offsets_in(image, "b") == {"b": 0x120}

    def test_default_version_is_preferred_to_a_hidden_one(self) -> None:
        """memcpy@GLIBC_2.2.5 comes before memcpy@@GLIBC_2.14."""
        old, new = Sym("f", 0x401010, version=0x8002), Sym("f", 0x401020, version=3)

        assert offsets_in(Image([old, new], with_versions=True), "f") == {"f": 0x120}

    def test_hidden_version_serves_when_there_is_no_other(self) -> None:
        """A function of which only an old version is left."""
        assert offsets_in(Image([Sym("f", 0x401010, version=0x8002)], with_versions=True), "f") == {"f": 0x110}

    def test_default_version_that_is_a_resolver_hides_the_old_function(self) -> None:
        """Programs call what the default version resolves to, not the old function."""
        old, new = Sym("f", 0x401010, version=0x8002), Sym("f", 0x401020, kind=IFUNC, version=3)

        assert offsets_in(Image([old, new], with_versions=True), "f") == {}

    def test_no_names_and_no_symbols_give_nothing(self) -> None:
        """Both are usual."""
        assert offsets_in(Image([Sym("f")])) == {}
        assert offsets_in(Image([]), "f") == {}


class TestRefusals:
    """Files that are no library are refused with a reason."""

    @pytest.mark.parametrize(
        "content",
        [b"", b"\x7fELF", b"#!/bin/sh\n" * 20, b"\x7fELF\x01\x01\x01".ljust(100, b"\0"), b"\x7fELF\x02\x02\x01" * 20],
        ids=["empty", "short", "script", "32 bits", "big-endian"],
    )
    def test_other_files_are_refused(self, content: bytes) -> None:
        """Only 64-bit little-endian files are read."""
        assert refusal_of(content)

    @pytest.mark.parametrize(
        ("offset", "layout", "value", "reason"),
        [
            (16, "<H", 1, "ELF type 1"),
            (32, "<Q", 2**64 - 1, "outside of the file"),
            (54, "<H", 32, "program headers of 32 bytes"),
            (56, "<H", 0, "0 program headers"),
            (56, "<H", SEGMENTS_MAX + 1, "program headers"),
            (64 + 32, "<Q", 2**63, "cut short"),
            (64 + 56 + 8, "<Q", 2**64 - 1, "cut short"),
            (TABLES_OFFSET + 8, "<Q", 2**40, "soname lies outside"),
            (TABLES_OFFSET + 16 + 8, "<Q", 0x10, "no segment holds"),
        ],
        ids=["object file", "table", "entry size", "none", "many", "long segment", "far segment", "soname", "strings"],
    )
    def test_field_that_points_outside_is_refused(self, offset: int, layout: str, value: int, reason: str) -> None:
        """Each field is checked where it is used."""
        assert reason in refusal_of(with_field(Image([Sym("f")]).content(), offset, layout, value), "f")

    def test_cut_library_is_refused(self) -> None:
        """A download that stopped in the middle."""
        content = Image([Sym("f")]).content()

        assert "cut short" in refusal_of(content[: TABLES_OFFSET + 40])

    @pytest.mark.parametrize(
        ("word", "value", "reason"), [(2, 3, "power of two"), (2, 0, "power of two"), (1, 5, "before its first")]
    )
    def test_impossible_gnu_hash_is_refused(self, word: int, value: int, reason: str) -> None:
        """Words 1 and 2 of the table are the first symbol and the size of the bloom filter."""
        content = Image([Sym("f")]).content()
        table = content.index(struct.pack("<IIIIQ", 1, 1, 1, 6, 2**64 - 1))

        assert reason in refusal_of(with_field(content, table + 4 * word, "<I", value), "f")

    def test_endless_gnu_chain_is_refused(self) -> None:
        """No hash of the chain has its lowest bit set, 20,000 words long."""
        image = Image([Sym(f"s{number}") for number in range(20_000)], gnu_hashes={"s19999": 0})
        content = image.content()
        last = content.index(struct.pack("<I", gnu_hash(b"s19998") & ~1) + struct.pack("<I", 1))

        assert "longer than 4096" in refusal_of(with_field(content, last + 4, "<I", 0), "absent")

    def test_sysv_chain_in_a_circle_is_refused(self) -> None:
        """Symbol 2 leads to symbol 1, which leads to symbol 2."""
        content = Image([Sym("a"), Sym("b")], hash_style="sysv").content()
        table = content.index(struct.pack("<IIIIII", 1, 3, 1, 0, 2, 0))

        assert "more reads" in refusal_of(with_field(content, table + 20, "<I", 1), "absent")

    def test_file_changed_after_reading_is_refused(self) -> None:
        """An update in place between the headers and the symbols."""
        with opened(Image([Sym("f")]).content()) as fd:
            elf = read_elf(fd)
            os.ftruncate(fd, 700)

            with pytest.raises(MalformedElf, match="changed"):
                elf.symbol_offsets(["f"])
