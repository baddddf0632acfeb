"""elf: libraries that real linkers made are read as the loader reads them."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from exporter.host.elf import read_elf
from tests.unit.host.elf_image import opened

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler (cc)")


def compiled(folder: Path, source: str, *flags: str) -> Path:
    library = folder / "libtest.so"
    (folder / "test.c").write_text(source)
    subprocess.run(["cc", "-shared", "-fPIC", *flags, "-o", library, folder / "test.c"], check=True)
    return library


class TestRealLibraries:
    def test_functions_of_libc_lie_where_the_loader_put_them(self) -> None:
        """The bytes at the offset equal the bytes that ctypes sees in memory."""
        with Path("/proc/self/maps").open() as maps:
            paths = {line.split()[-1] for line in maps if "/libc.so.6" in line or "/libc-2" in line}
        if not paths:
            pytest.skip("this Python does not run on glibc")
        fd = os.open(paths.pop(), os.O_RDONLY)
        try:
            offsets = read_elf(fd).symbol_offsets(["getpid", "malloc", "cudaLaunchKernel"])
            code = {name: os.pread(fd, 24, offset) for name, offset in offsets.items()}
        finally:
            os.close(fd)

        libc = ctypes.CDLL("libc.so.6")  # not CDLL(None): the interpreter may have a jump of its own to malloc

        assert code == {
            name: ctypes.string_at(ctypes.cast(getattr(libc, name), ctypes.c_void_p).value or 0, 24)
            for name in ("getpid", "malloc")
        }

    @needs_cc
    @pytest.mark.parametrize("style", ["gnu", "sysv", "both"])
    def test_every_hash_style_of_the_linker_is_read(self, style: str, tmp_path: Path) -> None:
        """A library at address 0x400000 whose function holds a number that stands nowhere else."""
        source = "int other(void) { return 1; } long marked(void) { return 0x1122334455667788; }"
        library = compiled(tmp_path, source, "-O1", f"-Wl,--hash-style={style}", "-Wl,-Ttext-segment=0x400000")

        with opened(library.read_bytes()) as fd:
            offsets = read_elf(fd).symbol_offsets(["marked", "printf"])

        assert list(offsets) == ["marked"]
        assert 0 <= library.read_bytes().index(bytes.fromhex("8877665544332211")) - offsets["marked"] < 16

    @needs_cc
    def test_stripped_static_program_defines_nothing(self, tmp_path: Path) -> None:
        """A program with its CUDA runtime linked in has no dynamic hash table."""
        source = tmp_path / "test.c"
        source.write_text("void _start(void) {}")
        subprocess.run(["cc", "-static", "-nostdlib", "-s", "-o", tmp_path / "program", source], check=True)

        with opened((tmp_path / "program").read_bytes()) as fd:
            elf = read_elf(fd)

            assert (elf.soname, elf.symbol_offsets(["_start"])) == ("", {})
