"""Paths of Python files as they are shown in tables: without the folders that say where Python or the job is installed."""

from __future__ import annotations

import re
from typing import Final

# A package that is installed, in a folder of any environment; Debian names it dist-packages.
_PACKAGES: Final = re.compile(r".*(/(?:site|dist)-packages/)(?=.)")
_STANDARD_LIBRARY: Final = re.compile(r".*(/lib(?:64)?/(?:python3\.\d{1,2}t?/|python3\d{1,2}\.zip/))(?=.)")


def short_path(file: str, working_directory: str = "") -> str:
    """What is below site-packages, the standard library or the process's working directory; else the path itself.

    Before: /opt/venv/lib/python3.12/site-packages/torch/autograd/graph.py. After: torch/autograd/graph.py.
    """
    for pattern in (_PACKAGES, _STANDARD_LIBRARY):
        if found := pattern.match(file):
            return file[found.end() :]
    below = working_directory.rstrip("/") + "/"
    if below != "/" and file.startswith(below) and len(file) > len(below):
        return file[len(below) :]
    return file


def is_installed(file: str) -> bool:
    """Whether a file belongs to a package or to Python itself, and not to the job's own code. `<frozen …>` is Python's."""
    return file.startswith("<frozen ") or any(pattern.match(file) for pattern in (_PACKAGES, _STANDARD_LIBRARY))


def without_folders(file: str) -> str:
    """The name of the file alone, with the mark of an installed one: `…/site-packages/graph.py`, `train.py`."""
    name = file.rpartition("/")[2]
    for pattern in (_PACKAGES, _STANDARD_LIBRARY):
        if found := pattern.match(file):
            return f"…{found[1]}{name}"
    return name
