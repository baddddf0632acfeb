"""The error for a missing package of an extra."""

from __future__ import annotations

from exporter.errors import NotPossibleHere


def without_packages(command: str, extra: str, error: ImportError) -> NotPossibleHere:
    package = (error.name or "").partition(".")[0]
    return NotPossibleHere(
        f"{command} needs the Python package {package}, which is not installed",
        remedy=f"`pip install 'gpu-stall-exporter[{extra}]'`",
    )
