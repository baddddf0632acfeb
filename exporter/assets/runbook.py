"""Links of alerts to the runbook, led to a copy of it: rule files of this program and a URL -> the same files with that URL."""

from __future__ import annotations

import re
from typing import Final

from exporter.errors import BadInput

_LINK: Final = re.compile(rb"(?<=runbook_url: )[^\s#]+(?=#)")
_URL: Final = re.compile(r"https?://[!$%&()*+,./0-9:;=?@A-Z_a-z~-]{1,1000}")
"""No fragment, which is the alert's; no braces and quotes, which templates of alerts and YAML would read."""


def checked(url: str) -> str:
    """The URL. Raises BadInput unless it can stand in a rule file."""
    if not _URL.fullmatch(url):
        raise BadInput(
            "--runbook-url: want an http or https URL without #, such as https://wiki.example.com/gpu-stalls"
        )
    return url


def linked(name: str, content: bytes, url: str) -> bytes:
    """The content of a file of this name; each alert of a rule file links to its heading below the URL."""
    return _LINK.sub(url.encode(), content) if name.endswith((".rules.yaml", "prometheusrule.yaml")) else content
