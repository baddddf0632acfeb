"""checks.libraries: library files that processes map, each once."""

from __future__ import annotations

from pathlib import Path

from exporter.checks.check import Check, CheckState
from exporter.checks.libraries import check
from exporter.host.libraries import LibraryKind
from exporter.host.unnamed_libraries import DEFINED
from tests.unit.config.command_line import loaded
from tests.unit.host.elf_image import Image, Sym
from tests.unit.host.process_tree import mapping_files, mapping_process, process

PATH = "/opt/nccl/libnccl.so.2"


def checks(proc: Path) -> list[Check]:
    return list(check(loaded(f"--path.procfs={proc}")))


class TestLibraries:
    def test_library_is_shown_with_its_functions(self, tmp_path: Path) -> None:
        """Two of the operations of NCCL, one of them under two names."""
        image = Image([Sym("ncclAllReduce"), Sym("ncclBroadcast", 0x401010), Sym("other", 0x401020)])
        mapping_process(tmp_path, 7, PATH, image.content())
        (found,) = checks(tmp_path)

        assert (found.name, found.state) == ("nccl library", CheckState.OK)
        assert found.found.startswith(f"{PATH}: 2 of ")
        assert found.symbols == ("ncclAllReduce", "ncclBroadcast")

    def test_library_without_a_wanted_function_is_a_warning(self, tmp_path: Path) -> None:
        mapping_process(tmp_path, 7, PATH, Image([Sym("other")]).content())
        (found,) = checks(tmp_path)

        assert found.state is CheckState.WARNING
        assert found.found.endswith(" 0 functions; not probed")

    def test_unreadable_library_is_a_warning_with_the_reason(self, tmp_path: Path) -> None:
        mapping_process(tmp_path, 7, PATH, b"not an ELF file")
        (found,) = checks(tmp_path)

        assert found.state is CheckState.WARNING
        assert found.found.endswith("; not probed")

    def test_file_of_two_processes_is_shown_once(self, tmp_path: Path) -> None:
        mapping_process(tmp_path, 7, PATH, Image([Sym("ncclAllReduce")]).content())
        process(tmp_path, 8, maps=(tmp_path / "7/maps").read_bytes())

        assert len(checks(tmp_path)) == 1

    def test_runtime_under_another_name_is_shown(self, tmp_path: Path) -> None:
        content = Image([Sym(name) for name in DEFINED[LibraryKind.RUNTIME]]).content()
        mapping_files(tmp_path, 7, {"/opt/libcuda.so.1": content, "/opt/libndj4cuda.so": content})

        assert [one.name for one in checks(tmp_path)] == ["driver library", "runtime library"]

    def test_process_without_a_runtime_is_a_warning(self, tmp_path: Path) -> None:
        """It may be linked statically and stripped."""
        driver = Image([Sym("cuLaunchKernel")]).content()
        mapping_files(tmp_path, 7, {"/opt/libcuda.so.1": driver})
        (tmp_path / "7/comm").write_bytes(b"train\n")
        *_, found = checks(tmp_path)

        assert (found.name, found.state) == ("runtime library", CheckState.WARNING)
        assert found.found == "process 7 (train) uses the CUDA driver, and no CUDA runtime was found in its files"

    def test_no_library_is_a_warning(self, tmp_path: Path) -> None:
        """A job may start later."""
        process(tmp_path, 7, maps=b"")

        assert checks(tmp_path) == [
            Check(
                "libraries",
                CheckState.WARNING,
                "no process uses CUDA or NCCL at the moment",
                "start a job: its libraries are found automatically",
            )
        ]
