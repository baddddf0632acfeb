"""tests.stages: the report of the stages of `make test`."""

from __future__ import annotations

import re

from tests.stages import BUDGETS_SECONDS, Stage, report
from tests.support.requirements import ROOT


def test_budget_stands_beside_the_time() -> None:
    """Also of a stage that has failed."""
    lines = report([Stage("check-static", 62.3, True), Stage("test-side-by-side", 421, False)]).splitlines()

    assert lines[1:] == [
        "check-static                62      90",
        "test-side-by-side          421     420  over, FAILED",
    ]


def test_every_stage_has_a_budget() -> None:
    stages = re.findall(r"^TEST_STAGES := (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)

    assert stages[0].split() == list(BUDGETS_SECONDS)
