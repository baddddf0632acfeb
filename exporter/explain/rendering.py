"""An Explanation as text for people, or as a JSON document."""

from __future__ import annotations

import json

from exporter.explain import text
from exporter.explain.document import document
from exporter.explain.explanation import Explanation
from exporter.explain.table import rows


def rendered(explanation: Explanation, *, is_json: bool, per_process: bool = False) -> str:
    """per_process: add a table of processes to the text; the document always has them."""
    if is_json:
        return json.dumps(document(explanation), indent=2)
    lines = list(text.lines(explanation))
    if per_process and explanation.processes:
        lines += ["", *rows(explanation.processes)]
    return "\n".join(lines)
