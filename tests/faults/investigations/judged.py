"""Whether an investigation has found what is true of its case."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tests.faults.investigations.cases import Case
from tests.faults.investigations.investigator import CALLS_MAX, Findings, Line
from tests.faults.shapes.shape import PROGRAMS
from tests.faults.trials.score import is_named

TOKENS_MAX: Final = 12_000


@dataclass(frozen=True)
class Judged:
    """A case and what was found."""

    case: Case
    findings: Findings

    @property
    def has_cause(self) -> bool:
        return self.findings.cause in self.case.causes

    @property
    def has_culprit(self) -> bool | None:
        """None where there is none to name. The late one of several ranks is the culprit."""
        if not self.case.culprits and not self.case.rank:
            return None
        if self.case.rank:
            return f"rank {self.case.rank}" in self.findings.who
        return is_named(self.findings.culprit, self.case.culprits)

    @property
    def line(self) -> Line | None:
        """The first one that was named of the job's own program."""
        return next((line for line in self.findings.lines if source_of(line) is not None), None)

    @property
    def has_line(self) -> bool | None:
        """None where no line is to blame."""
        if not self.case.lines:
            return None
        return self.line is not None and source_of(self.line) in self.case.lines

    @property
    def is_right(self) -> bool:
        """Cause and culprit, in as few calls and tokens as they may take."""
        is_short = len(self.findings.calls) <= CALLS_MAX and self.findings.tokens <= TOKENS_MAX
        return self.has_cause and self.has_culprit is not False and is_short


def source_of(line: Line) -> str | None:
    """The text of a line of a shape's program; None for another file."""
    path = PROGRAMS / line.file.rpartition("/")[2]
    if not path.exists():
        return None
    lines = path.read_text(encoding="utf-8").splitlines()
    return lines[line.number - 1].strip() if 0 < line.number <= len(lines) else None
