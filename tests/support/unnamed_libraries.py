"""The stand-in's runtime and NCCL in libraries of other names, and its program `calls` linked to them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import gpustall_standin as standin

RUNTIME, NCCL = "runtime", "nccl"
PADDING = '.section .text.padding,"ax"\n.fill 65536,1,0x90\n.section .note.GNU-stack,"",@progbits\n'
"""Code, as much as the real ones have at least."""

_LIB = {RUNTIME: ("failures", "waiting"), NCCL: ("instant", "waiting", "failures")}
_MAPS = {RUNTIME: "runtime/libcudart.map", NCCL: "nccl/libnccl.map"}
_NAMES = {RUNTIME: "libcudart.so.12", NCCL: "libnccl.so.2"}


def linked(folder: Path, name: str, *contents: str) -> Path:
    """The program, in a folder with the library of that name. contents: what is in the library and not beside it."""
    source = standin.source_dir()
    objects = source / "objects"
    padding = folder / "padding.s"
    padding.write_text(PADDING)
    library = folder / name
    parts = {f"lib/{part}.o" for content in contents for part in _LIB[content]}
    maps = [f"-Wl,--version-script={source / 'src' / _MAPS[content]}" for content in contents]
    _link(
        library,
        *("-shared", f"-Wl,-soname,{name}", "-Wl,-Bsymbolic", padding),
        *(path for content in contents for path in sorted((objects / content).glob("*.o"))),
        *(objects / part for part in sorted(parts)),
        *(maps if len(contents) == 1 else ()),
    )
    program = folder / "calls"
    build = standin.build_dir()
    beside = [build / one for content, one in _NAMES.items() if content not in contents]
    _link(
        program,
        *sorted((objects / "calls").glob("*.o")),
        *sorted((objects / "program").glob("*.o")),
        *(objects / "lib/waiting.o", library, *beside, build / "libcuda.so.1"),
        *(f"-Wl,-rpath,{folder}", f"-Wl,-rpath,{build}"),
    )
    return program


def _link(target: Path, *arguments: Path | str) -> None:
    subprocess.run(["cc", "-o", target, *arguments, "-pthread", "-ldl", "-lrt"], check=True)
