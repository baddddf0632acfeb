"""Errors put into the code on purpose, one at a time: `python -m tests.mutants` shows which of them the gate catches."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import NamedTuple


class Mutant(NamedTuple):
    """An error of mutants.toml, whose head describes the fields."""

    file: str
    before: str
    after: str
    first: tuple[str, ...] = ()

    @property
    def is_in_kernel(self) -> bool:
        """Whether the kernel programs must be built again."""
        return self.file.startswith("bpf/")


def mutants() -> list[Mutant]:
    """All errors, in the order of their file."""
    found = tomllib.loads(Path(__file__).with_name("mutants.toml").read_text(encoding="utf-8"))
    return [Mutant(**one | {"first": tuple(one.get("first", ()))}) for one in found["mutant"]]
