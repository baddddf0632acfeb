"""python: interpreters in programs of other names, in processes that run on, and in memory with errors."""

from __future__ import annotations

import random
import subprocess
import sysconfig
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from exporter.errors import NotReadable
from exporter.python import code_objects, interpreter
from exporter.python.code_objects import CodeObjects
from exporter.python.interpreter import Interpreter, InterpreterSymbols, Refusal, interpreter_of
from tests.contract.test_python_interpreters import found_in
from tests.support.interpreters import interpreters
from tests.support.python_memory import ProcessMemory, frames, states, threads
from tests.support.requirements import need_command

PROGRAM = """
#include <Python.h>
int main(int argc, char **argv)
{
	Py_Initialize();
	if (argc < 2 || Py_TYPE(Py_None) == &PyCode_Type)
		return 1;
	return PyRun_SimpleString(argv[1]);
}
"""
WAITS = "def step():\n    import sys\n    print(flush=True)\n    sys.stdin.read()\n\n\nstep()\n"
LIBRARIES = ("-lm", "-ldl", "-lutil", "-lpthread")

BUSY = """
import json, sys, threading
def work(number):
    return sum(one * one for one in range(number)) if number % 2 else sorted(range(number), key=lambda one: -one)
def loop():
    while True:
        work(17), work(18), json.dumps({"a": [1, 2, 3]})
def churn():
    while True:
        thread = threading.Thread(target=work, args=(5,))
        thread.start()
        thread.join()
for function in (loop, loop, churn):
    threading.Thread(target=function, daemon=True).start()
print(flush=True)
sys.stdin.read()
"""
SEVERAL = """
import os, sys
try:
    import _interpreters as interpreters
    run = interpreters.exec
except ImportError:
    import _xxsubinterpreters as interpreters
    run = interpreters.run_string
def step():
    run(interpreters.create(), "number = 1")
    run(interpreters.create(), "import os\\ndef inner():\\n    os.write(1, b'x\\\\n')\\n    os.read(0, 1)\\ninner()")
step()
"""
every_interpreter = pytest.mark.parametrize("name", [name for name, _ in interpreters()])


@contextmanager
def waiting(*command: str | Path) -> Iterator[int]:
    """A process that has written a line; its tgid."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdout.readline()
        yield child.pid
        child.kill()


def only_one(tgid: int, memory: ProcessMemory) -> Interpreter | Refusal:
    (found,) = found_in(tgid)
    return interpreter_of(memory, InterpreterSymbols(found.runtime, found.code_type, found.version))


def names_in(tgid: int) -> list[str]:
    """Names of the frames of the main thread, innermost first."""
    with ProcessMemory(tgid) as memory:
        found = only_one(tgid, memory)
        assert isinstance(found, Interpreter), found
        state = threads(memory, found.layout)[tgid]
        codes = [CodeObjects().at(tgid, memory, found.code, code) for code, _ in frames(memory, found.layout, state)]
        return [code.qualified_name for code in codes if code is not None]


def compiled(folder: Path, *options: str) -> Path:
    """The program, called `train`, with the interpreter that runs the tests."""
    need_command("cc", "gcc")
    include = Path(sysconfig.get_path("include"))
    if not (include / "Python.h").exists():
        pytest.skip(f"no Python.h in {include}: install the headers of this Python")
    (folder / "train.c").write_text(PROGRAM)
    subprocess.run(["cc", f"-I{include}", "-o", folder / "train", folder / "train.c", *options], check=True)
    return folder / "train"


def library() -> Path:
    folder, name = (sysconfig.get_config_var(one) for one in ("LIBDIR", "LDLIBRARY"))
    if not name or not name.endswith(".so") or not Path(folder, name).exists():
        pytest.skip("the Python that runs the tests has no shared library")
    return Path(folder, name)


def archive() -> Path:
    folder, name = (sysconfig.get_config_var(one) for one in ("LIBPL", "LIBRARY"))
    if not name or not Path(folder, name).exists():
        pytest.skip("the Python that runs the tests has no static library")
    return Path(folder, name)


class TestEmbedded:
    @pytest.mark.parametrize(
        "options", [("-fPIE", "-pie"), ("-fno-pic", "-no-pie")], ids=["copies nothing", "copies the type"]
    )
    def test_program_that_is_linked_to_the_library(self, options: tuple[str, ...], tmp_path: Path) -> None:
        """One that is not position-independent has a copy of PyCode_Type, which libpython uses."""
        shared = library()
        program = compiled(tmp_path, *options, str(shared), f"-Wl,-rpath,{shared.parent}")
        with waiting(program, WAITS) as tgid:
            assert names_in(tgid) == ["step", "<module>"]

    @pytest.mark.parametrize("options", [(), ("-rdynamic",)], ids=["exports nothing", "exports all"])
    def test_program_that_contains_the_interpreter(self, options: tuple[str, ...], tmp_path: Path) -> None:
        """Its own symbol table has it, if nothing is exported."""
        program = compiled(tmp_path, str(archive()), *options, *LIBRARIES)
        with waiting(program, WAITS) as tgid:
            assert names_in(tgid) == ["step", "<module>"]

    def test_process_without_python_has_none(self) -> None:
        with waiting("/bin/sh", "-c", "echo; exec sleep 1000") as tgid:
            assert found_in(tgid) == []


class TestRunning:
    @every_interpreter
    def test_process_that_runs_is_found(self, name: str) -> None:
        """Two threads compute, and others begin and end; a structure may have gone when it is read, which is rare."""
        with waiting(dict(interpreters())[name], "-c", BUSY) as tgid, ProcessMemory(tgid) as memory:
            (one,) = found_in(tgid)
            symbols = InterpreterSymbols(one.runtime, one.code_type, one.version)
            results = Counter(isinstance(interpreter_of(memory, symbols), Interpreter) for _ in range(100))

        assert results[True] >= 95


class TestSubinterpreters:
    @every_interpreter
    def test_newest_state_with_frames_is_the_innermost(self, name: str) -> None:
        """The main thread runs code of a second subinterpreter. In the first one it may have a state without frames."""
        with waiting(dict(interpreters())[name], "-c", SEVERAL) as tgid, ProcessMemory(tgid) as memory:
            found = only_one(tgid, memory)
            assert isinstance(found, Interpreter)
            walked = []
            for _, state in states(memory, found.layout):
                codes = [
                    CodeObjects().at(tgid, memory, found.code, code) for code, _ in frames(memory, found.layout, state)
                ]
                walked.append([code.qualified_name for code in codes if code is not None])

        assert [names for names in walked if names] == [["inner", "<module>"], ["step", "<module>"]]


class TestHostile:
    @every_interpreter
    def test_real_memory_with_errors_is_refused_or_named(self, name: str) -> None:
        """Every tenth read has another byte, another pointer, or fails; the reads stay bounded."""
        with waiting(dict(interpreters())[name], "-c", WAITS) as tgid, ProcessMemory(tgid) as memory:
            found = only_one(tgid, memory)
            assert isinstance(found, Interpreter)
            (state,) = threads(memory, found.layout).values()
            codes = [code for code, _ in frames(memory, found.layout, state)]
            for number in range(300):
                broken = BrokenMemory(memory, random.Random(number))
                result = interpreter_of(broken, InterpreterSymbols(found.layout.runtime, found.layout.code_type, 0))
                assert isinstance(result, Interpreter | Refusal)
                assert broken.reads <= interpreter.READS_MAX
                for code in codes:
                    broken.reads = 0
                    named = CodeObjects().at(tgid, broken, found.code, code)
                    assert broken.reads <= code_objects.READS_MAX
                    assert named is None or (named.file + named.qualified_name).isprintable()


class BrokenMemory:
    """Memory of a process with errors. reads: how many were made."""

    def __init__(self, memory: ProcessMemory, seed: random.Random) -> None:
        self._memory = memory
        self._seed = seed
        self.reads = 0

    def __call__(self, address: int, size: int) -> bytes:
        self.reads += 1
        content = bytearray(self._memory(address, size))
        if self._seed.random() < 0.1:
            at = self._seed.randrange(size)
            match self._seed.randrange(4):
                case 0:
                    content[at] ^= 1 << self._seed.randrange(8)
                case 1:
                    content[at & ~7 : (at & ~7) + 8] = (1 << 63).to_bytes(8, "little")[: size - (at & ~7)]
                case 2:
                    content[at & ~7 : (at & ~7) + 8] = address.to_bytes(8, "little")[: size - (at & ~7)]
                case _:
                    raise NotReadable("as if it had gone")
        return bytes(content)
