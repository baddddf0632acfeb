"""What the exporter costs, in the few figures that other documents show: table of docs/measurements.md -> table of docs/faq.md.

`make bench FLAGS=--write` replaces the former, `make golden` the latter: each figure is measured and written down once.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

from docs.generate.markdown import table

MEASUREMENTS: Final = Path(__file__).parents[2] / "docs" / "measurements.md"


class Figure(NamedTuple):
    """row: matches the first cell in docs/measurements.md. value: is found in the second. what, cost: the cells here."""

    what: str
    cost: str
    row: str
    value: str


FIGURES: Final = (
    Figure(
        "a traced call",
        "{all} ns, of which {kernel} ns are the kernel's own for any probe",
        r"traced call, entry and return, .*",
        r"(?P<all>[\d,]+) against (?P<kernel>[\d,]+) ns",
    ),
    Figure(
        "steps of a job with {rate} calls a second",
        "{longer} % longer",
        r"steps of a job that makes (?P<rate>[\d,]+) calls/s, .*launch=sampled",
        r"\+(?P<longer>[\d.]+)%",
    ),
    Figure(
        "CPU, beside 8 idle processes",
        "{cpu} % of a core",
        r"exporter CPU, 8 processes x 40 operations, idle, .*",
        r"(?P<cpu>[\d.]+)% of a core",
    ),
    Figure(
        "CPU, at {rate} calls a second instead of 1,000",
        "{high} instead of {low} % of a core",
        r"the same at (?P<rate>[\d,]+) calls/s, against 1,000 calls/s, .*",
        r"\((?P<high>[\d.]+)% against (?P<low>[\d.]+)% of a core\)",
    ),
    Figure(
        "CPU, beside 8 ranks and 64 workers at work",
        "{cpu} % of a core",
        r"exporter CPU with 8 ranks and 64 workers at work, .*",
        r"(?P<cpu>[\d.]+)% of a core",
    ),
    Figure(
        "memory, beside 8 ranks and 64 workers at work",
        "{memory} MiB",
        r"RSS with 8 ranks and 64 workers at work",
        r"(?P<memory>[\d.]+) MiB",
    ),
    Figure(
        "memory, beside 1,000 processes",
        "{memory} MiB",
        r"RSS with 1,000 processes x 20 operations, .*",
        r"(?P<memory>[\d.]+) MiB",
    ),
)


def overhead(text: str | None = None) -> str:
    """The table. text: of docs/measurements.md. Raises ValueError if a figure is missing there."""
    lines = (MEASUREMENTS.read_text(encoding="utf-8") if text is None else text).splitlines()
    measured = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    return table(("what", "cost"), (_cells(figure, measured) for figure in FIGURES))


def _cells(figure: Figure, measured: list[list[str]]) -> tuple[str, str]:
    for cells in measured:
        row, value = re.fullmatch(figure.row, cells[0]), re.search(figure.value, cells[1])
        if row and value:
            found = {**row.groupdict(), **value.groupdict()}
            return figure.what.format(**found), figure.cost.format(**found)
    raise ValueError(f"docs/measurements.md has no row {figure.row!r}")
