"""Checks a release before it is handed out: equal versions, complete packages, nothing that does not belong in them."""

from __future__ import annotations

import re
import tarfile
import tomllib
import zipfile
from collections.abc import Iterable, Iterator
from email import message_from_bytes
from pathlib import Path

from deploy.release.image import opened
from exporter.assets.patterns import names

_LICENCES = ("LICENSE", "bpf/LICENSE")
# A folder that only one machine has. Folders of the system are the same everywhere.
_LOCAL_PATH = re.compile(rb"(?<![\w.~/-])/(?:home|root|work|build|Users|mnt|tmp/release-)[\w.-]*/[\w./-]+")
_EM_BPF = 247
_ELF_MACHINES = {"x86_64": 62, "aarch64": 183}
"""e_machine of elf.h."""
_ASSETS = "exporter/assets/files"
_STANDIN_FILES = {f"gpustall_standin/build/{name}" for name in ("libcuda.so.1", "libnccl.so.2", "trainer")}


class Disagreement(Exception):
    """The release contradicts itself; the message names the places."""


def version(root: Path) -> str:
    """The version, which every place that states one must agree on. Raises Disagreement."""
    exporter, standin = (
        tomllib.loads((root / folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        for folder in (".", "tests/standin")
    )
    pins = (*exporter["optional-dependencies"]["demo"], *standin["dependencies"])
    stated = {
        "exporter/__init__.py": _found(root / "exporter/__init__.py", r'^__version__ = "(.+)"'),
        "CHANGELOG.md": _found(root / "CHANGELOG.md", r"^## \[(\d\S*)\]"),
        "tests/standin/pyproject.toml": standin["version"],
        **{pin.partition("==")[0] + " as a dependency": pin.partition("==")[2] for pin in pins},
    }
    if len(set(stated.values())) != 1:
        raise Disagreement(f"versions differ: {', '.join(f'{place}: {one}' for place, one in stated.items())}")
    return str(standin["version"])


def _found(path: Path, pattern: str) -> str | None:
    """The first match in a file."""
    found = re.search(pattern, path.read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else None


def check(root: Path, version: str, packages: Iterable[Path]) -> None:
    """Raises Disagreement."""
    ours = _exporter_files(root)
    for path in packages:
        if path.suffix != ".whl":
            problems = list(_sources_problems(path, version))
        elif path.name.startswith("gpu_stall_exporter_standin-"):
            machine = next(number for name, number in _ELF_MACHINES.items() if name in path.name)
            problems = list(_wheel_problems(path, version, _STANDIN_FILES, ("LICENSE",), machine))
        else:
            problems = list(_wheel_problems(path, version, ours, _LICENCES, _EM_BPF))
        if problems:
            raise Disagreement(f"{path.name}: {'; '.join(problems)}")


def check_image(root: Path, version: str, revision: str, path: Path) -> None:
    """Raises Disagreement."""
    if problems := list(_image_problems(path, version, revision, _exporter_files(root))):
        raise Disagreement(f"{path.name}: {'; '.join(problems)}")


def _exporter_files(root: Path) -> set[str]:
    """What the exporter's package has beside its modules: BPF objects, and the files that come with it."""
    objects = {f"exporter/kernel/objects/{path.stem}.o" for path in (root / "bpf").glob("*.bpf.c")}
    return objects | {f"{_ASSETS}/{name}" for name in names(root)}


def _image_problems(path: Path, version: str, revision: str, wanted: set[str]) -> Iterator[str]:
    found = set()
    with opened(path) as image:
        for label, expected in (("version", version), ("revision", revision)):
            if (stated := image.labels.get(f"org.opencontainers.image.{label}")) != expected:
                yield f"its {label} is {stated}, not {expected}"
        for name, file in image.files:
            package, slash, inside = name.partition("/site-packages/")
            if re.match(r"(root|home|tmp|run|src)/", name):
                yield f"{name} does not belong there"
            if slash and package.startswith("opt/") and inside.startswith("exporter/"):
                found.add(inside)
                if local := _LOCAL_PATH.search(file.read()):
                    yield f"{name} contains the path {local[0].decode()}"
    if missing := wanted - found:
        yield f"{', '.join(sorted(missing))} missing"


def _wheel_problems(
    path: Path, version: str, wanted: set[str], licences: Iterable[str], elf_machine: int
) -> Iterator[str]:
    """elf_machine: of every ELF file in it. In the exporter's wheel those are BPF objects, and no library of the stand-in."""
    with zipfile.ZipFile(path) as wheel:
        names = set(wheel.namelist())
        info = f"{path.name.partition('-')[0]}-{version}.dist-info"
        if f"{info}/METADATA" not in names:
            yield f"it is not of version {version}"
            return
        if message_from_bytes(wheel.read(f"{info}/METADATA"))["Version"] != version:
            yield f"its metadata are not of version {version}"
        if missing := (wanted | {f"{info}/licenses/{name}" for name in licences}) - names:
            yield f"{', '.join(sorted(missing))} missing"
        for name in sorted(names):
            content = wheel.read(name)
            if content[:4] == b"\x7fELF" and int.from_bytes(content[18:20], "little") != elf_machine:
                yield f"{name} is machine code that does not belong there"
            if content[:8] == b"!<arch>\n" and elf_machine == _EM_BPF:
                yield f"{name} is a library that does not belong there"
            if found := _LOCAL_PATH.search(content):
                yield f"{name} contains the path {found[0].decode()}"


def _sources_problems(path: Path, version: str) -> Iterator[str]:
    folder = f"gpu_stall_exporter-{version}"
    with tarfile.open(path) as sources:
        names = set(sources.getnames())
    files = ("bpf/cuda.bpf.c", "bpf/abi/call.h", "tests/standin/src/standin.h", "Makefile", "CHANGELOG.md", *_LICENCES)
    if missing := {f"{folder}/{name}" for name in files} - names:
        yield f"{', '.join(sorted(missing))} missing"
    if compiled := sorted(name for name in names if re.search(r"\.(o|so|a|pyc)(\.\d+)?$", name)):
        yield f"{compiled[0]} is compiled"
