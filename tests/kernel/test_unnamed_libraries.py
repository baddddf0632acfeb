"""A runtime or NCCL in a file of another name: its calls are counted, each once, or the log says what may be missed."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpustall_standin as standin
from exporter.host.unnamed_libraries import CODE_BYTES_MIN
from tests.support.discovering import LIBRARIES, Scene, copied, discovering, recorded
from tests.support.held_calls import held_calls, program, trained
from tests.support.requirements import need_command
from tests.support.traced import eventually
from tests.support.unnamed_libraries import NCCL, RUNTIME, linked


@pytest.fixture
def scene() -> Iterator[Scene]:
    """Nothing attached yet; by the best kind this kernel has."""
    need_command("cc", "gcc")
    with discovering() as found:
        yield found


# Maps all files of a folder at SIGUSR2.
MAPPER = """
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
static void map_all(int number)
{
	DIR *folder = opendir(getenv("MAPPED_FOLDER"));
	for (struct dirent *one; (one = readdir(folder));) {
		int fd = openat(dirfd(folder), one->d_name, O_RDONLY);
		mmap(NULL, 32 << 10, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
		close(fd);
	}
	closedir(folder);
}
__attribute__((constructor)) static void begin(void)
{
	signal(SIGUSR2, map_all);
}
"""


def _mapper(folder: Path) -> Path:
    """The library that does it."""
    library = folder / "mapper.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", library], input=MAPPER, text=True, check=True)
    return library


class TestOtherName:
    """A library that another name hides."""

    def test_runtime_in_a_library_of_another_name(self, scene: Scene, tmp_path: Path) -> None:
        """As ND4J has it."""
        executable = linked(tmp_path, "libndj4cuda.so", RUNTIME)
        with held_calls("cudaEventRecord:23", executable=executable) as calls:
            scene.walk_all()
            calls.make()

            assert scene.calls(calls.tgids[0]) == recorded(23)
            assert scene.probed(tmp_path) == ["libndj4cuda.so"]
            assert scene.drops() == {}

    def test_nccl_in_a_library_of_another_name(self, scene: Scene, tmp_path: Path) -> None:
        """As in some builds of PyTorch."""
        executable = linked(tmp_path, "libtorch_python.so", NCCL)
        with held_calls("ncclAllReduce:23", executable=executable) as calls:
            scene.walk_all()
            calls.make()

            assert scene.calls(calls.tgids[0])["ncclAllReduce"] == 23
            assert scene.probed(tmp_path) == ["libtorch_python.so"]

    def test_both_in_one_library(self, scene: Scene, tmp_path: Path) -> None:
        """As libtorch_cuda_cpp.so may have them: the file is probed as two libraries."""
        executable = linked(tmp_path, "libtorch_cuda_cpp.so", RUNTIME, NCCL)
        with held_calls("cudaEventRecord:23", "ncclAllReduce:29", executable=executable) as calls:
            scene.walk_all()
            truth = calls.make()
            counted = scene.calls(calls.tgids[0])

        assert truth
        assert counted["ncclAllReduce"] == 29
        assert counted["cudaEventRecord"] == counted["cuEventRecord"] >= 23
        assert scene.probed(tmp_path) == ["libtorch_cuda_cpp.so"] * 2

    def test_writer_of_a_library_with_both_waits_until_neither_is_probed(self, scene: Scene, tmp_path: Path) -> None:
        """Each has a lease of the file; a breakpoint of either would end the job that maps what is written."""
        executable = linked(tmp_path, "libtorch_cuda_cpp.so", RUNTIME, NCCL)
        with held_calls("cudaEventRecord:23", executable=executable):
            scene.walk_all()
            before = scene.probed(tmp_path)
            with (tmp_path / "libtorch_cuda_cpp.so").open("r+b"):
                after = scene.probed(tmp_path)

        assert (before, after) == (["libtorch_cuda_cpp.so"] * 2, [])

    def test_second_name_of_a_known_library_is_not_probed_again(self, scene: Scene, tmp_path: Path) -> None:
        """A hard link: one process has the usual name, another one the other."""
        executable = linked(tmp_path, "libndj4cuda.so", RUNTIME)
        usual = copied(tmp_path / "usual")
        (usual / "libcudart.so.12").unlink()
        (usual / "libcudart.so.12").hardlink_to(tmp_path / "libndj4cuda.so")
        with (
            held_calls("cudaEventRecord:23", libraries=usual) as first,
            held_calls("cudaEventRecord:29", executable=executable) as second,
        ):
            scene.walk_all()
            first.make()
            second.make()

            assert scene.calls(first.tgids[0]) == recorded(23)
            assert scene.calls(second.tgids[0]) == recorded(29)

    def test_file_stays_probed_while_it_is_mapped(self, scene: Scene, tmp_path: Path) -> None:
        """Whatever the reader remembers."""
        executable = linked(tmp_path, "libndj4cuda.so", RUNTIME)
        with held_calls("cudaEventRecord:23", executable=executable):
            for _ in range(4):
                scene.walk_all()
                scene.reader.end()

            assert scene.probed(tmp_path) == ["libndj4cuda.so"]
        for _ in range(3):
            scene.walk_all()

        assert scene.probed(tmp_path) == []

    def test_file_stays_probed_however_many_files_are_mapped_after_it(self, scene: Scene, tmp_path: Path) -> None:
        """1,100, more than are examined. A reader that is started again does not remember where the runtime is."""
        many = tmp_path / "many"
        many.mkdir()
        for number in range(1_100):
            (many / f"{number}.so").write_bytes(bytes(CODE_BYTES_MIN))
        maps_all = {"LD_PRELOAD": str(_mapper(tmp_path)), "MAPPED_FOLDER": str(many)}
        with held_calls(
            "cudaEventRecord:23", executable=linked(tmp_path, "libext.so", RUNTIME), environment=maps_all
        ) as calls:
            scene.walk_all()
            maps = Path(f"/proc/{calls.tgids[0]}/maps")
            os.kill(calls.tgids[0], signal.SIGUSR2)
            eventually(lambda: maps.read_text().count(f"{many}/") == 1_100, "all are mapped")
            for _ in range(4):
                scene.walk_all()
                scene.reader.end()
            calls.make()

            assert scene.probed(tmp_path) == ["libext.so"]
            assert scene.calls(calls.tgids[0]) == recorded(23)
            assert scene.discovery.failures["any", "unexamined"] == 1

    def test_library_that_has_some_of_the_functions_is_none(self, scene: Scene, tmp_path: Path) -> None:
        """An interposer: what it passes on would be counted twice."""
        source = tmp_path / "interposer.c"
        source.write_text(
            "#define _GNU_SOURCE\n#include <dlfcn.h>\n"
            "int cudaEventRecord(void *event, void *stream)\n"
            '{ int (*next)(void *, void *) = dlsym(RTLD_NEXT, "cudaEventRecord"); return next(event, stream); }\n'
            '__asm__(".section .text.padding,\\"ax\\"\\n.fill 65536,1,0x90\\n.previous");\n'
        )
        interposer = tmp_path / "libinterposer.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", interposer, source, "-ldl"], check=True)
        folder = copied(tmp_path / "libraries")
        with held_calls("cudaEventRecord:23", libraries=folder, environment={"LD_PRELOAD": str(interposer)}) as calls:
            scene.walk_all()
            calls.make()

            assert scene.calls(calls.tgids[0]) == recorded(23)
            assert (scene.probed(tmp_path), scene.probed(folder)) == ([], list(LIBRARIES))


class TestStatic:
    """libcudart_static.a is in the executable, as nvcc links by default."""

    def test_runtime_in_an_executable_is_counted(self, scene: Scene) -> None:
        """By its symbol table: it exports none of the functions."""
        with program("trainer-static", "--ranks=1", "--quiet") as other:
            eventually(lambda: self._attached(scene, "trainer-static"), f"the executable of {other.pid} is probed")
            truth = trained("trainer-static")
            counted = scene.calls(truth["tgid"])

        launches = truth["calls"]["runtime"]["cudaLaunchKernel"]["count"]

        assert launches > 1000
        assert (counted["cudaLaunchKernel"], counted["cuLaunchKernel"]) == (launches, launches)

    def test_stripped_executable_is_counted_at_the_driver_and_named(
        self, scene: Scene, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Its runtime cannot be seen, and there is one line about it in the log."""
        need_command("strip", "binutils")
        executable = tmp_path / "trainer-stripped"
        shutil.copy(standin.build_dir() / "trainer-static", executable)
        subprocess.run(["strip", executable], check=True)
        caplog.set_level(logging.INFO)
        environment = {"LD_LIBRARY_PATH": str(standin.build_dir())}
        said = f"({executable}) uses the CUDA driver, and no CUDA runtime was found"
        with program(str(executable), "--ranks=1", "--quiet", environment=environment):
            eventually(lambda: self._says(scene, caplog, said), "the log says that there is no runtime")
            scene.walk_all()
            counted = eventually(lambda: self._launches(scene), "launches are counted")

        assert counted["cuLaunchKernel"] > 0
        assert "cudaLaunchKernel" not in counted
        assert caplog.text.count(said) == 1

    @staticmethod
    def _attached(scene: Scene, name: str) -> bool:
        scene.walk_all()
        return name in scene.probed(standin.build_dir())

    @staticmethod
    def _says(scene: Scene, caplog: pytest.LogCaptureFixture, text: str) -> bool:
        scene.walk_all()
        return text in caplog.text

    @staticmethod
    def _launches(scene: Scene) -> dict[str, int] | None:
        tgids = [row.tgid for row in scene.tables.read().processes.values()]
        return next((found for tgid in tgids if (found := scene.calls(tgid)).get("cuLaunchKernel")), None)
