"""Each error of tests/mutants still fits the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants import Mutant, mutants

ROOT = Path(__file__).parents[2]


class TestMutants:
    """They are run apart from the gate, so nothing else shows that the code has moved on."""

    @pytest.mark.parametrize("mutant", mutants(), ids=lambda mutant: mutant.file)
    def test_what_it_changes_occurs_once(self, mutant: Mutant) -> None:
        assert (ROOT / mutant.file).read_text(encoding="utf-8").count(mutant.before) == 1
