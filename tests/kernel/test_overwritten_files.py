"""Files that do not hold still: a library is overwritten, moved, cut, linked or completed, and no job dies of its probes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from exporter.host.libraries import LibraryKind
from exporter.kernel.abi import Api
from tests.support.discovering import Scene, discovering
from tests.support.mounts import MountNamespace, mount_namespace
from tests.support.traced import eventually
from tests.support.versions import NAME, Versions, ended, made, overwrite

# Maps a file as code, prints `ready`, and stays until its input ends.
MAPS_AS_CODE = """
import mmap, os, sys
file = os.open(sys.argv[1], os.O_RDONLY)
mapping = mmap.mmap(file, 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
print("ready", flush=True)
sys.stdin.read()
"""
Overwritten = Callable[[Path, bytes], None]


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> Versions:
    """Versions 1 to 9."""
    return Versions(tmp_path_factory.mktemp("versions"), range(1, 10))


@pytest.fixture
def scene() -> Iterator[Scene]:
    """Nothing attached yet; by the best kind this kernel has."""
    with discovering(apis=frozenset({Api.RUNTIME})) as found:
        yield found


@pytest.fixture
def inside() -> Iterator[MountNamespace]:
    with mount_namespace() as found:
        yield found


def _ran(scene: Scene, job: subprocess.Popen[str]) -> tuple[tuple[int, str], dict[str, int]]:
    """Its exit code and version, and what was counted of it."""
    version, calls = made(job), scene.calls(job.pid)
    return (ended(job), version), calls


def _truncated(library: Path, content: bytes) -> None:
    """By its path, and then written with seeks, as `dd` does."""
    os.truncate(library, 0)
    subprocess.run(["dd", f"of={library}", "bs=4096", "conv=notrunc", "status=none"], input=content, check=True)


def _through_a_link(library: Path, content: bytes) -> None:
    link = library.with_name("cache")
    link.hardlink_to(library)
    overwrite(link, content)
    link.unlink()


def _in_a_shared_mapping(library: Path, content: bytes) -> None:
    """As linkers write."""
    script = (
        "import mmap, sys\nfile = open(sys.argv[1], 'r+b')\ncontent = sys.stdin.buffer.read()\n"
        "file.truncate(len(content))\nmmap.mmap(file.fileno(), 0)[:] = content\n"
    )
    subprocess.run([sys.executable, "-c", script, library], input=content, check=True)


def _by_rsync(library: Path, content: bytes) -> None:
    source = library.with_name("source")
    source.write_bytes(content)
    subprocess.run(["rsync", "--inplace", "--ignore-times", source, library], check=True)


WAYS = (overwrite, _truncated, _through_a_link, _in_a_shared_mapping, _by_rsync)


class TestOverwritten:
    """A library with probes is written to between two runs of its job."""

    @pytest.mark.parametrize("write", WAYS)
    def test_job_runs_the_new_version_and_its_calls_are_counted(
        self, scene: Scene, versions: Versions, tmp_path: Path, write: Overwritten
    ) -> None:
        """Probes in the middle of the instructions of version 7 would end it."""
        library = versions.installed(tmp_path / "lib", 1)
        with versions.program(library, 23) as job:
            scene.walk_all()
            assert _ran(scene, job) == ((0, "1"), {"cudaEventRecord": 23})
        write(library, versions.content(7))

        with versions.program(library, 29) as job:
            scene.walk_all()
            assert _ran(scene, job) == ((0, "7"), {"cudaEventRecord": 29})
        assert scene.discovery.changed == {("runtime",): 1}

    def test_probes_are_gone_before_the_first_byte_is_written(
        self, scene: Scene, versions: Versions, tmp_path: Path
    ) -> None:
        """A job that starts before the next walk runs without them."""
        library = versions.installed(tmp_path / "lib", 1)
        with versions.program(library, 0):
            scene.walk_all()
            assert scene.probed(library.parent) == [NAME]
            with library.open("r+b"):
                assert scene.probed(library.parent) == []
        overwrite(library, versions.content(7))

        with versions.program(library, 29) as job:
            assert (made(job), ended(job)) == ("7", 0)

    def test_writer_that_does_not_wait_is_refused_once(self, scene: Scene, versions: Versions, tmp_path: Path) -> None:
        """O_NONBLOCK, which truncate(1) uses."""
        library = versions.installed(tmp_path / "lib", 1)
        with versions.program(library, 0):
            scene.walk_all()
            with pytest.raises(BlockingIOError):
                os.open(library, os.O_WRONLY | os.O_NONBLOCK)
            eventually(lambda: not scene.probed(library.parent), "the probes are removed")

            os.close(os.open(library, os.O_WRONLY | os.O_NONBLOCK))

    def test_twenty_versions_in_a_row(self, scene: Scene, versions: Versions, tmp_path: Path) -> None:
        library = versions.installed(tmp_path / "lib", 1)
        for turn in range(20):
            number = 1 + turn * 4 % 9
            overwrite(library, versions.content(number))
            with versions.program(library, 23) as job:
                scene.walk_all()
                result = _ran(scene, job)
            assert result == ((0, str(number)), {"cudaEventRecord": 23})

    def test_in_a_container(self, scene: Scene, versions: Versions, tmp_path: Path, inside: MountNamespace) -> None:
        """The file is of the overlay's upper layer, where it was written before."""
        versions.installed(tmp_path / "layer", 1)
        merged = inside.overlay("merged", tmp_path / "layer", tmp_path)
        library = inside.seen(merged) / NAME
        overwrite(library, versions.content(2))
        for number in (2, 7):
            overwrite(library, versions.content(number))
            with versions.program(library, 23) as job:
                scene.walk_all()
                result = _ran(scene, job)
            assert result == ((0, str(number)), {"cudaEventRecord": 23})

    def test_that_is_replaced_stays_probed_for_those_who_have_it(
        self, scene: Scene, versions: Versions, tmp_path: Path
    ) -> None:
        """`mv new library`: no file is written to, and both are counted."""
        library = versions.installed(tmp_path / "lib", 1)
        with versions.program(library, 23) as old:
            scene.walk_all()
            versions.installed(tmp_path / "new", 7).replace(library)
            with versions.program(library, 29) as new:
                scene.walk_all()
                first = _ran(scene, old)
                second = _ran(scene, new)

        assert first == ((0, "1"), {"cudaEventRecord": 23})
        assert second == ((0, "7"), {"cudaEventRecord": 29})
        assert scene.discovery.changed == {}


class TestBeingWritten:
    def test_file_is_probed_when_it_is_closed(self, scene: Scene, versions: Versions, tmp_path: Path) -> None:
        """Not while it may be written to, which is counted."""
        library = versions.installed(tmp_path / "lib", 1)
        with versions.program(library, 23) as job:
            with library.open("r+b"):
                scene.walk_all()
                assert scene.probed(library.parent) == []
                assert scene.discovery.failures["runtime", "written"] == 1
            scene.walk_all()
            assert _ran(scene, job) == ((0, "1"), {"cudaEventRecord": 23})

    @pytest.mark.parametrize("half", [b"", b"\x7fELF", "header"])
    def test_half_a_file_is_read_again_when_it_is_complete(
        self, scene: Scene, versions: Versions, tmp_path: Path, half: bytes | str
    ) -> None:
        """A download that goes on: what was mapped of it was no library."""
        library, content = versions.installed(tmp_path / "lib", 1), versions.content(7)
        library.write_bytes(half if isinstance(half, bytes) else content[: len(content) // 2] + bytes(100))
        with subprocess.Popen(
            [sys.executable, "-c", MAPS_AS_CODE, library], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as early:
            assert early.stdout is not None
            if half:
                assert early.stdout.readline() == b"ready\n"
            scene.walk_all()
            assert scene.probed(library.parent) == []
        overwrite(library, content)

        with versions.program(library, 29) as job:
            scene.walk_all()
            assert _ran(scene, job) == ((0, "7"), {"cudaEventRecord": 29})


class TestUnguarded:
    """On a file system without leases, as NFS: ramfs stands for it, since the exporter takes leases on those it knows alone."""

    @pytest.fixture
    def library(self, inside: MountNamespace, versions: Versions, tmp_path: Path) -> Path:
        folder = inside.seen(inside.mount("ramfs", "none", tmp_path / "memory"))
        return versions.installed(folder, 1)

    @staticmethod
    def _is_unprobed(scene: Scene, library: Path) -> bool:
        """By its inode: the path is another one in the namespace of the mount."""
        scene.discovery.detach_unguarded()
        return library.stat().st_ino not in {file.first_met[0] for file in scene.discovery.probed()}

    def test_job_runs_what_was_written_after_the_one_before_has_ended(
        self, scene: Scene, versions: Versions, library: Path
    ) -> None:
        """The probes are removed when no process has the file any more."""
        with versions.program(library, 23) as job:
            scene.walk_all()
            assert _ran(scene, job) == ((0, "1"), {"cudaEventRecord": 23})
        eventually(lambda: self._is_unprobed(scene, library), "the probes are removed")
        overwrite(library, versions.content(7))

        with versions.program(library, 29) as job:
            scene.walk_all()
            assert _ran(scene, job) == ((0, "7"), {"cudaEventRecord": 29})

    def test_what_was_written_under_a_running_job_is_probed_again(
        self, scene: Scene, versions: Versions, library: Path
    ) -> None:
        """It is found by the next look at any job, and later ones run."""
        with versions.program(library, 0):
            scene.walk_all()
            assert not self._is_unprobed(scene, library)
            overwrite(library, versions.content(7))
            scene.walk_all()

            with versions.program(library, 29) as job:
                assert _ran(scene, job) == ((0, "7"), {"cudaEventRecord": 29})
        assert scene.discovery.changed == {("runtime",): 1}

    def test_file_that_no_process_maps_is_not_probed_in_advance(self, scene: Scene, library: Path) -> None:
        scene.discovery.prepare(os.getpid(), library, LibraryKind.RUNTIME, scene.reader)

        assert list(scene.discovery.probed()) == []
