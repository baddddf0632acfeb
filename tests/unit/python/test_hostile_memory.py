"""python with hostile memory: a refusal or a name, never another exception, with a bounded number of reads."""

from __future__ import annotations

import random

import pytest

from exporter.python import code_objects, interpreter
from exporter.python.code_objects import CodeObjects
from exporter.python.interpreter import Interpreter, Refusal, interpreter_of
from tests.unit.python.changed_memory import ChangedMemory
from tests.unit.python.made_interpreter import MadeInterpreter, interpreter_layout

MUTANTS = 1_000
KINDS = [
    *((version, False) for version in ((3, 9), (3, 12), (3, 13), (3, 14))),
    *((version, True) for version in ((3, 13), (3, 14))),
]


class Victim:
    """An interpreter with two functions, whose memory is changed and restored."""

    def __init__(self, version: tuple[int, int], free_threaded: bool) -> None:
        self.made = MadeInterpreter(version, free_threaded=free_threaded)
        self.layout = interpreter_layout(self.made)
        name, table = self.made.text("step"), b"\xd9\x04\x08" * 40 + b"\xe8\x7f\x01\xf0\x48\x03\x00\x05\x06\xfb"
        self.codes = [self.made.code(self.made.text(f"/{one}.py"), name, 7, table) for one in ("a", "b")]
        self.made.link(self.codes)
        self.changed = ChangedMemory(self.made.memory, words=4)

    def change(self, seed: random.Random) -> None:
        """None of it stays for the next one."""
        self.changed.restore()
        self.changed.change(seed)

    def examine(self, seed: random.Random) -> None:
        """As a walk does, at most as often as it may read."""
        memory = self.made.memory
        before = memory.reads
        version = self.made.symbols.version if seed.random() < 0.5 else 0
        found = interpreter_of(memory, self.made.symbols._replace(version=version))
        assert isinstance(found, Interpreter | Refusal)
        assert memory.reads - before <= interpreter.READS_MAX
        layout = found.code if isinstance(found, Interpreter) else self.layout
        for address in (*self.codes, seed.choice(self.changed.places)):
            before = memory.reads
            code = CodeObjects().at(1, memory, layout, address)
            assert memory.reads - before <= code_objects.READS_MAX
            if code is not None:
                assert (code.file + code.qualified_name).isprintable()
                assert len(code.file) <= 1024 >= len(code.qualified_name)
                line = code.line_of(
                    seed.choice([address + layout.code_begin + 8, seed.randrange(200), seed.getrandbits(64)])
                )
                assert line is None or 0 <= line < 1 << 31


@pytest.mark.parametrize(("version", "free_threaded"), KINDS)
def test_changed_memory_is_refused_or_named(version: tuple[int, int], free_threaded: bool) -> None:
    """The same changes each time; a failure is reproduced by its number."""
    victim = Victim(version, free_threaded)
    for number in range(MUTANTS):
        seed = random.Random(number)
        victim.change(seed)
        victim.examine(seed)
