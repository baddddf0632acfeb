"""host.unnamed_libraries: runtimes and NCCL in files of other names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from exporter.host import unnamed_libraries
from exporter.host.libraries import LibraryKind
from exporter.host.processes import Processes
from exporter.host.unnamed_libraries import DEFINED, REMEMBERED_SECONDS, Examined, UnnamedLibraries
from tests.unit.host.elf_image import Image, Sym
from tests.unit.host.process_tree import mapping_files

DRIVER = "/usr/lib/libcuda.so.1"
PLAIN = Image([Sym("other")]).content()


def having(*kinds: LibraryKind, but: str = "") -> bytes:
    """A library with all functions of these kinds but one."""
    names = [name for kind in kinds for name in DEFINED[kind] if name != but]
    return Image([Sym(name) for name in names]).content()


RUNTIME = having(LibraryKind.RUNTIME)


class Clock:
    """Seconds that a test sets; each reading takes `step` of them."""

    def __init__(self, step: float = 0.0) -> None:
        self.now = 0.0
        self.step = step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


def examined(proc: Path, files: dict[str, bytes]) -> list[tuple[LibraryKind, str]]:
    """Kind and path of all that is found in a process with these files."""
    unnamed = UnnamedLibraries(mapping_files(proc, 7, files), Clock())
    found = unnamed.examine(7)
    assert (found.is_complete, found.left_out) == (True, 0)
    assert unnamed.libraries(7)[1:] == found.libraries
    return [(one.kind, one.mapping.shown_path) for one in found.libraries]


class TestFound:
    """Files that contain a whole library."""

    @pytest.mark.parametrize("kind", list(DEFINED))
    def test_library_under_another_name(self, tmp_path: Path, kind: LibraryKind) -> None:
        assert examined(tmp_path, {DRIVER: PLAIN, "/opt/libndj4cuda.so": having(kind)}) == [
            (kind, "/opt/libndj4cuda.so")
        ]

    def test_two_libraries_in_one_file(self, tmp_path: Path) -> None:
        found = examined(tmp_path, {DRIVER: PLAIN, "/opt/libtorch_cuda_cpp.so": having(*DEFINED)})

        assert {kind for kind, _ in found} == set(DEFINED)

    def test_executable_counts_as_well(self, tmp_path: Path) -> None:
        assert examined(tmp_path, {DRIVER: PLAIN, "/opt/train": RUNTIME}) == [(LibraryKind.RUNTIME, "/opt/train")]

    @pytest.mark.parametrize("name", DEFINED[LibraryKind.RUNTIME])
    def test_file_without_one_of_the_functions_is_none(self, tmp_path: Path, name: str) -> None:
        """An interposer has some."""
        content = having(LibraryKind.RUNTIME, but=name)

        assert examined(tmp_path, {DRIVER: PLAIN, "/opt/libinterposer.so": content}) == []

    def test_file_with_a_library_s_name_is_found_by_its_name(self, tmp_path: Path) -> None:
        """And not a second time."""
        unnamed = UnnamedLibraries(
            mapping_files(tmp_path, 7, {DRIVER: PLAIN, "/opt/libcudart.so.12": RUNTIME}), Clock()
        )

        assert unnamed.examine(7) == Examined([])
        assert [one.kind for one in unnamed.libraries(7)] == [LibraryKind.DRIVER, LibraryKind.RUNTIME]

    def test_file_that_cannot_be_read_is_left_out(self, tmp_path: Path) -> None:
        assert examined(tmp_path, {DRIVER: PLAIN, "/opt/libother.so": b"no library"}) == []


class TestCost:
    """How often files are read."""

    def test_process_without_the_driver_is_not_examined(self, tmp_path: Path) -> None:
        """Most processes of a node: they do not use CUDA."""
        unnamed = UnnamedLibraries(mapping_files(tmp_path, 7, {"/opt/libndj4cuda.so": RUNTIME}), Clock())

        assert unnamed.libraries(7) == []

    def test_file_is_read_once(self, tmp_path: Path) -> None:
        """What is in its place afterwards is not seen until it is examined again."""
        files = {DRIVER: PLAIN, "/opt/libndj4cuda.so": RUNTIME}
        clock = Clock()
        unnamed = UnnamedLibraries(mapping_files(tmp_path, 7, files), clock)
        first = unnamed.examine(7)
        (tmp_path / "7/root/opt/libndj4cuda.so").write_bytes(PLAIN)
        second = unnamed.examine(7)
        clock.now = REMEMBERED_SECONDS
        third = unnamed.examine(7)

        assert [len(found.libraries) for found in (first, second, third)] == [1, 1, 0]

    def test_some_files_at_a_time(self, tmp_path: Path) -> None:
        """Each reading of the clock takes 6 ms of 10: after one file the rest waits, and each time one is read."""
        files = {DRIVER: PLAIN} | {f"/opt/lib{number}.so": RUNTIME for number in range(3)}
        unnamed = UnnamedLibraries(mapping_files(tmp_path, 7, files), Clock(0.006))
        steps = []
        while not steps or not steps[-1].is_complete:
            steps.append(unnamed.examine(7))

        assert [len(found.libraries) for found in steps] == [1, 2, 3]

    def test_all_libraries_are_found_at_once_by_who_may_wait(self, tmp_path: Path) -> None:
        files = {DRIVER: PLAIN} | {f"/opt/lib{number}.so": RUNTIME for number in range(3)}
        unnamed = UnnamedLibraries(mapping_files(tmp_path, 7, files), Clock(0.006))

        assert len(unnamed.all_libraries(7)) == 1 + 3

    def test_small_files_are_not_read(self, tmp_path: Path) -> None:
        """Most extensions of an interpreter have less code than a runtime."""
        processes: Processes = mapping_files(tmp_path, 7, {DRIVER: PLAIN, "/opt/libsmall.so": RUNTIME})
        maps = tmp_path / "7/maps"
        maps.write_text(maps.read_text().replace("200000-220000", "200000-201000"))

        assert UnnamedLibraries(processes, Clock()).examine(7) == Examined([])


class TestManyFiles:
    """More than are examined: two here."""

    @pytest.fixture(autouse=True)
    def _two(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(unnamed_libraries, "FILES_MAX", 2)

    @pytest.fixture
    def maps(self, tmp_path: Path) -> Callable[..., Processes]:
        """Has the process map the driver and these of its files: what is mapped last comes first."""
        contents = {"a.so": PLAIN, "b.so": PLAIN, "c.so": PLAIN, "libext.so": RUNTIME}
        processes = mapping_files(tmp_path, 7, {DRIVER: PLAIN} | {f"/opt/{name}": contents[name] for name in contents})
        maps = tmp_path / "7/maps"
        lines = {line.rpartition("/")[2]: line for line in maps.read_text().splitlines(keepends=True)}

        def only(*names: str) -> Processes:
            maps.write_text("".join(lines[f"{name}\n"] for name in ("libcuda.so.1", *names)))
            return processes

        return only

    def test_library_that_is_known_is_found_behind_any_number_of_files(self, maps: Callable[..., Processes]) -> None:
        """They were mapped after it. Otherwise it would read as unmapped, and lose its probes."""
        unnamed = UnnamedLibraries(maps("libext.so"), Clock())
        first = unnamed.examine(7)
        maps("a.so", "b.so", "c.so", "libext.so")
        second = unnamed.examine(7)

        assert (len(first.libraries), first.left_out) == (1, 0)
        assert (len(second.libraries), second.left_out) == (1, 2)
        assert len(unnamed.libraries(7)) == 2

    def test_it_is_examined_first_when_files_are_examined_again(self, maps: Callable[..., Processes]) -> None:
        """Twice: what was known is remembered for one more time only."""
        clock = Clock()
        unnamed = UnnamedLibraries(maps("libext.so"), clock)
        unnamed.examine(7)
        maps("a.so", "b.so", "c.so", "libext.so")
        found = []
        for _ in range(3):
            clock.now += REMEMBERED_SECONDS
            found.append(len(unnamed.examine(7).libraries))

        assert found == [1, 1, 1]

    def test_files_without_room_to_be_remembered_are_left_out(
        self, maps: Callable[..., Processes], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Those of all processes."""
        monkeypatch.setattr(unnamed_libraries, "REMEMBERED_MAX", 1)
        found = UnnamedLibraries(maps("a.so", "libext.so"), Clock()).examine(7)

        assert (found.libraries, found.left_out) == ([], 1)
