"""The bill of materials of a release: CycloneDX 1.6 as JSON, written and validated by CycloneDX's own library.

In: the packages of the release, and the tested versions of their dependencies. Out: one file.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import uuid
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from cyclonedx.model import HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

from deploy.release.image import Base, DebianPackage
from deploy.release.packages import MACHINES, cross_compiler
from deploy.release.tree import NotPossible

NAME = "gpu-stall-exporter"
LICENCE = "Apache-2.0 AND (GPL-2.0-only OR BSD-3-Clause)"
LIBBPF_VERSION = Path("/usr/include/bpf/libbpf_version.h")


def write(
    folder: Path, version: str, packages: Iterable[Path], runtime: Path, epoch: int, *, image: Sequence[Component] = ()
) -> Path:
    """Writes `gpu-stall-exporter-0.1.0.cdx.json`. Raises NotPossible if the result is invalid.

    runtime: `name==version` lines. image: what the container image has beside the exporter and its dependencies.
    """
    sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in packages}
    bom = Bom(serial_number=uuid.uuid5(uuid.NAMESPACE_URL, f"{NAME} {version} {sorted(sums.items())}"))
    bom.metadata.timestamp = datetime.fromtimestamp(epoch, UTC)
    ours = Component(
        type=ComponentType.APPLICATION,
        name=NAME,
        version=version,
        bom_ref=NAME,
        purl=PackageURL("pypi", None, NAME, version),
        licenses=[LicenseExpression(LICENCE)],
        components=[_file(name, digest) for name, digest in sums.items()],
    )
    bom.metadata.component = ours
    parts = [*_packages(runtime), *_tools(), *image]
    for part in parts:
        bom.components.add(part)
    bom.register_dependency(ours, parts)
    text = str(JsonV1Dot6(bom).output_as_string(indent=2))
    if error := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        raise NotPossible(f"the bill of materials is not valid: {error}")
    path = folder / f"{NAME}-{version}.cdx.json"
    path.write_text(text + "\n", encoding="utf-8")
    return path


def _file(name: str, digest: str) -> Component:
    return Component(
        type=ComponentType.FILE, name=name, bom_ref=name, hashes=[HashType.from_composite_str(f"sha256:{digest}")]
    )


def _packages(runtime: Path) -> Iterator[Component]:
    """The dependencies that pip installs with the exporter."""
    for line in runtime.read_text(encoding="utf-8").splitlines():
        name, equals, version = line.partition("==")
        if equals and not line.startswith("#"):
            purl = PackageURL("pypi", None, re.sub(r"[-_.]+", "-", name).lower(), version)
            yield Component(type=ComponentType.LIBRARY, name=name, version=version, purl=purl, bom_ref=str(purl))


def of_image(base: Base, packages: Iterable[DebianPackage]) -> list[Component]:
    """The base image and Debian's packages in the container image."""
    name = base.reference.partition("@")[0].rpartition("/")[2].partition(":")[0]
    purl = PackageURL("oci", None, name, base.digest)
    container = Component(type=ComponentType.CONTAINER, name=name, version=base.digest, purl=purl, bom_ref=str(purl))
    return [container, *map(_debian, packages)]


def _debian(one: DebianPackage) -> Component:
    purl = PackageURL("deb", "debian", one.name, one.version, {"arch": one.architecture})
    properties = [Property(name=f"{NAME}:role", value="in the container image")]
    return Component(
        type=ComponentType.LIBRARY,
        name=one.name,
        version=one.version,
        purl=purl,
        bom_ref=str(purl),
        properties=properties,
    )


def _tools() -> Iterator[Component]:
    """libbpf and the compilers. Of these only inlined functions of libbpf's headers are in the packages."""
    header = LIBBPF_VERSION.read_text(encoding="utf-8")
    libbpf = ".".join(re.findall(r"define LIBBPF_(?:MAJOR|MINOR)_VERSION (\d+)", header))
    yield _tool("libbpf", libbpf, ComponentType.LIBRARY, "headers at build time; at run time the machine's own library")
    compilers = {"clang": "clang", "cc": "gcc", **{name: name for name in map(cross_compiler, MACHINES) if name}}
    for command, name in compilers.items():
        output = subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout
        found = re.search(r"(\d+\.\d+\.\d+)", output)
        role = "compiles the BPF objects" if name == "clang" else "compiles the stand-in GPU"
        yield _tool(name, found[1] if found else "", ComponentType.APPLICATION, role)


def _tool(name: str, version: str, kind: ComponentType, role: str) -> Component:
    purl = PackageURL("generic", None, name, version)
    properties = [Property(name=f"{NAME}:role", value=role)]
    return Component(
        type=kind,
        name=name,
        version=version,
        purl=purl,
        bom_ref=str(purl),
        scope=ComponentScope.EXCLUDED if kind is ComponentType.APPLICATION else ComponentScope.REQUIRED,
        properties=properties,
    )
