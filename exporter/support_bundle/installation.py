"""What is installed: versions of the exporter, Python, libbpf and packages, and checksums of the BPF objects."""

from __future__ import annotations

import hashlib
import importlib.metadata
import re
import sys
from typing import Any

from exporter.errors import ExporterError
from exporter.kernel.libbpf import Libbpf
from exporter.kernel.loader import OBJECTS_DIR

DISTRIBUTION = "gpu-stall-exporter"


def installation(version: str) -> dict[str, Any]:
    """version: of the exporter."""
    try:
        libbpf = Libbpf().version()
    except ExporterError as error:
        libbpf = f"cannot be loaded: {error}"
    objects = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(OBJECTS_DIR.glob("*.bpf.o"))}
    return {
        "version": version,
        "python": sys.version,
        "libbpf": libbpf,
        "packages": packages(),
        "objects_sha256": objects,
    }


def packages() -> dict[str, str]:
    """Versions of the exporter's package and of everything it depends on; no other package."""
    found: dict[str, str] = {}
    to_visit = [DISTRIBUTION]
    while to_visit:
        name = re.sub(r"[-_.]+", "-", to_visit.pop()).lower()
        if name in found:
            continue
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed as a package"
            continue
        found[name] = distribution.version
        requirements = (one for one in distribution.requires or () if ";" not in one)
        to_visit += [match[0] for one in requirements if (match := re.match(r"[\w.-]+", one))]
    return dict(sorted(found.items()))
