# SPDX-License-Identifier: Apache-2.0
"""What does a Dockerfile say? The part of its language that the one beside this is written in; anything else is refused.

In: texts of a Dockerfile and a .dockerignore. Out: stages of instructions, and which files are let through.
"""

from __future__ import annotations

import fnmatch
import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

WORDS = frozenset(
    "ARG CMD COPY ENTRYPOINT ENV EXPOSE FROM HEALTHCHECK LABEL RUN USER WORKDIR".split()  # noqa: SIM905 - reads better
)
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_FLAG = re.compile(r"--([a-z-]+)=(\S+)\s+")


class NotUnderstood(Exception):
    """The Dockerfile says something that is not understood here; it may be right even so."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """word: RUN. flags: what stands before the rest, as ("from", "build"). rest: as written, on one line."""

    word: str
    flags: tuple[tuple[str, str], ...]
    rest: str

    def words(self, variables: Mapping[str, str]) -> list[str]:
        """The rest as a shell would split it, variables replaced."""
        return [replaced(word, variables) for word in shlex.split(self.rest)]

    def strings(self) -> list[str]:
        """The rest as a list in JSON, the form in which no shell is asked."""
        found = json.loads(self.rest)
        if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
            raise NotUnderstood(f"{self.word} wants a list of strings: {self.rest}")
        return found

    def secrets(self) -> Iterator[tuple[str, str]]:
        """(id, where it is shown) of each secret that a RUN is given."""
        for name, text in self.flags:
            fields = dict(field.partition("=")[::2] for field in text.split(","))
            if name == "mount" and fields.get("type") == "secret":
                yield fields["id"], fields["target"]


@dataclass(frozen=True, slots=True)
class Stage:
    """base: what FROM names, variables replaced."""

    base: str
    name: str
    instructions: tuple[Instruction, ...]


def replaced(text: str, variables: Mapping[str, str]) -> str:
    """With the values of variables; one without a value is refused."""

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        if name not in variables:
            raise NotUnderstood(f"${name} has no value in: {text}")
        return variables[name]

    return _VARIABLE.sub(value, text)


def stages(text: str) -> tuple[Stage, ...]:
    """In order. Raises NotUnderstood."""
    variables: dict[str, str] = {}
    found: list[tuple[str, str, list[Instruction]]] = []
    for one in instructions(text):
        if one.word == "FROM":
            words = one.words(variables)
            if len(words) not in (1, 3) or one.flags:
                raise NotUnderstood(f"FROM {one.rest}")
            found.append((words[0], words[2] if len(words) == 3 else "", []))
        elif found:
            found[-1][2].append(one)
        elif one.word == "ARG":
            name, _, value = one.rest.partition("=")
            variables[name] = value
        else:
            raise NotUnderstood(f"{one.word} before the first FROM")
    return tuple(Stage(base, name, tuple(said)) for base, name, said in found)


def instructions(text: str) -> Iterator[Instruction]:
    """One after the other; comments and line ends within them are gone."""
    pending = ""
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        pending += line.strip()
        if pending.endswith("\\"):
            pending = pending[:-1].rstrip() + " "
            continue
        yield _instruction(pending)
        pending = ""
    if pending:
        raise NotUnderstood(f"ends within an instruction: {pending}")


def _instruction(line: str) -> Instruction:
    word, _, rest = line.partition(" ")
    if word not in WORDS:
        raise NotUnderstood(line)
    flags = []
    rest = rest.strip()
    while found := _FLAG.match(rest):
        flags.append((found[1], found[2]))
        rest = rest[found.end() :]
    return Instruction(word, tuple(flags), rest)


def is_let_through(path: str, ignore: Sequence[str]) -> bool:
    """Whether a file is part of the context. path: from its root. ignore: lines of .dockerignore; the last that fits decides."""
    result = True
    for line in ignore:
        pattern = line.strip().removeprefix("!").strip("/")
        if not pattern or pattern.startswith("#"):
            continue
        if any(_fits(part, pattern) for part in _with_parents(path)):
            result = line.strip().startswith("!")
    return result


def _with_parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]


def _fits(path: str, pattern: str) -> bool:
    """`*` stops at a slash; `**/` is any folders, or none."""
    if pattern.startswith("**/"):
        rest = pattern.removeprefix("**/")
        parts = path.split("/")
        return any(_fits("/".join(parts[start:]), rest) for start in range(len(parts)))
    wanted, there = pattern.split("/"), path.split("/")
    return len(wanted) == len(there) and all(map(fnmatch.fnmatchcase, there, wanted))
