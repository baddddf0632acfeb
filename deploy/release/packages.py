"""Wheels and sources, with nothing in them that tells where or when they were made.

A wheel is for one architecture: what a BPF program reads of registers differs.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

from deploy.release.tree import NotPossible

_ARCH = {"x86_64": "x86", "aarch64": "arm64"}
_OLDEST_GLIBC = (2, 17)  # manylinux2014, of a wheel without a program


def wheel(copy: Path, folder: Path, machine: str, epoch: int) -> Path:
    """Compiles what goes in, and makes the wheel. copy: of the tree, its own."""
    _run(copy, epoch, "make", "-s", "-j2", "-C", "bpf", f"ARCH={_ARCH[machine]}")
    before = set(folder.glob("*.whl"))
    options = (f"--plat-name={_platform(copy / 'exporter', machine)}",)
    _run(
        copy, epoch, *_BUILD, "--wheel", "--outdir", str(folder.absolute()), *(f"-C--build-option={o}" for o in options)
    )
    (made,) = set(folder.glob("*.whl")) - before
    return made


def sources(copy: Path, folder: Path, epoch: int) -> Path:
    """The whole tree as a tar.gz, in order, of nobody, of one time."""
    _run(copy, epoch, *_BUILD, "--sdist", "--outdir", str(folder.absolute()))
    (made,) = folder.glob("*.tar.gz")
    with tarfile.open(made) as archive:
        members = [(one, archive.extractfile(one)) for one in sorted(archive.getmembers(), key=lambda one: one.name)]
        contents = [(one, file.read() if file else b"") for one, file in members if one.isfile()]
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for member, content in contents:
            anew = tarfile.TarInfo(member.name)
            anew.size, anew.mtime, anew.mode = len(content), epoch, 0o755 if member.mode & 0o100 else 0o644
            archive.addfile(anew, io.BytesIO(content))
    made.write_bytes(gzip.compress(plain.getvalue(), mtime=epoch))
    return made


_BUILD = (sys.executable, "-m", "build", "--no-isolation", "--skip-dependency-check")


def _platform(package: Path, machine: str) -> str:
    """PEP 600: the oldest glibc that has what the programs in it ask for."""
    versions = {_OLDEST_GLIBC}
    for path in package.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.read_bytes()[:4] == b"\x7fELF":
            found = re.findall(rb"GLIBC_(\d+)\.(\d+)", path.read_bytes())
            versions |= {(int(major), int(minor)) for major, minor in found}
    return "manylinux_{}_{}_{}".format(*max(versions), machine)


def _run(folder: Path, epoch: int, *command: str) -> None:
    """With an environment in which only what is named matters."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "LC_ALL": "C",
        "TZ": "UTC",
        "PYTHONHASHSEED": "0",
        "SOURCE_DATE_EPOCH": str(epoch),
    }
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotPossible(f"{' '.join(command[:4])} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
