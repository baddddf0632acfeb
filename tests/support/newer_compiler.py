"""The kernel programs, built by the compiler of Debian 13, by which the image is built."""

from __future__ import annotations

import subprocess
from pathlib import Path

from exporter.kernel.loader import OBJECTS_DIR

COMPILER = "clang-19"
FOLDER = "GPUSTALL_NEWER_OBJECTS"
"""Environment variable: where they are already. An emulated machine would take minutes to build them."""
_SOURCES = Path(__file__).parent.parent.parent / "bpf"


def build(folder: Path) -> None:
    """Write the objects into an empty folder."""
    objects = [folder / built.name for built in OBJECTS_DIR.glob("*.bpf.o")]
    subprocess.run(["make", "-s", "-C", _SOURCES, f"CLANG={COMPILER}", f"OUT={folder}", *objects], check=True)
