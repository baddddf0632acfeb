"""host.interpreters: where the variables of Python interpreters are in a process."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from exporter.host.interpreters import (
    ASYNCIO_FILES_MAX,
    CODE_TYPE,
    INTERPRETERS_MAX,
    REMEMBERED_SECONDS,
    RUNTIME,
    VERSION,
    Interpreters,
    MappedInterpreter,
)
from tests.support.requirements import need_command
from tests.unit.host.elf_image import CODE_ADDRESS, CODE_OFFSET, FUNC, OBJECT, Image, Sym, with_sections
from tests.unit.host.process_tree import mapping_files
from tests.unit.host.test_unnamed_libraries import Clock

PYTHON = Image(
    [Sym(RUNTIME, 0x601100, OBJECT), Sym(CODE_TYPE, 0x601200, OBJECT), Sym(VERSION, 0x601300, OBJECT)]
).content()
OTHER = Image([Sym("other")]).content()
BASE = (1 << 20) - (CODE_ADDRESS - CODE_OFFSET)
"""What is added to the addresses in the first file that a process maps."""


def found_in(proc: Path, files: dict[str, bytes]) -> list[MappedInterpreter]:
    """What is found in a process that maps these files."""
    found, is_complete = Interpreters(mapping_files(proc, 7, files), Clock()).examine(7)
    assert is_complete
    return found


class TestFound:
    @pytest.mark.parametrize(
        "path", ["/usr/bin/python3.11", "/usr/lib/libpython3.12.so.1.0", "/opt/train", "/opt/plugin.so"]
    )
    def test_interpreter_in_a_file_of_any_name(self, tmp_path: Path, path: str) -> None:
        """The symbol decides."""
        expected = MappedInterpreter(path, BASE + 0x601100, BASE + 0x601200, BASE + 0x601300)

        assert found_in(tmp_path, {path: PYTHON}) == [expected]

    def test_symbol_that_is_not_there_has_no_address(self, tmp_path: Path) -> None:
        """Py_Version is there since 3.11."""
        older = Image([Sym(RUNTIME, 0x601100, OBJECT), Sym(CODE_TYPE, 0x601200, OBJECT)]).content()

        assert [one.version for one in found_in(tmp_path, {"/usr/lib/libpython3.9.so.1.0": older})] == [0]

    def test_two_interpreters_in_one_process(self, tmp_path: Path) -> None:
        """The likely one comes first."""
        found = found_in(tmp_path, {"/opt/plugin.so": PYTHON, "/usr/bin/python3.11": PYTHON})

        assert [one.path for one in found] == ["/usr/bin/python3.11", "/opt/plugin.so"]

    def test_interpreters_of_one_process_are_bounded(self, tmp_path: Path) -> None:
        files = {f"/opt/lib{number}.so": PYTHON for number in range(INTERPRETERS_MAX + 3)}

        assert len(found_in(tmp_path, files)) == INTERPRETERS_MAX

    @pytest.mark.parametrize("path", ["/opt/plugin.so", "/usr/bin/python3.11"])
    def test_interpreter_that_exports_nothing(self, path: str, tmp_path: Path) -> None:
        """Linked statically into a program or a library, and not stripped; as `cc` writes it."""
        need_command("cc", "gcc")
        (tmp_path / "test.c").write_text(
            "static int _PyRuntime = 7; int main(void) { return *(volatile int *)&_PyRuntime; }"
        )
        subprocess.run(["cc", "-O0", "-o", tmp_path / "program", tmp_path / "test.c"], check=True)
        processes = mapping_files(tmp_path, 7, {path: (tmp_path / "program").read_bytes()})
        maps = tmp_path / "7/maps"  # the code of a program is not at its beginning
        maps.write_text(maps.read_text().replace("r-xp 00000000", "r-xp 00001000"))
        found, _ = Interpreters(processes, Clock()).examine(7)

        assert [(one.path, one.runtime > 0, one.code_type) for one in found] == [(path, True, 0)]


class TestNotFound:
    @pytest.mark.parametrize(
        "symbol",
        [Sym(RUNTIME, 0x601100, FUNC), Sym(RUNTIME, 0x601100, OBJECT, section=0), Sym("_PyRuntime2", kind=OBJECT)],
    )
    def test_file_that_does_not_define_it(self, tmp_path: Path, symbol: Sym) -> None:
        """A function of that name, an import as in each extension module, and a longer name."""
        assert found_in(tmp_path, {"/opt/lib/_json.cpython-311.so": Image([symbol]).content()}) == []

    @pytest.mark.parametrize("content", [b"", b"no library", PYTHON[:700]])
    def test_file_that_is_no_library(self, tmp_path: Path, content: bytes) -> None:
        assert found_in(tmp_path, {"/usr/bin/python3.11": content}) == []


class TestCost:
    def test_file_is_read_once(self, tmp_path: Path) -> None:
        """What is in its place afterwards is not seen until it is examined again."""
        clock = Clock()
        interpreters = Interpreters(mapping_files(tmp_path, 7, {"/opt/train": PYTHON}), clock)
        first = interpreters.examine(7)
        (tmp_path / "7/root/opt/train").write_bytes(OTHER)
        second = interpreters.examine(7)
        clock.now = REMEMBERED_SECONDS
        third = interpreters.examine(7)

        assert [len(found) for found, _ in (first, second, third)] == [1, 1, 0]

    def test_some_files_at_a_time(self, tmp_path: Path) -> None:
        """Each reading of the clock takes 12 ms of 10: one file is read each time, the likely one first."""
        files = {f"/opt/lib{number}.so": OTHER for number in range(3)} | {"/usr/bin/python3.11": PYTHON}
        interpreters = Interpreters(mapping_files(tmp_path, 7, files), Clock(0.012))
        steps = [interpreters.examine(7)]
        while not steps[-1][1]:
            steps.append(interpreters.examine(7))

        assert [len(found) for found, _ in steps] == [1] * 5

    def test_process_without_one_ends_as_well(self, tmp_path: Path) -> None:
        """Three files, each for what it exports and then for all that it defines, and one more look."""
        files = {f"/opt/lib{number}.so": OTHER for number in range(3)}
        interpreters = Interpreters(mapping_files(tmp_path, 7, files), Clock(0.012))
        steps = [interpreters.examine(7)]
        while not steps[-1][1]:
            steps.append(interpreters.examine(7))

        assert [found for found, _ in steps] == [[]] * 7


class TestAsyncio:
    """ASYNCIO: a module that has the section, at an address of its own."""

    ASYNCIO = with_sections(OTHER, {".data": (2, 0x601000), ".AsyncioDebug": (2, 0x601400)})

    @pytest.mark.parametrize(
        "path",
        [
            "/usr/bin/python3.14",
            "/usr/lib/libpython3.14.so.1.0",
            "/opt/lib-dynload/_asyncio.cpython-314-x86_64-linux-gnu.so",
        ],
    )
    def test_section_of_the_module_or_of_the_program_that_it_is_part_of(self, tmp_path: Path, path: str) -> None:
        processes = mapping_files(tmp_path, 7, {"/usr/lib/libc.so.6": OTHER, path: self.ASYNCIO})

        assert Interpreters(processes, Clock()).asyncio_sections(7) == [BASE + (1 << 20) + 0x601400]

    @pytest.mark.parametrize("path", ["/opt/_json.cpython-314-x86_64-linux-gnu.so", "/opt/my_asyncio.so"])
    def test_other_files_are_not_read(self, tmp_path: Path, path: str) -> None:
        assert Interpreters(mapping_files(tmp_path, 7, {path: self.ASYNCIO}), Clock()).asyncio_sections(7) == []

    @pytest.mark.parametrize("content", [OTHER, PYTHON, b"", with_sections(OTHER, {".AsyncioDebug": (0, 0x601400)})])
    def test_file_without_the_section_has_none(self, tmp_path: Path, content: bytes) -> None:
        """One that is not loaded is none."""
        processes = mapping_files(tmp_path, 7, {"/usr/bin/python3.14": content})

        assert Interpreters(processes, Clock()).asyncio_sections(7) == []

    def test_files_are_bounded(self, tmp_path: Path) -> None:
        """A process may map hundreds of that name."""
        files = {f"/opt/{number}/_asyncio.so": OTHER for number in range(ASYNCIO_FILES_MAX)}
        processes = mapping_files(tmp_path, 7, files | {"/opt/last/_asyncio.so": self.ASYNCIO})

        assert Interpreters(processes, Clock()).asyncio_sections(7) == []
