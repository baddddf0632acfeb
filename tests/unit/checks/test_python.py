"""checks.python: which interpreters GPU processes have, and what to do about those that cannot be read."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from exporter.checks.check import Check, CheckState
from exporter.checks.python import ROWS_MAX, FoundInterpreter, check, examined, rows
from exporter.errors import NotReadable
from exporter.host.interpreters import MappedInterpreter
from exporter.python.interpreter import Refusal
from tests.unit.config.command_line import loaded
from tests.unit.host.process_tree import process

PATH = "/usr/bin/python3.11"
READABLE = FoundInterpreter(PATH, "3.11", None)


class TestRows:
    def test_interpreter_that_can_be_read_is_ok(self) -> None:
        assert list(rows({READABLE: [4711]})) == [
            Check("Python", CheckState.OK, f"Python 3.11 in {PATH}, pid 4711: chains name lines of Python")
        ]

    def test_three_processes_are_named_and_the_others_counted(self) -> None:
        (found,) = rows({READABLE: [1, 2, 3, 4, 5]})

        assert "pid 1, 2, 3 and 2 more: " in found.found

    @pytest.mark.parametrize("refusal", Refusal)
    def test_one_that_cannot_be_read_has_the_reason_and_what_to_do(self, refusal: Refusal) -> None:
        """And comes first."""
        found, other = rows({READABLE: [1], FoundInterpreter("/opt/python", "", refusal): [2]})

        assert found.state is CheckState.WARNING
        assert found.found.startswith("Python of an unknown version in /opt/python, pid 2: no lines of Python, it")
        assert found.remedy
        assert other.state is CheckState.OK

    def test_many_kinds_are_cut(self) -> None:
        *_, last = rows({FoundInterpreter(f"/opt/{n:02}/python", "3.12", None): [n] for n in range(ROWS_MAX + 3)})

        assert last.found == "and 3 more kinds of interpreters"


class TestCheck:
    def test_machine_without_a_gpu_process_loads_nothing(self, tmp_path: Path) -> None:
        process(tmp_path, 7, maps=b"")
        (found,) = check(loaded(f"--path.procfs={tmp_path}"))

        assert (found.state, found.found) == (
            CheckState.OK,
            "no GPU process has a Python interpreter at the moment",
        )

    def test_disabled_stacks_are_a_warning(self) -> None:
        (found,) = check(loaded("--stacks.python=false"))

        assert (found.state, found.remedy) == (CheckState.WARNING, "leave --stacks.python on")


class TestExamined:
    def test_stripped_file_has_the_version_that_its_variable_says(self) -> None:
        """Py_Version of 3.15.0a1 is at 0x70000; there is no PyCode_Type."""

        def read(address: int, size: int) -> bytes:
            assert (address, size) == (0x70000, 8)
            return struct.pack("<Q", 0x030F00A1)

        found = examined(read, MappedInterpreter(PATH, 0x50000, 0, 0x70000))

        assert found == FoundInterpreter(PATH, "3.15", Refusal.SYMBOLS)

    def test_process_that_ended_has_no_version(self) -> None:
        def read(_address: int, _size: int) -> bytes:
            raise NotReadable("gone")

        found = examined(read, MappedInterpreter(PATH, 0x50000, 0x60000, 0x70000))

        assert found == FoundInterpreter(PATH, "", Refusal.UNREADABLE)
