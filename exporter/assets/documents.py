"""Links of documents to files of the project that do not come with the program, such as sources and tests.

In: a document of the program and the names of all its files. Out: the same document; such links lead to the project.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection
from typing import Final

PROJECT: Final = "https://github.com/gpu-stall-exporter/gpu-stall-exporter/blob/main"
"""From pyproject.toml, by `make golden`."""

_LOCAL_LINK: Final = re.compile(r"(?<=\]\()(?![a-zA-Z][a-zA-Z0-9+.-]*:|[#/])([^)\s#]+)")


def linked(name: str, content: bytes, names: Collection[str]) -> bytes:
    """`[kernel programs](../bpf/README.md)` leads to the project's copy, `[tokens](serve.md)` stays."""
    if not name.endswith(".md"):
        return content
    folder = posixpath.dirname(name)

    def target(found: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, found[1]))
        is_written = path in names or any(one.startswith(f"{path}/") for one in names)
        return found[1] if is_written or path.startswith("..") else f"{PROJECT}/{path}"

    return _LOCAL_LINK.sub(target, content.decode("utf-8")).encode("utf-8")
