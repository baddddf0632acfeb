"""A stand-in for an NVIDIA GPU: libraries and programs for machines without one, and where they are.

What it models, and how a program sets the length of a kernel, is in src/standin.h.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

PROBED = {"libcudart.so.12": "runtime", "libcuda.so.1": "driver", "libnccl.so.2": "nccl"}
"""The libraries that a job on the stand-in maps, and the kind of each (exporter.host.libraries.LibraryKind)."""

LIBRARIES = (
    *("libcuda.so.1", "libcudart.so.12", "libcudart_static.a", "libnccl.so.2", "libtorch_cuda.so"),
    *("libnvidia-ml.so.1", "libnvidia-ml-470.so"),
)
PROGRAMS = ("trainer", "trainer-static", "trainer-torch", "server", "calls")


def build_dir() -> Path:
    """The folder with the libraries and programs."""
    return Path(__file__).resolve().parent / "build"


def source_dir() -> Path:
    """The folder with the Makefile that builds them, in a checkout of the repository."""
    return Path(__file__).resolve().parents[1]


def is_built(folder: Path | None = None) -> bool:
    folder = folder or build_dir()
    return all((folder / name).is_file() for name in LIBRARIES + PROGRAMS)


def environment(base: Mapping[str, str] | None = None) -> dict[str, str]:
    """`base`, or this process's environment, with the stand-in's libraries first in LD_LIBRARY_PATH."""
    found = dict(os.environ if base is None else base)
    others = found.get("LD_LIBRARY_PATH")
    found["LD_LIBRARY_PATH"] = f"{build_dir()}:{others}" if others else str(build_dir())
    return found


def program(name: str) -> str | None:
    """The path of one of the stand-in's programs, None for any other name."""
    return str(build_dir() / name) if name in PROGRAMS else None


def trainer_command(*flags: str) -> list[str]:
    """The command line of the training job; `trainer --help` lists its flags."""
    return [str(build_dir() / "trainer"), *flags]
