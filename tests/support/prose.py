"""Text that people read in the files of this tree: comments, strings, documents. For tests of wording and of paths."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = (".ci", "alerts", "bpf", "dashboards", "deploy", "docs", "exporter", "tests")
ROOT_FILES = ("Makefile", "pyproject.toml", "README.md", "CONTRIBUTING.md", "CHANGELOG.md")
BUILT = {"build", "objects", "__pycache__"}
NOT_PROSE = re.compile(r"(\.capsule|\.png|\.svg|\.pyc|\.sum|\.lock|LICENSE|requirements\.txt)$|^deploy/.*\.json$")
"""Data, pictures, licences, and copies of the boards."""
C_PROSE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', re.DOTALL)


def files() -> list[str]:
    """Every text file with prose, relative to the root."""
    paths = [ROOT / name for name in ROOT_FILES]
    for folder in FOLDERS:
        paths += [path for path in (ROOT / folder).rglob("*") if path.is_file() and not BUILT & set(path.parts)]
    names = sorted(path.relative_to(ROOT).as_posix() for path in paths)
    return [name for name in names if not NOT_PROSE.search(name)]


def prose(name: str) -> Iterator[tuple[int, str]]:
    """(line number, line) of comments and strings; all lines if the file is neither Python nor C."""
    try:
        text = (ROOT / name).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return
    if name.endswith(".py"):
        yield from python_prose(text)
    elif name.endswith((".c", ".h")):
        yield from c_prose(text)
    else:
        yield from enumerate(text.split("\n"), 1)


def python_prose(text: str) -> Iterator[tuple[int, str]]:
    """(line number, line) of comments and strings, and the names of tests as words."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME and token.string.startswith("test_"):
            yield token.start[0], token.string.replace("_", " ")
        elif token.type == tokenize.COMMENT or tokenize.tok_name[token.type] in ("STRING", "FSTRING_MIDDLE"):
            yield from enumerate(token.string.split("\n"), token.start[0])


def c_prose(text: str) -> Iterator[tuple[int, str]]:
    """(line number, line) of comments and strings."""
    for found in C_PROSE.finditer(text):
        yield from enumerate(found[0].split("\n"), text.count("\n", 0, found.start()) + 1)
