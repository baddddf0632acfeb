"""Do version, changelog and packages say the same, and is in them what belongs there, and nothing that tells of a machine?"""

from __future__ import annotations

import re
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from email import message_from_bytes
from pathlib import Path

_LICENCES = ("LICENSE", "bpf/LICENSE")
# A folder of somebody's machine. Those of the system are everywhere the same.
_FOREIGN = re.compile(rb"(?<![\w.~/-])/(?:home|root|work|build|Users|mnt|tmp/release-)[\w.-]*/[\w./-]+")


class Disagreement(Exception):
    """Two places say different things; the message names both."""


def version(root: Path) -> str:
    """That of the package, which the newest heading of the changelog must have too."""
    said = re.search(
        r'^__version__ = "(.+)"', (root / "exporter/__init__.py").read_text(encoding="utf-8"), re.MULTILINE
    )
    heading = re.search(r"^## \[(\d\S*)\]", (root / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    if said is None or heading is None or said[1] != heading[1]:
        raise Disagreement(
            f"exporter/__init__.py says {said[1] if said else 'nothing'}, CHANGELOG.md {heading[1] if heading else 'nothing'}"
        )
    return said[1]


def check(root: Path, version: str, packages: Iterable[Path]) -> None:
    """Raises Disagreement."""
    objects = {f"{path.stem}.o" for path in (root / "bpf").glob("*.bpf.c")}
    for path in packages:
        problems = list(_of_wheel(version, objects, path) if path.suffix == ".whl" else _of_sources(version, path))
        if problems:
            raise Disagreement(f"{path.name}: {'; '.join(problems)}")


def _of_wheel(version: str, objects: set[str], path: Path) -> Iterator[str]:
    with zipfile.ZipFile(path) as wheel:
        names = set(wheel.namelist())
        info = f"gpu_stall_exporter-{version}.dist-info"
        if f"{info}/METADATA" not in names:
            yield f"it is not of version {version}"
            return
        if message_from_bytes(wheel.read(f"{info}/METADATA"))["Version"] != version:
            yield f"its metadata are not of version {version}"
        wanted = {f"exporter/kernel/objects/{name}" for name in objects}
        wanted |= {f"{info}/licenses/{name}" for name in _LICENCES}
        if wanted - names:
            yield f"without {', '.join(sorted(wanted - names))}"
        for name in sorted(names):
            if found := _FOREIGN.search(wheel.read(name)):
                yield f"{name} names {found[0].decode()}"


def _of_sources(version: str, path: Path) -> Iterator[str]:
    folder = f"gpu_stall_exporter-{version}"
    with tarfile.open(path) as sources:
        names = set(sources.getnames())
    wanted = {f"{folder}/{name}" for name in ("bpf/cuda.bpf.c", "bpf/abi.h", "Makefile", "CHANGELOG.md", *_LICENCES)}
    if wanted - names:
        yield f"without {', '.join(sorted(wanted - names))}"
    if compiled := sorted(name for name in names if re.search(r"\.(o|so|a|pyc)(\.\d+)?$", name)):
        yield f"has {compiled[0]}, which was compiled"
