"""Which files of the source tree come with the program.

The build of the wheel runs this file alone (deploy/release/wheel_files.py), so it imports nothing of the exporter.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

PATTERNS: Final = (
    "alerts/*",
    "dashboards/README.md",
    "dashboards/grafana/**/*",
    "deploy/alloy/*",
    "deploy/compose/*.yaml",  # not the folder of keys beside them
    "deploy/datadog/**/*",
    "deploy/helm/**/*",
    "deploy/kustomize/**/*",
    "deploy/opentelemetry-collector/*",
    "deploy/security/*",
    "deploy/systemd/*",
    "docs/*.json",
    "docs/*.md",
    "docs/*.svg",
    "docs/pictures/*.svg",
    "docs/shell/*",
)
"""Paths stay as they are in the tree: Compose and Kustomize name files by them."""


def names(root: Path) -> list[str]:
    """Paths of these files below a source tree, sorted."""
    found = [path for pattern in PATTERNS for path in root.glob(pattern)]
    return sorted(path.relative_to(root).as_posix() for path in found if path.is_file())
