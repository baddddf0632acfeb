"""Builds the wheels and the source archive, free of traces of the machine and the time.

A wheel of the exporter is for one architecture: a BPF program reads function arguments from registers. A wheel of the stand-in
GPU holds shared libraries and programs; for the architecture that is not this machine's they are cross-compiled.
"""

from __future__ import annotations

import gzip
import io
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path

from deploy.release.tree import NotPossible

MACHINES = ("x86_64", "aarch64")
_BPF_ARCH = {"x86_64": "x86", "aarch64": "arm64"}
_OLDEST_GLIBC = (2, 17)  # manylinux2014, for a wheel without machine code


def wheel(copy: Path, folder: Path, machine: str, epoch: int) -> Path:
    """The exporter's wheel. copy: a copy of the tree, for this wheel alone."""
    _run(copy, epoch, "make", "-s", "-j2", "-C", "bpf", f"ARCH={_BPF_ARCH[machine]}")
    return _wheel(copy, copy / "exporter", folder, machine, epoch)


def standin_wheel(copy: Path, folder: Path, machine: str, epoch: int) -> Path:
    """The stand-in GPU's wheel. copy: a copy of the tree."""
    project = copy / "tests" / "standin"
    _run(project, epoch, "make", "-s", "-j2", *_tools_for(machine))
    return _wheel(project, project / "gpustall_standin", folder, machine, epoch)


def cross_compiler(machine: str) -> str | None:
    """The C compiler for another machine; None for this one's own."""
    return None if machine == platform.machine() else f"{machine}-linux-gnu-gcc"


def _tools_for(machine: str) -> tuple[str, ...]:
    compiler = cross_compiler(machine)
    if compiler is None:
        return ()
    if shutil.which(compiler) is None:
        raise NotPossible(f"{compiler} is missing; run `make release`, which installs it on Debian and Ubuntu")
    return (f"CC={compiler}", f"AR={machine}-linux-gnu-ar")


def _wheel(project: Path, package: Path, folder: Path, machine: str, epoch: int) -> Path:
    before = set(folder.glob("*.whl"))
    platform_option = f"-C--build-option=--plat-name={_platform(package, machine)}"
    _run(project, epoch, *_BUILD, "--wheel", "--outdir", str(folder.absolute()), platform_option)
    (made,) = set(folder.glob("*.whl")) - before
    return made


def sources(copy: Path, folder: Path, epoch: int) -> Path:
    """The whole tree as a tar.gz: sorted, with one time and no owner."""
    _run(copy, epoch, *_BUILD, "--sdist", "--outdir", str(folder.absolute()))
    (made,) = folder.glob("*.tar.gz")
    with tarfile.open(made) as archive:
        members = [(one, archive.extractfile(one)) for one in sorted(archive.getmembers(), key=lambda one: one.name)]
        contents = [(one, file.read() if file else b"") for one, file in members if one.isfile()]
    made.write_bytes(_archive([(one.name, one.mode, content) for one, content in contents], epoch))
    return made


def chart(copy: Path, folder: Path, version: str, epoch: int) -> Path:
    """The Helm chart as `helm package` names and lays it out: one folder with the name of the chart, without its test values."""
    name = "gpu-stall-exporter"
    root = copy / "deploy" / "helm" / name
    paths = [path for path in sorted(root.rglob("[!.]*")) if path.is_file() and path.relative_to(root).parts[0] != "ci"]
    paths.sort(key=lambda path: path.name != "Chart.yaml")  # first, as Helm's own packages have it
    entries = [(f"{name}/{path.relative_to(root)}", 0o644, path.read_bytes()) for path in paths]
    made = folder / f"{name}-{version}.tgz"
    made.write_bytes(_archive(entries, epoch))
    return made


def _archive(entries: Iterable[tuple[str, int, bytes]], epoch: int) -> bytes:
    """A tar.gz of (path, mode, content), with one time and no owner."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, mode, content in entries:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.mode = len(content), epoch, 0o755 if mode & 0o100 else 0o644
            archive.addfile(entry, io.BytesIO(content))
    return gzip.compress(plain.getvalue(), mtime=epoch)


_BUILD = (sys.executable, "-m", "build", "--no-isolation", "--skip-dependency-check")


def _platform(package: Path, machine: str) -> str:
    """The platform tag by PEP 600: the oldest glibc that has every symbol version the package's binaries need."""
    versions = {_OLDEST_GLIBC}
    for path in package.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.read_bytes()[:4] == b"\x7fELF":
            found = re.findall(rb"GLIBC_(\d+)\.(\d+)", path.read_bytes())
            versions |= {(int(major), int(minor)) for major, minor in found}
    return "manylinux_{}_{}_{}".format(*max(versions), machine)


def _run(folder: Path, epoch: int, *command: str) -> None:
    """Runs a command in a folder, with only these environment variables. Raises NotPossible with its output."""
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
