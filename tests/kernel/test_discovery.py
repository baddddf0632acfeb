"""Discovery of library files in the running kernel: wherever they are, once each, and only while they are mapped."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import gpustall_standin as standin
from exporter.config.probes import AttachKind
from exporter.host.elf import read_elf
from exporter.host.libraries import MappedLibrary, SkippedLibrary
from exporter.host.likely_libraries import of_python
from exporter.host.processes import Processes
from exporter.host.reader import TenantReader
from exporter.host.reader_documents import ExaminedLibrary
from exporter.kernel.operations import NUMBERS
from tests.support.discovering import LIBRARIES, Scene, copied, discovering, recorded
from tests.support.held_calls import held_calls, program, trained, without_rank
from tests.support.patience import PATIENCE_SECONDS, line_of
from tests.support.requirements import need_command
from tests.support.silent_files import served
from tests.support.traced import eventually

# Maps a file as code, as the loader does, prints `ready`, and stays until its input ends.
MAPS_AS_CODE = """
import mmap, os, sys
file = os.open(sys.argv[1], os.O_RDONLY)
mapping = mmap.mmap(file, 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
print("ready", flush=True)
sys.stdin.read()
"""


# The same, and for each line of its input the next file in its place.
SWAPS = """
import ctypes, mmap, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype, libc.mmap.argtypes = ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
place, size = None, os.path.getsize(sys.argv[1])
for path in sys.argv[1:]:
    flags = mmap.MAP_PRIVATE | (0x10 if place else 0)  # MAP_FIXED
    place = libc.mmap(place, size, mmap.PROT_READ | mmap.PROT_EXEC, flags, os.open(path, os.O_RDONLY), 0)
    print("ready", flush=True)
    sys.stdin.readline()
"""


class Hurried(TenantReader):
    """A reader that is overtaken: before it opens a library, something happens."""

    before_opening: Callable[[], None]

    def inspect(self, tgid: int, library: MappedLibrary, symbols: Collection[str]) -> ExaminedLibrary | SkippedLibrary:
        self.before_opening()
        return super().inspect(tgid, library, symbols)


@pytest.fixture
def scene() -> Iterator[Scene]:
    """Nothing attached yet; by the best kind this kernel has."""
    with discovering() as found:
        yield found


class TestWhere:
    """The mapped file counts, not its path."""

    @pytest.mark.parametrize("kind", [AttachKind.SESSION, AttachKind.MULTI])
    def test_libraries_of_a_virtual_environment(self, kind: AttachKind, tmp_path: Path) -> None:
        """Found in /proc by name, attached by each kind that probes a whole library at once."""
        folder = copied(tmp_path / ".venv/lib/python3.11/site-packages/nvidia/lib")
        with discovering(kind) as scene, held_calls("cudaEventRecord:23", libraries=folder) as calls:
            scene.walk_all()
            calls.make()

            assert scene.calls(calls.tgids[0]) == recorded(23)
            assert scene.probed(folder) == list(LIBRARIES)
            assert {one.attachment.kind for one in scene.discovery.probed() if one.attachment} == {kind}
            assert scene.drops() == {}

    def test_two_copies_are_two_files(self, scene: Scene, tmp_path: Path) -> None:
        """Two environments at the same time; each process's calls count once."""
        one, other = copied(tmp_path / "one"), copied(tmp_path / "other")
        with (
            held_calls("cudaEventRecord:23", libraries=one) as first,
            held_calls("cudaEventRecord:29", libraries=other) as second,
        ):
            scene.walk_all()
            first.make()
            second.make()

            assert scene.calls(first.tgids[0]) == recorded(23)
            assert scene.calls(second.tgids[0]) == recorded(29)
            assert (scene.probed(one), scene.probed(other)) == (list(LIBRARIES), list(LIBRARIES))

    def test_a_hard_link_is_the_same_file(self, scene: Scene, tmp_path: Path) -> None:
        """Package managers link instead of copying: attached once, so 23 calls are 23."""
        folder, linked = copied(tmp_path / "cache"), tmp_path / "environment"
        linked.mkdir()
        for name in LIBRARIES:
            (linked / name).hardlink_to(folder / name)
        with (
            held_calls("cudaEventRecord:23", libraries=folder) as first,
            held_calls("cudaEventRecord:29", libraries=linked) as second,
        ):
            scene.walk_all()
            first.make()
            second.make()

            assert scene.calls(first.tgids[0]) == recorded(23)
            assert scene.calls(second.tgids[0]) == recorded(29)
            assert sorted(scene.probed(folder) + scene.probed(linked)) == list(LIBRARIES)

    def test_a_bind_mount_in_a_container_is_the_same_file(self, scene: Scene, tmp_path: Path) -> None:
        """The driver's libraries are mounted into every container: another path, in another mount namespace."""
        need_command("unshare", "util-linux")
        folder, mounted = copied(tmp_path / "host"), tmp_path / "container"
        mounted.mkdir()
        script = 'mount --bind "$0" "$1" && shift && exec "$@"'
        inside = ("unshare", "--mount", "sh", "-c", script, str(folder), str(mounted))
        with (
            held_calls("cudaEventRecord:23", libraries=folder) as first,
            held_calls("cudaEventRecord:29", libraries=mounted, before=inside) as second,
        ):
            scene.walk_all()
            first.make()
            second.make()

            assert list(mounted.iterdir()) == []
            assert scene.calls(first.tgids[0]) == recorded(23)
            assert scene.calls(second.tgids[0]) == recorded(29)
            assert sorted(scene.probed(folder) + scene.probed(mounted)) == list(LIBRARIES)

    @pytest.mark.parametrize("is_replaced", [False, True])
    def test_file_deleted_after_it_was_mapped_is_probed(
        self, scene: Scene, tmp_path: Path, *, is_replaced: bool
    ) -> None:
        """An upgrade under a running job: the mapped file is probed, not its replacement."""
        folder = copied(tmp_path / "upgraded")
        with held_calls("cudaEventRecord:23", libraries=folder) as calls:
            for name in LIBRARIES:
                (folder / name).unlink()
                if is_replaced:
                    (folder / name).write_text("half an upgrade")
            scene.walk_all()
            calls.make()

            assert scene.calls(calls.tgids[0]) == recorded(23)


class TestUsersFileSystem:
    """A user serves the libraries of a job, and could stop the kernel in the middle of a probe."""

    @pytest.mark.parametrize("is_detached", [False, True])
    def test_its_files_are_not_probed(self, scene: Scene, tmp_path: Path, *, is_detached: bool) -> None:
        """Nor once its mount is detached, after which it is in no list."""
        libraries, mounted = copied(tmp_path / "libraries"), tmp_path / "mounted"
        with served(mounted, libraries, 65534) as files, held_calls(libraries=mounted):
            if is_detached:
                files.detach()
            scene.walk_all()
            probed, failures = scene.probed(mounted), scene.discovery.failures

        assert probed == []
        assert sum(count for (_, reason), count in failures.items() if reason == "user_file_system") == len(LIBRARIES)


class TestSwapped:
    """A process has another file in the place of a library by the time the reader opens what is mapped there."""

    @pytest.mark.parametrize("is_library", [False, True], ids=["garbage", "library without calls"])
    def test_library_is_probed_in_the_processes_of_others(self, tmp_path: Path, *, is_library: bool) -> None:
        """What was found there is nothing that is known of the library."""
        folder, other = copied(tmp_path / "shared"), tmp_path / "other"
        library = folder / "libcudart.so.12"
        if is_library:
            shutil.copy("/proc/self/exe", other)
            with other.open("ab") as file:
                file.truncate(max(other.stat().st_size, library.stat().st_size))
        else:
            other.write_bytes(b"x" * library.stat().st_size)
        swapping = subprocess.Popen(
            [sys.executable, "-c", SWAPS, library, other],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        with swapping, discovering(owner_of=lambda tgid: str(tgid == swapping.pid)) as scene:
            assert line_of(swapping) == "ready\n"
            assert swapping.stdin is not None

            def swap() -> None:
                assert swapping.stdin is not None
                swapping.stdin.write("\n")
                swapping.stdin.flush()
                assert line_of(swapping) == "ready\n"

            hurried = Hurried(Processes(), PATIENCE_SECONDS)
            hurried.before_opening = swap
            for _ in scene.discovery.look_at(swapping.pid, hurried):
                pass
            before = scene.probed(folder)
            with held_calls("cudaEventRecord:23", libraries=folder) as calls:
                scene.walk_all()
                calls.make()
                counted = scene.calls(calls.tgids[0])
            hurried.close()
            swapping.kill()

        assert before == []
        assert counted == recorded(23)


class TestLinkage:
    def test_nccl_is_found_inside_of_libtorch_cuda(self, scene: Scene) -> None:
        """As in some of PyTorch's wheels: every NCCL operation, as often as the program made it."""
        with program("trainer-torch", "--ranks=1", "--quiet") as other:
            eventually(lambda: self._attached(scene, "libtorch_cuda.so"), f"libtorch_cuda of {other.pid} is probed")
            truth = trained("trainer-torch")
            counted = scene.calls(truth["tgid"])

        made = {s: one["count"] for s, one in truth["calls"]["nccl"].items() if s in NUMBERS and one["count"]}

        assert made["ncclAllReduce"] > 100
        assert {operation: counted.get(operation) for operation in made} == made

    @staticmethod
    def _attached(scene: Scene, name: str) -> bool:
        scene.walk_all()
        return name in scene.probed(standin.build_dir())


class TestImpostors:
    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (b"#!/bin/sh\n", "malformed"),
            (b"\x7fELF" + bytes(8192), "malformed"),
            ("cut", "malformed"),
            ("broken", "malformed"),
            ("libc", "no_symbols"),
        ],
    )
    def test_invalid_library_is_counted_once(
        self, scene: Scene, tmp_path: Path, content: bytes | str, reason: str
    ) -> None:
        """By reason; the next walk does not open it again, and other files are not affected."""
        impostor, folder = tmp_path / "libcudart.so.12", copied(tmp_path / "real")
        impostor.write_bytes(self._content(content))
        with _mapped(impostor), held_calls("cudaEventRecord:23", libraries=folder) as calls:
            scene.walk_all()
            scene.walk_all()
            calls.make()

            assert scene.discovery.failures["runtime", reason] == 1
            assert scene.probed(tmp_path) == []
            assert scene.calls(calls.tgids[0]) == recorded(23)

    @staticmethod
    def _content(content: bytes | str) -> bytes:
        if content == "cut":  # a download that was interrupted
            return (standin.build_dir() / "libcudart.so.12").read_bytes()[:20_000]
        if content == "broken":  # its headers are good, the hash table of its symbols is not
            library = standin.build_dir() / "libcudart.so.12"
            with library.open("rb") as file:
                tables = read_elf(file.fileno()).tables
            assert tables is not None
            assert tables.gnu_hash_offset is not None
            words_at = tables.gnu_hash_offset + 8
            whole = library.read_bytes()
            return whole[:words_at] + (3).to_bytes(4, "little") + whole[words_at + 4 :]
        if content == "libc":  # a library, but not this one
            maps = Path("/proc/self/maps").read_text()
            return Path(next(line.split()[-1] for line in maps.splitlines() if "/libc.so" in line)).read_bytes()
        assert isinstance(content, bytes)
        return content


@contextmanager
def _mapped(file: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that maps a file as code."""
    process = subprocess.Popen(
        [sys.executable, "-c", MAPS_AS_CODE, str(file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with process:
        try:
            assert line_of(process) == "ready\n"
            yield process
        finally:
            process.kill()


class TestPrepared:
    """Files that are probed before a process maps them."""

    @staticmethod
    def _prepare(scene: Scene, prefix: Path) -> Path:
        """An environment with the libraries; what the search finds in it is probed."""
        folder = copied(prefix / "lib/python3.12/site-packages/nvidia/all/lib")
        for path, kind in of_python(Path("/"), str(prefix).lstrip("/")):
            scene.discovery.prepare(os.getpid(), path, kind, scene.reader)
        return folder

    def test_first_call_of_the_first_process_is_counted(self, scene: Scene, tmp_path: Path) -> None:
        """It creates its communicator as soon as the library is mapped; /proc is not looked at before the process has ended."""
        folder = self._prepare(scene, tmp_path / ".venv")
        done = subprocess.run(
            [standin.build_dir() / "calls", "ncclAllReduce:23", "cudaEventRecord:23"],
            env={**without_rank(), "LD_LIBRARY_PATH": str(folder)},
            capture_output=True,
            timeout=PATIENCE_SECONDS,
            check=True,
        )
        tgid = json.loads(done.stdout.splitlines()[0])["tgid"]

        assert scene.calls(tgid).items() >= {"ncclCommInitRank": 1, "ncclAllReduce": 23, **recorded(23)}.items()

    def test_file_stays_probed_without_a_user_and_is_probed_once(self, scene: Scene, tmp_path: Path) -> None:
        """Three walks detach any other file; a process that maps it is found by the next one."""
        folder = self._prepare(scene, tmp_path / ".venv")
        for _ in range(3):
            scene.walk_all()
        with held_calls("cudaEventRecord:23", libraries=folder) as calls:
            scene.walk_all()
            calls.make()

            assert scene.probed(folder) == list(LIBRARIES)
            assert scene.calls(calls.tgids[0]).items() >= recorded(23).items()


class TestEnd:
    """Files that are not mapped any more."""

    def test_two_walks_without_users_detach(self, scene: Scene, tmp_path: Path) -> None:
        """One walk does not, because a process may restart. A file that is mapped again is probed again."""
        folder = copied(tmp_path / "libraries")
        with held_calls("cudaEventRecord:1", libraries=folder):
            scene.walk_all()
        scene.walk_all()
        after_one = scene.probed(folder)
        scene.walk_all()
        after_two = scene.probed(folder)
        with held_calls("cudaEventRecord:23", libraries=folder) as calls:
            scene.walk_all()
            calls.make()
            counted = scene.calls(calls.tgids[0])

        assert (after_one, after_two) == (list(LIBRARIES), [])
        assert counted == recorded(23)

    def test_descriptors_do_not_leak(self, scene: Scene, tmp_path: Path) -> None:
        """Five rounds of attaching and detaching, one with an invalid library, leave as many open files as before."""
        impostor = tmp_path / "libnccl.so.2"
        impostor.write_bytes(b"\x7fELF" + bytes(8192))
        folders = [copied(tmp_path / f"round-{number}") for number in range(5)]
        scene.walk_all()  # starts the reader
        before = self._ours(scene, folders)
        for folder in folders:
            with held_calls("cudaEventRecord:1", libraries=folder), _mapped(impostor):
                scene.walk_all()
                while_mapped = self._ours(scene, folders)
            scene.walk_all()
            scene.walk_all()

        assert while_mapped > before
        assert self._ours(scene, folders) == before

    @staticmethod
    def _ours(scene: Scene, folders: list[Path]) -> int:
        """Open descriptors of this process, without those of libraries that other processes map."""
        foreign = sum(1 for one in scene.discovery.probed() if one.attachment and Path(one.path).parent not in folders)
        return len(os.listdir("/proc/self/fd")) - foreign  # noqa: PTH208 - as short as it gets


class TestClose:
    def test_nothing_is_probed_after_close(self, tmp_path: Path) -> None:
        """The process continues without probes."""
        folder = copied(tmp_path / "libraries")
        with discovering() as scene, held_calls("cudaEventRecord:23", libraries=folder) as calls:
            scene.walk_all()
            scene.discovery.close()
            calls.make()

            assert scene.calls(calls.tgids[0]) == {}
            assert list(scene.discovery.probed()) == []
