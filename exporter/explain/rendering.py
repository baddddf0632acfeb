"""An Explanation as text for people, or as a JSON document."""

from __future__ import annotations

import json
import re

from exporter.explain import text
from exporter.explain.document import document
from exporter.explain.explanation import Explanation
from exporter.explain.table import rows
from exporter.text.wrapping import wrapped

_FIELD = re.compile(r"  [a-z]+ +(?=\S)")


def rendered(explanation: Explanation, *, is_json: bool, per_process: bool = False, columns: int | None = None) -> str:
    """per_process: add a table of processes to the text; the document always has them. columns: of a terminal, else None."""
    if is_json:
        return json.dumps(document(explanation), indent=2)
    lines = [part for line in text.lines(explanation) for part in _wrapped(line, columns)]
    if per_process and explanation.processes:
        lines += ["", *rows(explanation.processes)]
    return "\n".join(lines)


def _wrapped(line: str, columns: int | None) -> list[str]:
    """A command to paste stays one line: a terminal wraps it without adding a line end."""
    leading = len(line) - len(line.lstrip())
    if leading > text.FIELD_INDENT:
        return [line]
    field = _FIELD.match(line)
    is_field = field is not None and field.end() == text.FIELD_INDENT
    return wrapped(line, columns, text.FIELD_INDENT if is_field else leading)
