"""tests/UNSTEADY.md: a short list of tests that exist and are not in the gate."""

from __future__ import annotations

import re

from tests.support.requirements import ROOT

ROWS = [
    line.strip("|").split("|")
    for line in (ROOT / "tests" / "UNSTEADY.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("|")
][2:]


def test_list_is_short() -> None:
    """A longer one is a gate that fails often."""
    assert len(ROWS) <= 10


def test_every_line_names_a_test_and_what_it_takes() -> None:
    for name, seen, takes in ROWS:
        path, function = name.strip().strip("`").split("::")
        text = (ROOT / "tests" / path).read_text(encoding="utf-8")

        assert seen.strip()
        assert takes.strip()
        assert re.search(rf"\bdef {function}\(", text)
        assert "mark.acceptance" in text
