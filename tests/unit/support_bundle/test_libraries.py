"""support_bundle.libraries: library files that processes map."""

from __future__ import annotations

from pathlib import Path

from exporter.support_bundle.libraries import gpu_libraries
from tests.unit.host.elf_image import Image, Sym
from tests.unit.host.process_tree import mapping_process, process

PATH = "/opt/nccl/libnccl.so.2"
LIBNCCL = Image([Sym("ncclAllReduce", 0x401010)], soname="libnccl.so.2")


class TestGpuLibraries:
    def test_file_has_its_functions_and_the_operations_it_lacks(self, tmp_path: Path) -> None:
        """The offset of the function is that of its segment plus 0x10."""
        (found,) = gpu_libraries(mapping_process(tmp_path, 7, PATH, LIBNCCL.content()))

        assert (found["path"], found["kind"], found["soname"]) == (PATH, "nccl", "libnccl.so.2")
        assert found["functions"] == {"ncclAllReduce": 0x110}
        assert "ncclBroadcast" in found["missing_operations"]
        assert "ncclAllReduce" not in found["missing_operations"]

    def test_processes_of_one_file_are_counted(self, tmp_path: Path) -> None:
        mapping_process(tmp_path, 7, PATH, LIBNCCL.content())
        processes = process(tmp_path, 8, maps=(tmp_path / "7/maps").read_bytes())

        assert [one["processes"] for one in gpu_libraries(processes)] == [2]

    def test_file_that_cannot_be_read_has_the_reason(self, tmp_path: Path) -> None:
        (found,) = gpu_libraries(mapping_process(tmp_path, 7, PATH, b"not an ELF file"))

        assert found["skipped"] == "malformed"
        assert found["detail"]

    def test_process_that_has_ended_is_passed_over(self, tmp_path: Path) -> None:
        """Between the listing and the reading."""
        (tmp_path / "9").mkdir()

        assert len(gpu_libraries(mapping_process(tmp_path, 7, PATH, LIBNCCL.content()))) == 1
