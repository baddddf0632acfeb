"""eh_frame: rules for unwinding, compared with those of readelf for the same files."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.errors import MalformedElf
from exporter.host.eh_frame import OUTERMOST, RBP, RSP, FrameRules, Rule, rule_in
from exporter.host.elf import ElfFile, file_offset, read_elf
from exporter.host.mappings import parse_executable_mappings
from exporter.host.processes import Processes
from tests.unit.host.process_tree import process

pytestmark = [
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="rules are read for x86-64 alone"),
    pytest.mark.skipif(not (shutil.which("cc") and shutil.which("readelf")), reason="no C compiler, or no readelf"),
]

SAMPLE = 1_000
SOURCE = """
#include <alloca.h>
#include <string.h>
void call(void *, int);
int plain(int a) { call(0, a); return a + 1; }
int large(int a) { char room[3000]; memset(room, a, sizeof(room)); call(room, a); return room[a]; }
int grows(int a) { char *room = alloca(a); call(room, a); return room[0]; }
int many(int a, int b, int c, int d, int e, int f)
{
	call(0, a); call(0, b); call(0, c); call(0, d); call(0, e); call(0, f);
	return a * b * c * d * e * f;
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Functions that use their stacks in different ways."""
    folder = tmp_path_factory.mktemp("rules")
    (folder / "rules.c").write_text(SOURCE)
    options = ("-O2", "-shared", "-fPIC", "-fomit-frame-pointer", "-w")
    subprocess.run(["cc", *options, "-o", folder / "rules.so", folder / "rules.c"], check=True)
    return folder / "rules.so"


@pytest.fixture
def elf(library: Path) -> Iterator[ElfFile]:
    """That library, opened."""
    fd = os.open(library, os.O_RDONLY | os.O_CLOEXEC)
    yield read_elf(fd)
    os.close(fd)


def rules_by_readelf(path: Path) -> dict[int, Rule]:
    """Address -> rule; only of rows that can be parsed: some of hand-written code have more words than columns."""
    # Its exit code is an error when debug information is in another file that is missing.
    said = subprocess.run(["readelf", "-wF", path], capture_output=True, text=True, check=False).stdout
    rules: dict[int, Rule] = {}
    columns: list[str] = []
    is_of_function = False
    for line in said.splitlines():
        words = line.split()
        if " FDE " in line or " CIE " in line:
            is_of_function, columns = " FDE " in line, []
        elif words[:1] == ["LOC"]:
            columns = words
        elif is_of_function and columns and re.match(r"[0-9a-f]{16} ", line) and len(words) == len(columns):
            row = dict(zip(columns, words, strict=True))
            rules[int(row["LOC"], 16)] = _rule(row)
    assert rules
    return rules


def _rule(row: dict[str, str]) -> Rule:
    end = re.fullmatch(r"(rsp|rbp)\+(\d+)", row["CFA"])
    if end is None or row["ra"] != "c-8":
        return OUTERMOST
    rbp = row.get("rbp", "u")
    kept = int(rbp.removeprefix("c")) if rbp.startswith("c") else None
    return Rule(RSP if end[1] == "rsp" else RBP, int(end[2]), kept)


def rule_at_address(elf: ElfFile, address: int) -> Rule | None:
    """The rule at an address of the file."""
    offset = file_offset(elf.segments, address)
    assert offset is not None
    return rule_in(elf, offset)


class TestAgainstReadelf:
    def test_every_row_of_our_library_agrees(self, elf: ElfFile, library: Path) -> None:
        """With and without a frame pointer, with pushes and pops, and large frames."""
        expected = rules_by_readelf(library)

        assert {rule.cfa_register for rule in expected.values()} >= {RSP, RBP}
        assert {address: rule_at_address(elf, address) for address in expected} == expected

    def test_a_thousand_rows_of_libc_agree(self) -> None:
        """Hand-written code included."""
        mapped = parse_executable_mappings(Path("/proc/self/maps").read_bytes())
        path = next(Path(os.fsdecode(one.path)) for one in mapped if b"/libc.so" in one.path or b"/libc-2" in one.path)
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            libc = read_elf(fd)
            rules = rules_by_readelf(path)
            expected = dict(random.sample(sorted(rules.items()), min(SAMPLE, len(rules))))

            assert {address: rule_at_address(libc, address) for address in expected} == expected
        finally:
            os.close(fd)


class TestWithoutRules:
    def test_code_without_a_record_has_no_rule(self, elf: ElfFile) -> None:
        """Before the first function: the headers."""
        assert rule_in(elf, 0) is None

    def test_file_without_an_index_has_no_rules(self, tmp_path: Path) -> None:
        (tmp_path / "bare.c").write_text("void _start(void) { for (;;); }\n")
        options = ("-nostdlib", "-static", "-fno-asynchronous-unwind-tables", "-Wl,--no-eh-frame-hdr")
        subprocess.run(["cc", *options, "-o", tmp_path / "bare", tmp_path / "bare.c"], check=True)
        fd = os.open(tmp_path / "bare", os.O_RDONLY | os.O_CLOEXEC)
        try:
            bare = read_elf(fd)
            code = next(segment for segment in bare.segments if segment.is_executable)

            assert rule_in(bare, code.offset) is None
        finally:
            os.close(fd)

    def test_broken_rules_are_refused_or_missing(self, library: Path, tmp_path: Path) -> None:
        """200 copies, each with ten bytes of the rules overwritten: no other exception, and no endless loop."""
        whole = library.read_bytes()
        sections = subprocess.run(["readelf", "-SW", library], capture_output=True, text=True, check=True).stdout
        found = re.findall(r"\.eh_frame(?:_hdr)?\s+\w+\s+[0-9a-f]+ ([0-9a-f]+) ([0-9a-f]+)", sections)
        places = [at for offset, size in found for at in range(int(offset, 16), int(offset, 16) + int(size, 16))]
        addresses = sorted(rules_by_readelf(library))
        chance = random.Random(4711)
        for _ in range(200):
            broken = bytearray(whole)
            for at in chance.choices(places, k=10):
                broken[at] = chance.randrange(256)
            copy = tmp_path / "broken.so"
            copy.write_bytes(broken)
            fd = os.open(copy, os.O_RDONLY | os.O_CLOEXEC)
            try:
                elf = read_elf(fd)
                for address in addresses:
                    try:
                        rule_at_address(elf, address)
                    except MalformedElf:
                        continue
            finally:
                os.close(fd)


class TestProcess:
    """Addresses of a running process."""

    def test_address_leads_to_the_rule_of_its_file(self) -> None:
        """In the libc of this process."""
        mapped = list(parse_executable_mappings(Processes().maps(os.getpid())))
        libc = next(one for one in mapped if b"/libc.so" in one.path or b"/libc-2" in one.path)
        with FrameRules(Processes(), os.getpid()) as rules:
            found = {rules.at(address) for address in range(libc.start + 0x10000, libc.start + 0x11000, 64)}

        assert any(rule is not None and rule.cfa_register == RSP for rule in found)

    def test_address_outside_of_files_has_no_rule(self) -> None:
        """As of code generated at run time."""
        with FrameRules(Processes(), os.getpid()) as rules:
            assert rules.at(0x1000) is None

    def test_process_that_ended_has_no_rules(self, tmp_path: Path) -> None:
        with FrameRules(process(tmp_path, 7), 8) as rules:
            assert rules.at(0x1000) is None

    def test_files_are_closed_at_the_end_of_the_context(self) -> None:
        before = set(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names alone
        mapped = list(parse_executable_mappings(Processes().maps(os.getpid())))
        with FrameRules(Processes(), os.getpid()) as rules:
            for one in mapped:
                rules.at(one.start)

        assert set(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
