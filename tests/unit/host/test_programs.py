"""programs: what a process runs, its ancestors, and its mapped libraries."""

from __future__ import annotations

from pathlib import Path

from exporter.host.processes import Processes
from exporter.host.programs import ANCESTORS_MAX, Program, lineage, mapped_libraries, parse_cmdline, program

from .process_tree import process, stat_line


def child(proc: Path, tgid: int, parent: int, cmdline: bytes) -> Processes:
    """Adds a process that another one has started."""
    return process(proc, tgid, stat=stat_line(tgid).replace(b" S 1 ", b" S %d " % parent), cmdline=cmdline)


class TestCommandLine:
    """/proc/TGID/cmdline."""

    def test_arguments_end_with_zeros(self) -> None:
        """One may be empty."""
        assert parse_cmdline(b"python3\0-m\0vllm\0\0--x\0") == ("python3", "-m", "vllm", "", "--x")

    def test_title_has_no_arguments(self) -> None:
        """Zeros pad it."""
        assert parse_cmdline(b"VLLM::Worker_TP0\0\0\0\0\0\0") == ("VLLM::Worker_TP0",)

    def test_kernel_thread_has_no_command_line(self) -> None:
        assert parse_cmdline(b"") == ()

    def test_command_line_is_bounded_and_printable(self) -> None:
        """The process chooses it."""
        arguments = parse_cmdline(b"\xff\x1b" + b"x" * 10_000 + b"\0" + b"a\0" * 1_000)

        assert (len(arguments), len(arguments[0]), arguments[0][:3]) == (32, 512, "\ufffd\ufffdx")


class TestProgram:
    def test_executable_is_where_the_link_leads(self, tmp_path: Path) -> None:
        """It need not exist."""
        processes = process(tmp_path, 7, cmdline=b"tritonserver\0")
        (tmp_path / "7" / "exe").symlink_to("/opt/tritonserver/bin/tritonserver")

        assert program(processes, 7) == Program(("tritonserver",), "/opt/tritonserver/bin/tritonserver")

    def test_what_cannot_be_read_is_empty(self, tmp_path: Path) -> None:
        assert program(Processes(tmp_path), 7) == Program((), "")


class TestLineage:
    def test_nearest_ancestor_comes_first(self, tmp_path: Path) -> None:
        """Up to the first process, whose parent is 0."""
        child(tmp_path, 1, 0, b"init\0")
        child(tmp_path, 5, 1, b"vllm\0")
        processes = child(tmp_path, 7, 5, b"VLLM::EngineCore\0")

        assert [one.arguments for one in lineage(processes, 7)] == [("VLLM::EngineCore",), ("vllm",), ("init",)]

    def test_lineage_is_bounded(self, tmp_path: Path) -> None:
        """At any depth, and when a tgid is reused during the walk."""
        for tgid in range(2, 40):
            child(tmp_path, tgid, tgid - 1, b"sh\0")
        child(tmp_path, 50, 51, b"a\0")
        processes = child(tmp_path, 51, 50, b"b\0")

        assert len(list(lineage(processes, 39))) == ANCESTORS_MAX + 1
        assert len(list(lineage(processes, 50))) == 2

    def test_parent_that_is_gone_ends_the_lineage(self, tmp_path: Path) -> None:
        """It is an empty program."""
        assert list(lineage(child(tmp_path, 7, 5, b"x\0"), 7)) == [Program(("x",), ""), Program((), "")]


class TestLibraries:
    """/proc/TGID/maps."""

    def test_each_library_is_listed_once(self, tmp_path: Path) -> None:
        """By its path without the version; other files, and later mappings of a library, are skipped."""
        maps = (
            b"55f0-55f1 r--p 00000000 fe:00 11      /usr/bin/python3.12\n"
            b"7f00-7f10 r--p 00000000 fe:00 26      /lib/libtorch_cuda.so\n"
            b"7f10-7f20 r-xp 00010000 fe:00 26      /lib/libtorch_cuda.so\n"
            b"7f20-7f30 r--p 00000000 fe:00 27      /lib/libcudart.so.12.4.127\n"
            b"7f30-7f40 r--p 00000000 fe:00 28      /site packages/vllm/_C.abi3.so (deleted)\n"
            b"7f40-7f50 rw-p 00000000 00:00 0 \n"
            b"7f50-7f60 rw-p 00000000 00:00 0       [heap].so\n"
            b"7f60-7f70 r--p 00000000 fe:00 29      /x.so.d/data\n"
        )
        found = mapped_libraries(process(tmp_path, 7, maps=maps), 7)

        assert found == {"/lib/libtorch_cuda.so", "/lib/libcudart.so", "/site packages/vllm/_C.abi3.so"}

    def test_process_that_is_gone_has_no_libraries(self, tmp_path: Path) -> None:
        """Nor one that cannot be read."""
        assert mapped_libraries(Processes(tmp_path), 7) == frozenset()
