"""Parts of documents that are made from the code, between two comments: `<!-- NAME: begin, … -->` and `<!-- NAME: end -->`."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

from docs.generate.markdown import code, table
from exporter.host.privileges import NEEDS
from tests.contract.test_floors import FLOORS, PACKAGE

SCENARIO = "cpu-contention"


def renewed(text: str, name: str, part: str) -> str:
    """text with a part replaced. Raises ValueError if a comment is missing."""
    begin, end = f"<!-- {name}: begin, made by `make golden` -->", f"<!-- {name}: end -->"
    before, rest = text.split(begin)
    _, after = rest.split(end)
    return f"{before}{begin}\n\n{part}\n\n{end}{after}"


def capabilities() -> str:
    """The table of docs/security.md."""
    rows = ((f"`{need.capability.label}`", need.reason, need.cost) for need in NEEDS)
    return table(("capability", "purpose", "without it"), rows)


def floors() -> str:
    """The table of docs/architecture.md: packages from the top floor down, each with the first line of its docstring."""
    rows = [
        (str(number), code([unit]), _first_line(unit))
        for number, units in reversed(list(enumerate(FLOORS)))
        for unit in sorted(units)
    ]
    return table(("floor", "package or module", "purpose"), rows)


def demo() -> str:
    """The example of README: the output of a replayed recording, with times in UTC."""
    command = ["demo", SCENARIO, "--replay"]
    done = subprocess.run(
        [sys.executable, "-m", "exporter", *command],
        cwd=PACKAGE.parent,
        env={**os.environ, "TZ": "UTC"},
        capture_output=True,
        text=True,
        check=True,
    )
    return f"```\n$ gpu-stall-exporter {' '.join(command)}\n{done.stdout.rstrip()}\n```"


def _first_line(unit: str) -> str:
    path = Path(PACKAGE, unit, "__init__.py")
    source = path if path.exists() else PACKAGE / f"{unit}.py"
    docstring = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or ""
    return docstring.partition("\n")[0]
