"""Where environments and containers have their libraries: each call is counted once."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpustall_standin as standin
from tests.support.discovering import LIBRARIES, Scene, copied, discovering, recorded
from tests.support.held_calls import held_calls
from tests.support.mounts import MountNamespace, mount_namespace
from tests.support.requirements import need_command


@pytest.fixture
def scene() -> Iterator[Scene]:
    """Nothing attached yet; by the best kind this kernel has."""
    with discovering() as found:
        yield found


@pytest.fixture
def inside() -> Iterator[MountNamespace]:
    """A mount namespace."""
    with mount_namespace() as found:
        yield found


def environment(folder: Path) -> Path:
    """A conda environment: the program in bin finds its libraries in lib by a path relative to itself. Returns the program."""
    need_command("cc", "gcc")
    objects = standin.source_dir() / "objects"
    copied(folder / "lib")
    (folder / "bin").mkdir()
    program = folder / "bin/calls"
    parts = [*sorted((objects / "calls").glob("*.o")), *sorted((objects / "program").glob("*.o"))]
    libraries = [folder / "lib" / name for name in LIBRARIES]
    rpath = "-Wl,-rpath,$ORIGIN/../lib"
    command = ["cc", "-o", program, *parts, objects / "lib/waiting.o", *libraries, rpath, "-pthread", "-ldl", "-lrt"]
    subprocess.run(command, check=True)
    return program


class TestEnvironments:
    """Environments of conda and of venv."""

    def test_libraries_by_a_relative_path(self, scene: Scene, tmp_path: Path) -> None:
        """The linker maps `bin/../lib`; the kernel names the file itself."""
        program = environment(tmp_path / "environment")
        with held_calls("cudaEventRecord:23", executable=program) as calls:
            scene.walk_all()
            calls.make()

            assert scene.calls(calls.tgids[0]) == recorded(23)
            assert scene.probed(tmp_path / "environment/lib") == list(LIBRARIES)

    def test_environment_that_was_moved(self, scene: Scene, tmp_path: Path) -> None:
        """While its program runs, as `conda-pack` users do: the files are the same, so the second run is counted as well."""
        program = environment(tmp_path / "before")
        with held_calls("cudaEventRecord:23", executable=program) as first:
            scene.walk_all()
            (tmp_path / "before").rename(tmp_path / "after")
            with held_calls("cudaEventRecord:29", executable=tmp_path / "after/bin/calls") as second:
                scene.walk_all()
                first.make()
                second.make()

                assert scene.calls(first.tgids[0]) == recorded(23)
                assert scene.calls(second.tgids[0])["cudaEventRecord"] == 29
                assert len(scene.probed_below(tmp_path)) == len(LIBRARIES)


class TestForwardCompatibility:
    """A container with a newer driver library than the node's, in /usr/local/cuda/compat."""

    def test_each_process_is_counted_at_its_own_driver(
        self, scene: Scene, inside: MountNamespace, tmp_path: Path
    ) -> None:
        """The node's is mounted into the container as well, and is not used there."""
        node = copied(tmp_path / "node")
        newer = copied(tmp_path / "image")
        with (newer / "libcuda.so.1").open("ab") as file:
            file.write(b"newer")
        compat = Path("/usr/local/cuda/compat")
        inside.mount("tmpfs", "none", Path("/usr/local"))
        inside.run("mkdir", "-p", compat)
        inside.run("cp", newer / "libcuda.so.1", compat)
        with (
            held_calls("cudaEventRecord:23", libraries=node) as outside,
            held_calls(
                "cudaEventRecord:29",
                before=inside.enter,
                environment={"LD_LIBRARY_PATH": f"{compat}:{node}"},
            ) as contained,
        ):
            scene.walk_all()
            outside.make()
            contained.make()

            assert scene.calls(outside.tgids[0]) == recorded(23)
            assert scene.calls(contained.tgids[0]) == recorded(29)
            assert scene.probed(compat) == ["libcuda.so.1"]
            assert scene.probed(node) == list(LIBRARIES)
