"""Where CUDA and NCCL libraries lie that no process may have mapped yet.

In: the root directory of a mount namespace, and the prefixes of Python environments in it. Out: paths of files with such names.
Nothing is opened but the linker's cache. A directory may lie on a network file system that does not answer.
Source: ld.so(8), dl-cache.h of glibc; the layout of NVIDIA's, PyTorch's and conda's packages.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path, PurePath
from typing import Final

from exporter.errors import NotPossibleHere, ProcessGone
from exporter.host.libraries import LibraryKind, kind_of
from exporter.host.processes import Processes

CACHE_BYTES_MAX: Final = 8 * 1024 * 1024
COMMAND_BYTES_MAX: Final = 4 * 1024
FOLDERS_MAX: Final = 256
"""Folders that one pattern may match."""
ENTRIES_MAX: Final = 4_096
"""Entries of one folder that are looked at."""

LINKER_CACHE: Final = "etc/ld.so.cache"
_CACHED_PATH: Final = re.compile(rb"/[^\0]{1,4095}(?=\0)")
USUAL_FOLDERS: Final = (
    "usr/local/cuda*/lib64",
    "usr/local/cuda*/targets/*/lib",
    "usr/local/nvidia/lib64",
    "usr/lib/*-linux-gnu",
    "usr/lib64",
)
USUAL_PREFIXES: Final = ("usr", "usr/local", "opt/conda", "opt/venv", "opt/*/envs/*")
FOLDERS_OF_PREFIX: Final = ("lib", "lib/python3*/*-packages/nvidia/*/lib", "lib/python3*/*-packages/torch/lib")
"""In a conda environment, in NVIDIA's wheels, in PyTorch's."""

_INTERPRETER: Final = re.compile(rb"python[0-9.]*|pypy[0-9.]*")


def in_root(root: Path) -> Iterator[tuple[Path, LibraryKind]]:
    """What the linker finds without further paths, and what lies in the usual places below a root directory."""
    yield from _of_names(root / path.lstrip("/") for path in cached_paths(root / LINKER_CACHE))
    yield from _in_folders(root, USUAL_FOLDERS)
    for prefix in USUAL_PREFIXES:
        yield from of_python(root, prefix)


def of_python(root: Path, prefix: str) -> Iterator[tuple[Path, LibraryKind]]:
    """Those of a Python environment. prefix: its sys.prefix, relative to the root; may be a pattern."""
    yield from _in_folders(root, [f"{prefix}/{folder}" for folder in FOLDERS_OF_PREFIX])


def cached_paths(cache: Path) -> list[str]:
    """The libraries in a linker cache that are of interest; none without a cache. Its strings end with a NUL each."""
    try:
        with cache.open("rb") as file:
            content = file.read(CACHE_BYTES_MAX)
    except OSError:
        return []
    return [os.fsdecode(path) for path in _CACHED_PATH.findall(content) if kind_of(path)]


def python_prefixes(processes: Processes, tgid: int) -> set[str]:
    """Possible values of sys.prefix of an interpreter, relative to its root; none for any other program.

    That of the executable, and that of the path by which it was started: in a virtual environment it is a link.
    """
    try:
        executable = processes.link(tgid, "exe")
        if not _INTERPRETER.fullmatch(os.path.basename(executable)):  # noqa: PTH119 - bytes
            return set()
        started_as = processes.read(tgid, "cmdline", COMMAND_BYTES_MAX).partition(b"\0")[0]
    except (ProcessGone, NotPossibleHere):
        return set()
    paths = (executable, started_as)
    return {os.fsdecode(os.path.dirname(os.path.dirname(path))).lstrip("/") for path in paths if path[:1] == b"/"}  # noqa: PTH120


def _in_folders(root: Path, patterns: Iterable[str]) -> Iterator[tuple[Path, LibraryKind]]:
    for pattern in patterns:
        for folder in islice(_folders(root, PurePath(pattern).parts), FOLDERS_MAX):
            try:
                with os.scandir(folder) as entries:
                    names = [entry.name for entry in islice(entries, ENTRIES_MAX)]
            except OSError:
                continue
            yield from _of_names(folder / name for name in names)


def _folders(folder: Path, parts: Sequence[str]) -> Iterator[Path]:
    """As Path.glob(), but what cannot be read is left out: a file system that has died must not hide what lies beside it."""
    if not parts:
        if os.path.isdir(folder):  # noqa: PTH112 - Path.is_dir() raises what it does not expect
            yield folder
        return
    part, *rest = parts
    names = [part]
    if any(character in part for character in "*?["):
        try:
            with os.scandir(folder) as entries:
                names = [entry.name for entry in islice(entries, ENTRIES_MAX) if fnmatchcase(entry.name, part)]
        except OSError:
            return
    for name in names:
        yield from _folders(folder / name, rest)


def _of_names(paths: Iterable[Path]) -> Iterator[tuple[Path, LibraryKind]]:
    for path in paths:
        kind = kind_of(os.fsencode(path))
        if kind is not None:
            yield path, kind
