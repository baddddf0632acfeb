"""The project's addresses stand in pyproject.toml; files that must repeat one get it from there.

In: `Source` and `Documentation` of [project.urls], and the text of a file. Out: the text with these addresses, whichever it had.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
ADDRESSES: Mapping[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
_PLACES = (
    ("Documentation", r"(runbook_url: )\S+(/alerts/runbook\.md#)"),
    ("Documentation", r'(image\.documentation=")\S+(/docs/deployment\.md")'),
    ("Source", r'(image\.source=")\S+(")'),
    ("Documentation", r'(^PROJECT: Final = ")\S+(")'),
    ("Source", r"(^home: )\S+($)"),
    ("Source", r"(^sources:\n  - )\S+($)"),
    ("Source", r"(^Documentation=)\S+($)"),
    ("Source", r"(\[gpu-stall-exporter\]\()https://[^)\s]+(\))"),
)
"""Name of the address, and what stands before and after it."""

FILES = tuple(
    path.relative_to(ROOT).as_posix()
    for pattern in (
        "alerts/*.rules.yaml",
        "deploy/docker/Dockerfile",
        "deploy/helm/gpu-stall-exporter/Chart.yaml",
        "deploy/systemd/*.s*",
        "exporter/assets/documents.py",
        "tests/alerts/*.test.yaml",
        "tests/standin/README.md",
    )
    for path in sorted(ROOT.glob(pattern))
    if any(re.search(place, path.read_text(encoding="utf-8"), re.MULTILINE) for _, place in _PLACES)
)


def addressed(path: str, addresses: Mapping[str, str] = ADDRESSES) -> str:
    """The text of a file of FILES with these addresses."""
    text = (ROOT / path).read_text(encoding="utf-8")
    for name, place in _PLACES:
        before_and_after = re.compile(place, re.MULTILINE)
        text = before_and_after.sub(rf"\g<1>{addresses[name]}\g<2>", text)
    return text
