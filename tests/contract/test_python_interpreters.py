"""python: files, names and lines of real interpreters, compared with what each of them says about its own code and frames."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from exporter.host.interpreters import MappedInterpreter
from exporter.host.processes import Processes
from exporter.host.reader import TenantReader
from exporter.python.code_objects import CodeObject, CodeObjects
from exporter.python.interpreter import Interpreter, InterpreterSymbols, interpreter_of
from exporter.python.layout import ABSENT
from tests.support.interpreters import VERSIONS, interpreters, of_version
from tests.support.patience import PATIENCE_SECONDS
from tests.support.python_memory import ProcessMemory, frames, threads

TARGET = Path(__file__).parents[1] / "support" / "python_target.py"
STEP_IN_LONG_FUNCTIONS = 499
"""A prime. The table of a function of 3,000 lines is read from its start for each instruction."""
SHOWN_FILES = (
    *(
        "/tmp/größe.py",
        "/tmp/名前.py",
        "/tmp/😀.py",
        "/tmp/bad\ufffd.py",
        "/tmp/a\ufffdb\ufffd[31m.py",
        "/tmp/\ufffdfile.py",
    ),
    *("…" + "x" * 1016 + "/end.py", ""),
)
"""FILES of the target, as they are shown: 1,024 characters, the last ones of a longer path."""


class Target(NamedTuple):
    """A process that waits, and what it has said. memory: of the process."""

    tgid: int
    said: Any
    memory: ProcessMemory
    mapped: list[MappedInterpreter]

    @property
    def version(self) -> tuple[int, ...]:
        return tuple(self.said["version"][:2])

    def interpreter(self) -> Interpreter:
        """The only one of the process."""
        (one,) = self.mapped
        found = interpreter_of(self.memory, InterpreterSymbols(one.runtime, one.code_type, one.version))
        assert isinstance(found, Interpreter), found
        return found

    def code(self, address: int) -> CodeObject:
        found = CodeObjects().at(self.tgid, self.memory, self.interpreter().code, address)
        assert found is not None
        return found


def found_in(tgid: int) -> list[MappedInterpreter]:
    """By the reader, in as many steps as it takes."""
    reader = TenantReader(Processes(), PATIENCE_SECONDS)
    try:
        is_complete = False
        while not is_complete:
            found, is_complete = reader.interpreters_of(tgid)
        return found
    finally:
        reader.close()


HERE = dict(interpreters(oldest=(3, 7)))
MISSING = [
    version for version in VERSIONS if not any(name.rpartition("-")[2].startswith(f"{version}.") for name in HERE)
]


@pytest.fixture(scope="module", params=[*HERE, *MISSING])
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    """Each interpreter that is here; a version without one is skipped by its name."""
    path = HERE[request.param] if request.param in HERE else of_version(request.param)[1]
    with subprocess.Popen([path, "-I", TARGET], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        said = json.loads(child.stdout.readline())
        with ProcessMemory(child.pid) as memory:
            yield Target(child.pid, said, memory, found_in(child.pid))
        child.stdin.close()
        child.wait(PATIENCE_SECONDS)


def instruction(target: Target, function: Any, unit: int) -> int:
    """What a frame has while this instruction runs. said.begin: where instructions begin in a code object, since 3.11."""
    if target.version >= (3, 11):
        return int(function["address"] + target.said["begin"] + 2 * unit)
    return unit if target.version == (3, 10) else 2 * unit


class TestInterpreter:
    def test_process_has_one_of_the_version_that_runs(self, target: Target) -> None:
        """Whatever the file is called: a program, or libpython. 3.7 and 3.8 look like 3.9."""
        assert target.interpreter().version == max(target.version, (3, 9))

    def test_thread_states_are_those_of_all_threads(self, target: Target) -> None:
        """By the id that this version has."""
        layout = target.interpreter().layout
        ids = {ident if layout.thread_native_id == ABSENT else native for native, ident, _ in target.said["stacks"]}

        assert ids <= set(threads(target.memory, layout))

    def test_frames_are_those_that_the_interpreter_reports(self, target: Target) -> None:
        """File, name and running line of each, innermost first: of generators, coroutines, callbacks, class bodies and exec()."""
        layout, codes = target.interpreter().layout, CodeObjects()
        states = threads(target.memory, layout)
        for native, ident, expected in target.said["stacks"]:
            state = states[ident if layout.thread_native_id == ABSENT else native]
            found = []
            for address, at in frames(target.memory, layout, state):
                code = codes.at(target.tgid, target.memory, target.interpreter().code, address)
                assert code is not None
                found.append([code.file, code.qualified_name, code.line_of(at)])

            assert found == expected


class TestCodeObjects:
    @pytest.mark.parametrize("group", ["own", "stdlib", "long"])
    def test_names_are_those_of_the_object(self, target: Target, group: str) -> None:
        for function in target.said["functions"][group]:
            code = target.code(function["address"])

            assert [code.file, code.qualified_name, code.first_line] == [
                function[one] for one in ("file", "name", "first_line")
            ]

    def test_file_names_are_printable_and_bounded(self, target: Target) -> None:
        """Latin-1, two and four bytes a character, a byte that is not UTF-8, control characters, 3,013 characters, none."""
        found = [target.code(function["address"]).file for function in target.said["functions"]["files"]]

        assert found == list(SHOWN_FILES)

    @pytest.mark.parametrize(("group", "step"), [("own", 1), ("stdlib", 1), ("long", STEP_IN_LONG_FUNCTIONS)])
    def test_every_instruction_has_the_line_that_dis_shows(self, target: Target, group: str, step: int) -> None:
        for function in target.said["functions"][group]:
            code, lines = target.code(function["address"]), function["lines"]
            units = range(0, len(lines), step)

            assert [code.line_of(instruction(target, function, unit)) for unit in units] == lines[::step]

    def test_function_that_has_not_begun_is_at_its_first_line(self, target: Target) -> None:
        """Its frame has the instruction before the first one."""
        for function in target.said["functions"]["own"]:
            before = (1 << 32) - 1 if target.version < (3, 11) else instruction(target, function, -1)

            assert target.code(function["address"]).line_of(before) == function["first_line"]

    def test_instruction_of_another_function_has_no_line(self, target: Target) -> None:
        if target.version < (3, 11):
            pytest.skip("a frame has a number before 3.11, and no address")
        function = target.said["functions"]["own"][0]
        code = target.code(function["address"])

        assert [code.line_of(instruction(target, function, unit)) for unit in (-2, len(function["lines"]))] == [
            None,
            None,
        ]

    def test_other_objects_are_no_code_objects(self, target: Target) -> None:
        """The type itself is an object as well, and a frame may have None."""
        layout = target.interpreter().code

        assert CodeObjects().at(target.tgid, target.memory, layout, layout.code_type) is None
