"""Linters find nothing: pint in the rules, Grafana's dashboard-linter in the boards."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.conformance.partners import need_partner
from tests.support.requirements import ROOT

RULES = sorted((ROOT / "alerts").glob("*.rules.yaml"))
BOARDS = sorted((ROOT / "dashboards" / "grafana").glob("*.json"))


def said(*command: str | Path) -> tuple[int, str]:
    """Exit status and output."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr


class TestPint:
    """Every rule file."""

    @pytest.mark.parametrize("path", RULES, ids=lambda path: path.name)
    def test_it_finds_nothing(self, path: Path) -> None:
        """Neither a bug nor a warning."""
        config = ROOT / "tests" / "conformance" / "pint.hcl"
        status, words = said(
            need_partner("pint"), "--no-color", "--offline", f"--config={config}", "lint", "--fail-on=warning", path
        )

        assert status == 0, words


class TestDashboardLinter:
    """Every board."""

    @pytest.mark.parametrize("path", BOARDS, ids=lambda path: path.name)
    def test_it_finds_nothing(self, path: Path) -> None:
        """But what `.lint` excuses, with the reason."""
        status, words = said(need_partner("dashboard-linter"), "lint", "--strict", path)

        assert status == 0, words
