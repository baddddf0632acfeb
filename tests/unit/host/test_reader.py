"""host.reader and host.reader_program: what belongs to tenants, read by a process of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpustall_standin as standin
from exporter.errors import MalformedElf, NotPossibleHere, ProcessGone
from exporter.host.capabilities import Capability
from exporter.host.eh_frame import FrameRules
from exporter.host.interpreters import MappedInterpreter
from exporter.host.libraries import LibraryKind, MappedLibrary, SkippedLibrary, SkipReason
from exporter.host.mappings import Mapping, parse_executable_mappings
from exporter.host.processes import Processes
from exporter.host.programs import Program
from exporter.host.reader import Likely, TenantReader
from exporter.host.reader_documents import ExaminedLibrary
from tests.support.patience import PATIENCE_SECONDS
from tests.support.requirements import ROOT
from tests.unit.host.elf_image import OBJECT, Image, Sym, with_sections
from tests.unit.host.process_tree import mapping_process, process

PATH = "/opt/libcudart.so.12"
CUDART = Image([Sym("cudaMalloc"), Sym("cudaFree", 0x401010)]).content()


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[TenantReader]:
    """One whose /proc is a folder."""
    reader = TenantReader(Processes(tmp_path), PATIENCE_SECONDS)
    yield reader
    reader.close()


@pytest.fixture
def real() -> Iterator[TenantReader]:
    """One that reads the real /proc."""
    reader = TenantReader(Processes(), PATIENCE_SECONDS)
    yield reader
    reader.close()


class TestMemory:
    """Readers hang in files of tenants, up to eight of each kind, so that what one takes counts many times."""

    def test_reader_that_has_examined_a_library_has_less_than_9_5_mib_of_its_own(self, real: TenantReader) -> None:
        """Pages of the interpreter's files are shared. It is 8.4 MiB with Python 3.11; with subprocess and OpenSSL it was 10."""
        found = real.inspect_file(standin.build_dir() / "libcudart.so.12", LibraryKind.RUNTIME, ["cudaMalloc"])
        assert isinstance(found, ExaminedLibrary)
        found.close()
        real.environment(os.getpid(), ["HOME"])
        rollup = dict(
            line.split(":", 1) for line in Path(f"/proc/{real.tgid}/smaps_rollup").read_text().splitlines()[1:]
        )

        assert int(rollup["Private_Dirty"].split()[0]) < 9.5 * 1024

    def test_reader_imports_nothing_that_it_does_not_need(self) -> None:
        """Each of these takes half a MiB or more in every reader."""
        source = "import sys, exporter.host.reader_program; print(*sys.modules)"
        done = subprocess.run(
            [sys.executable, "-S", "-c", source], cwd=ROOT, capture_output=True, text=True, check=True
        )

        assert not {"subprocess", "hashlib", "secrets", "random", "threading", "asyncio", "logging"} & set(
            done.stdout.split()
        )


class TestRights:
    def test_reader_has_no_capability_that_loads_programs(self, real: TenantReader) -> None:
        real.environment(os.getpid(), [])
        status = Path(f"/proc/{real.tgid}/status").read_text()
        permitted = int(status.partition("CapPrm:")[2].split()[0], 16)
        allowed = sum(
            1 << one for one in (Capability.SYS_PTRACE, Capability.DAC_READ_SEARCH, Capability.CHECKPOINT_RESTORE)
        )

        assert permitted & ~allowed == 0
        assert "NoNewPrivs:\t1" in status

    def test_reader_sees_no_variable_of_the_exporter(self, real: TenantReader) -> None:
        """Passwords may be among them."""
        real.environment(os.getpid(), [])

        assert Path(f"/proc/{real.tgid}/environ").read_bytes() == b"LANG=C.UTF-8\0"


class TestLibraries:
    def test_libraries_of_several_processes(self, reader: TenantReader, tmp_path: Path) -> None:
        """Those that have none are left out."""
        mapping_process(tmp_path, 7, PATH, CUDART)
        process(tmp_path, 8, maps=b"")
        ((tgid, found, _),) = reader.libraries([7, 8])

        assert tgid == 7
        assert isinstance(found, list)
        assert [(one.kind, one.mapping.path) for one in found] == [(LibraryKind.RUNTIME, PATH.encode())]

    def test_process_that_has_ended_is_reported_as_such(self, reader: TenantReader) -> None:
        ((tgid, error, _),) = reader.libraries([9])

        assert tgid == 9
        assert isinstance(error, ProcessGone)


class TestInspect:
    def test_functions_of_a_mapped_library(self, reader: TenantReader, tmp_path: Path) -> None:
        """Those that are wanted. The descriptor is one that touches nothing."""
        mapping_process(tmp_path, 7, PATH, CUDART)
        ((_, found, _),) = reader.libraries([7])
        assert isinstance(found, list)
        examined = reader.inspect(7, found[0], ["cudaFree", "cudaHostAlloc"])
        assert isinstance(examined, ExaminedLibrary)
        with examined:
            flags = int(Path(f"/proc/self/fdinfo/{examined.fd}").read_text().partition("flags:")[2].split()[0], 8)

        assert examined.offsets.keys() == {"cudaFree"}
        assert flags & os.O_PATH

    def test_file_that_is_no_library_is_skipped(self, reader: TenantReader, tmp_path: Path) -> None:
        mapping_process(tmp_path, 7, PATH, b"not an ELF file")
        ((_, found, _),) = reader.libraries([7])
        assert isinstance(found, list)
        skipped = reader.inspect(7, found[0], ["cudaFree"])

        assert isinstance(skipped, SkippedLibrary)
        assert skipped.reason is SkipReason.MALFORMED

    def test_mapping_that_is_gone_is_skipped(self, reader: TenantReader, tmp_path: Path) -> None:
        process(tmp_path, 7)
        library = MappedLibrary(LibraryKind.RUNTIME, Mapping(0x1000, 0x2000, PATH.encode(), 1, 1, False))
        skipped = reader.inspect(7, library, [])

        assert isinstance(skipped, SkippedLibrary)
        assert skipped.reason is SkipReason.VANISHED

    def test_library_without_layers_is_hidden(self, reader: TenantReader, tmp_path: Path) -> None:
        process(tmp_path, 7, mountinfo=b"")
        library = MappedLibrary(LibraryKind.RUNTIME, Mapping(0x1000, 0x2000, PATH.encode(), 1, 1, False))
        (skipped,) = reader.layers(7, library, [])

        assert isinstance(skipped, SkippedLibrary)
        assert skipped.reason is SkipReason.HIDDEN

    def test_page_of_the_file_is_mapped_until_the_next_one(self, real: TenantReader) -> None:
        files = [standin.build_dir() / name for name in ("libcudart.so.12", "libnccl.so.2")]
        mapped = []
        for file in files:
            found = real.inspect_file(file, LibraryKind.RUNTIME, [])
            assert isinstance(found, ExaminedLibrary)
            found.close()
            mapped.append([str(one) in Path(f"/proc/{real.tgid}/maps").read_text() for one in files])

        assert mapped == [[True, False], [False, True]]

    def test_file_that_is_not_there_is_malformed(self, real: TenantReader, tmp_path: Path) -> None:
        with pytest.raises(MalformedElf, match="No such file"):
            real.inspect_file(tmp_path / "libcudart.so.12", LibraryKind.RUNTIME, [])


class TestProcesses:
    def test_environment(self, reader: TenantReader, tmp_path: Path) -> None:
        process(tmp_path, 7, environ=b"RANK=3\0PASSWORD=x\0")

        assert reader.environment(7, ["RANK"]) == {"RANK": "3"}

    def test_environment_that_may_not_be_read(self, reader: TenantReader, tmp_path: Path) -> None:
        process(tmp_path, 7)
        (tmp_path / "7/environ").symlink_to("environ")

        with pytest.raises(NotPossibleHere):
            reader.environment(7, ["RANK"])

    def test_programs(self, reader: TenantReader, tmp_path: Path) -> None:
        process(tmp_path, 7, cmdline=b"python\0train.py\0")
        (tmp_path / "7/exe").symlink_to("/usr/bin/python3.11")

        assert reader.programs(7)[0] == Program(("python", "train.py"), "/usr/bin/python3.11")

    def test_mapped_libraries(self, reader: TenantReader, tmp_path: Path) -> None:
        process(tmp_path, 7, maps=b"1-2 r--p 00000000 fe:00 26 /opt/libtorch.so\n")

        assert reader.mapped_libraries(7) == {"/opt/libtorch.so"}

    def test_files_of_addresses(self, reader: TenantReader, tmp_path: Path) -> None:
        process(tmp_path, 7, maps=b"1000-2000 r-xp 00000000 fe:00 26 /opt/libtorch.so\n")

        assert reader.files(7, [0x1010, 0x3000]) == {0x1010: "libtorch.so+0x10"}

    def test_interpreters_of_a_process(self, reader: TenantReader, tmp_path: Path) -> None:
        """The file is mapped at 0x1000, its code is at 0x401000, 0x100 from its beginning."""
        runtime = Image([Sym("_PyRuntime", 0x601100, OBJECT)]).content()
        mapping_process(tmp_path, 7, "/opt/train", runtime)

        assert reader.interpreters_of(7) == ([MappedInterpreter("/opt/train", 0x201200, 0, 0)], True)

    def test_asyncio_sections_of_a_process(self, reader: TenantReader, tmp_path: Path) -> None:
        """Mapped as above."""
        module = with_sections(Image([]).content(), {".AsyncioDebug": (2, 0x601100)})
        mapping_process(tmp_path, 7, "/opt/_asyncio.so", module)

        assert reader.asyncio_sections_of(7) == [0x201200]

    def test_rules_are_those_of_the_process(self, real: TenantReader) -> None:
        """At places all over its own code."""
        mapped = [one for one in parse_executable_mappings(Processes().maps(os.getpid())) if not one.is_deleted]
        addresses = [address for one in mapped for address in range(one.start, one.end, (one.end - one.start) // 8 + 1)]
        rule_at = real.rules_of(os.getpid())
        with FrameRules(Processes(), os.getpid()) as rules:
            expected = [rules.at(address) for address in addresses]

        assert [rule_at(address) for address in addresses] == expected
        assert any(expected)


class TestLikely:
    def test_libraries_of_a_root_directory(self, reader: TenantReader, tmp_path: Path) -> None:
        folder = tmp_path / "7/root/usr/lib64"
        folder.mkdir(parents=True)
        file = Path(shutil.copy(standin.build_dir() / "libnccl.so.2", folder))
        status = file.stat()

        assert reader.likely(7, None) == [Likely(file, LibraryKind.NCCL, (status.st_dev, status.st_ino))]

    def test_libraries_of_an_environment(self, reader: TenantReader, tmp_path: Path) -> None:
        folder = tmp_path / "7/root/srv/.venv/lib"
        folder.mkdir(parents=True)
        file = Path(shutil.copy(standin.build_dir() / "libnccl.so.2", folder))
        process_of(tmp_path, "/srv/.venv/bin/python")

        assert reader.prefixes(7) == ["srv/.venv"]
        assert [one.path for one in reader.likely(7, "srv/.venv")] == [file]


def process_of(proc: Path, executable: str) -> None:
    (proc / "7/exe").symlink_to(executable)
    (proc / "7/cmdline").write_bytes(executable.encode() + b"\0")


class TestRelease:
    def test_file_is_closed(self, real: TenantReader) -> None:
        """An open file keeps its file system mounted."""
        file = standin.build_dir() / "libcudart.so.12"
        found = real.inspect_file(file, LibraryKind.RUNTIME, [])
        assert isinstance(found, ExaminedLibrary)
        found.close()
        real.release()
        descriptors = [str(one.readlink()) for one in Path(f"/proc/{real.tgid}/fd").iterdir()]

        assert str(file) not in descriptors
        assert str(file) not in Path(f"/proc/{real.tgid}/maps").read_text()
