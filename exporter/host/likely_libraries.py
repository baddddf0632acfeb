"""Where CUDA and NCCL libraries lie that no process may have mapped yet.

In: the root directory of a mount namespace, and the prefixes of Python environments in it. Out: paths of files with such names,
without symbolic links. Nothing is opened but the linker's cache. A directory may lie on a network file system that does not
answer, and tenants choose what is in it: a link leads within their root, and only so many entries are looked at.
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
from exporter.files import content
from exporter.files.rooted import real_path
from exporter.host.libraries import LibraryKind, kind_of
from exporter.host.processes import Processes

CACHE_BYTES_MAX: Final = 8 * 1024 * 1024
COMMAND_BYTES_MAX: Final = 4 * 1024
ENTRIES_MAX: Final = 65_536
"""Entries of folders that are looked at in one search, below one root or prefix."""

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
    search = _Search(root)
    yield from search.named(cached_paths(root))
    yield from search.in_folders(USUAL_FOLDERS)
    yield from search.in_folders(f"{prefix}/{folder}" for prefix in USUAL_PREFIXES for folder in FOLDERS_OF_PREFIX)


def of_python(root: Path, prefix: str) -> Iterator[tuple[Path, LibraryKind]]:
    """Those of a Python environment. prefix: its sys.prefix, relative to the root."""
    yield from _Search(root).in_folders(FOLDERS_OF_PREFIX, prefix)


def cached_paths(root: Path) -> list[str]:
    """The libraries in a root's linker cache that are of interest; none without a cache. Its strings end with a NUL each."""
    try:
        fd = content.open_regular(real_path(root, LINKER_CACHE))
    except OSError:
        return []
    try:
        cache = content.read_up_to(fd, CACHE_BYTES_MAX)
    except OSError:
        return []
    finally:
        content.close(fd)
    return [os.fsdecode(path) for path in _CACHED_PATH.findall(cache) if kind_of(path)]


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


class _Search:
    """Below one root. What cannot be read is left out: a file system that has died must not hide what lies beside it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._entries_left = ENTRIES_MAX

    def named(self, paths: Iterable[str]) -> Iterator[tuple[Path, LibraryKind]]:
        """Files of these paths in the root that have the name of a library."""
        for path in paths:
            kind = kind_of(os.fsencode(path))
            if kind is not None and (real := self._real(path)) is not None:
                yield real, kind

    def in_folders(self, patterns: Iterable[str], prefix: str = "") -> Iterator[tuple[Path, LibraryKind]]:
        """patterns: of folders below the prefix, which is no pattern."""
        for pattern in patterns:
            for folder in self._folders(prefix, PurePath(pattern).parts):
                yield from self.named(f"{folder}/{name}" for name in self._entries(folder))

    def _folders(self, folder: str, parts: Sequence[str]) -> Iterator[str]:
        if not parts:
            yield folder
            return
        part, *rest = parts
        names = [part]
        if any(character in part for character in "*?["):
            names = [name for name in self._entries(folder) if fnmatchcase(name, part)]
        for name in names:
            yield from self._folders(f"{folder}/{name}", rest)

    def _entries(self, folder: str) -> list[str]:
        real = self._real(folder)
        if real is None or not self._entries_left:
            return []
        try:
            with os.scandir(real) as entries:
                names = [entry.name for entry in islice(entries, self._entries_left)]
        except OSError:
            return []
        self._entries_left -= len(names)
        return names

    def _real(self, path: str) -> Path | None:
        try:
            return real_path(self._root, path)
        except (OSError, ValueError):
            return None
