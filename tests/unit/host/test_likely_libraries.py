"""likely_libraries: where CUDA and NCCL libraries lie before any process maps them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from exporter.host import likely_libraries
from exporter.host.libraries import LibraryKind
from exporter.host.likely_libraries import cached_paths, in_root, of_python, python_prefixes
from exporter.host.processes import Processes

PACKAGES = "lib/python3.12/site-packages"


def laid(root: Path, *paths: str) -> Path:
    """Empty files below a root."""
    for path in paths:
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    return root


def cache(root: Path) -> Path:
    """The path of a root's linker cache."""
    (root / "etc").mkdir(parents=True)
    return root / "etc/ld.so.cache"


def found(root: Path) -> set[str]:
    """Relative to the root."""
    return {str(path.relative_to(root)) for path, _ in in_root(root)}


class TestLinkerCache:
    """Strings between NULs, behind a header and numbers."""

    def test_paths_of_the_libraries_are_found(self, tmp_path: Path) -> None:
        """The names before them are no paths, and other libraries are of no interest."""
        strings = b"libcuda.so.1\0/usr/lib/x86_64-linux-gnu/libcuda.so.1\0libc.so.6\0/lib/x86_64-linux-gnu/libc.so.6\0"
        cache(tmp_path).write_bytes(b"glibc-ld.so.cache1.1\1\0\0\0" + strings)

        assert cached_paths(tmp_path) == ["/usr/lib/x86_64-linux-gnu/libcuda.so.1"]

    def test_path_that_is_cut_off_is_none(self, tmp_path: Path) -> None:
        cache(tmp_path).write_bytes(b"\0/usr/lib/libcuda.so.1")

        assert cached_paths(tmp_path) == []

    def test_without_a_cache_there_are_none(self, tmp_path: Path) -> None:
        assert cached_paths(tmp_path) == []

    def test_paths_are_below_the_root(self, tmp_path: Path) -> None:
        """That of a container."""
        laid(tmp_path, "opt/x/libnccl.so.2")
        cache(tmp_path).write_bytes(b"\0/opt/x/libnccl.so.2\0")

        assert list(in_root(tmp_path)) == [(tmp_path / "opt/x/libnccl.so.2", LibraryKind.NCCL)]

    def test_link_leads_within_the_root(self, tmp_path: Path) -> None:
        """Not to the cache of the exporter's own root, whose path it has."""
        root, outside = tmp_path / "root", tmp_path / "outside"
        outside.write_bytes(b"\0/usr/lib/libcuda.so.1\0")
        cache(root).symlink_to(outside)

        assert cached_paths(root) == []

    def test_pipe_is_not_waited_for(self, tmp_path: Path) -> None:
        os.mkfifo(cache(tmp_path))

        assert cached_paths(tmp_path) == []


class TestPlaces:
    """Without a linker cache."""

    @pytest.mark.parametrize(
        "path",
        [
            "usr/local/cuda-12.4/lib64/libcudart.so.12",
            "usr/lib/x86_64-linux-gnu/libcuda.so.550.54",
            f"opt/conda/{PACKAGES}/nvidia/nccl/lib/libnccl.so.2",
            "opt/conda/envs/train/lib/libnccl.so.2",
            "usr/lib/python3/dist-packages/nvidia/cuda_runtime/lib/libcudart.so.12",
            f"usr/local/{PACKAGES}/torch/lib/libcudart-d0da41ae.so.11.0",
        ],
    )
    def test_library_is_found(self, tmp_path: Path, path: str) -> None:
        assert found(laid(tmp_path, path)) == {path}

    @pytest.mark.parametrize(
        "path",
        [
            "usr/local/cuda-12.4/lib64/stubs/libcuda.so",
            "usr/local/cuda-12.4/lib64/libcublas.so.12",
            f"usr/{PACKAGES}/numpy/libs/libcudart.so.12",
        ],
    )
    def test_other_files_are_not(self, tmp_path: Path, path: str) -> None:
        """Stubs are for the linker of a compiler, no process maps them."""
        assert found(laid(tmp_path, path)) == set()

    def test_environment_has_its_own(self, tmp_path: Path) -> None:
        path = f"srv/job/.venv/{PACKAGES}/nvidia/nccl/lib/libnccl.so.2"
        laid(tmp_path, path, f"srv/other/.venv/{PACKAGES}/nvidia/nccl/lib/libnccl.so.2")

        assert list(of_python(tmp_path, "srv/job/.venv")) == [(tmp_path / path, LibraryKind.NCCL)]

    def test_prefix_is_no_pattern(self, tmp_path: Path) -> None:
        """It is what a program of any user calls itself."""
        laid(tmp_path, f"srv/other/.venv/{PACKAGES}/nvidia/nccl/lib/libnccl.so.2")

        assert list(of_python(tmp_path, "srv/*/.venv")) == []

    def test_links_are_followed_within_the_root(self, tmp_path: Path) -> None:
        """As by the process: from an environment to the package, and from a name of a library to its version."""
        root = laid(tmp_path / "root", "opt/nccl/libnccl.so.2.21")
        (root / "opt/nccl/libnccl.so.2").symlink_to("libnccl.so.2.21")
        (root / "env").mkdir()
        (root / "env/lib").symlink_to("/opt/nccl")

        assert (root / "opt/nccl/libnccl.so.2.21", LibraryKind.NCCL) in list(of_python(root, "env"))

    def test_many_entries_end_a_search(self, tmp_path: Path) -> None:
        """There may be any number of folders within folders."""
        folders = tmp_path / "env/lib"
        for number in range(200):
            (folders / f"python3.{number}").mkdir(parents=True)
        read: list[Path] = []
        real = os.scandir

        def counted(folder: Path) -> object:
            read.append(folder)
            return real(folder)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(likely_libraries, "ENTRIES_MAX", 100)
            patch.setattr(os, "scandir", counted)
            list(of_python(tmp_path, "env"))

        assert read == [folders]


class TestPrefixes:
    """An interpreter is known by its links in /proc."""

    @staticmethod
    def process(proc: Path, executable: str, command: bytes) -> set[str]:
        """Prefixes of process 7."""
        (proc / "7").mkdir()
        (proc / "7/exe").symlink_to(executable)
        (proc / "7/cmdline").write_bytes(command)
        return python_prefixes(Processes(proc), 7)

    def test_executable_and_virtual_environment(self, tmp_path: Path) -> None:
        found = self.process(tmp_path, "/usr/bin/python3.12", b"/srv/job/.venv/bin/python\0train.py\0")

        assert found == {"usr", "srv/job/.venv"}

    def test_name_without_a_folder_is_the_executable(self, tmp_path: Path) -> None:
        """Found along PATH."""
        assert self.process(tmp_path, "/opt/conda/bin/python3.11", b"python\0train.py\0") == {"opt/conda"}

    def test_other_programs_have_none(self, tmp_path: Path) -> None:
        assert self.process(tmp_path, "/usr/bin/pythonic-tool", b"/usr/bin/pythonic-tool\0") == set()

    def test_process_that_has_ended_has_none(self, tmp_path: Path) -> None:
        assert python_prefixes(Processes(tmp_path), 7) == set()
