"""Links of alerts and boards to the runbook, led to a copy of it: files of this program and a URL -> the same with that URL."""

from __future__ import annotations

import re
from typing import Final

from exporter.errors import BadInput

_RULE_FILES: Final = (".rules.yaml", "prometheusrule.yaml")
_LINK_OF_ALERT: Final = re.compile(rb"(?<=runbook_url: )[^\s#]+(?=#)")
_BOARDS: Final = re.compile(r"(?:^|/)dashboards/(?:\w+/)?\w+\.json")
_LINK_OF_BOARD: Final = re.compile(rb'(?<=")https?://[^\s"#]+/alerts/runbook\.md(?=["#])')
"""A whole string of JSON; a heading may follow."""

_URL: Final = re.compile(r"https?://[!%&()*+,./0-9:;=?@A-Z_a-z~-]{1,1000}")
"""No fragment, which is the alert's; nothing that alerts, Grafana, YAML or JSON would read as more than text."""


def checked(url: str) -> str:
    """The URL. Raises BadInput unless it can stand in a rule file and in a board."""
    if not _URL.fullmatch(url):
        raise BadInput(
            "--runbook-url: want an http or https URL without #, such as https://wiki.example.com/gpu-stalls"
        )
    return url


def linked(name: str, content: bytes, url: str) -> bytes:
    """The content of a file of this name; alerts and boards link to the URL, with the headings that they had."""
    if name.endswith(_RULE_FILES):
        return _LINK_OF_ALERT.sub(url.encode(), content)
    return _LINK_OF_BOARD.sub(url.encode(), content) if _BOARDS.search(name) else content
