"""Other ways to a library than linking with it: each call is counted once."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.kernel.abi import Api
from tests.support.discovering import Scene, discovering
from tests.support.patience import line_of
from tests.support.versions import Versions, made

SOURCE = Path(__file__).with_name("interposed.c")


@pytest.fixture
def scene() -> Iterator[Scene]:
    """Nothing attached yet; by the best kind this kernel has."""
    with discovering(apis=frozenset({Api.RUNTIME})) as found:
        yield found


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> Versions:
    return Versions(tmp_path_factory.mktemp("versions"), range(1, 2))


class TestCountedOnce:
    @pytest.mark.parametrize("name", ["libprofiler.so", "libcudart.so.11"])
    def test_library_that_is_put_in_front(self, scene: Scene, versions: Versions, tmp_path: Path, name: str) -> None:
        """With LD_PRELOAD: 23 calls pass through it, whether its name is that of a runtime or not."""
        library, interposer = versions.installed(tmp_path / "lib", 1), tmp_path / name
        subprocess.run(["cc", "-O2", "-fPIC", "-shared", "-DINTERPOSER", SOURCE, "-o", interposer], check=True)
        with versions.program(library, 23, LD_PRELOAD=str(interposer)) as job:
            scene.walk_all()

            assert made(job) == "1"
            assert scene.calls(job.pid) == {"cudaEventRecord": 23}

    def test_library_that_is_loaded_twice(self, scene: Scene, versions: Versions, tmp_path: Path) -> None:
        """dlmopen() maps it at another place: 23 calls in each namespace are 46."""
        library, program = versions.installed(tmp_path / "lib", 1), tmp_path / "interposed"
        subprocess.run(["cc", "-O2", SOURCE, "-o", program], check=True)
        with subprocess.Popen(
            [program, library, "23"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        ) as job:
            assert line_of(job) == "ready\n"
            scene.walk_all()

            assert made(job) == "made"
            assert scene.calls(job.pid) == {"cudaEventRecord": 46}
