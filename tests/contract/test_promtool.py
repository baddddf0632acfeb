"""promtool, of Prometheus itself, finds no problem in the exposition."""

from __future__ import annotations

import subprocess

import pytest

from exporter import catalog
from exporter.output.negotiation import Format
from exporter.output.own_exposition import OwnExposition
from exporter.own_metrics.store import OwnMetrics
from tests.support.golden import CASES, FOLDER
from tests.support.patience import PATIENCE_SECONDS
from tests.support.promtool import NEEDS_PROMTOOL, PROMTOOL

pytestmark = NEEDS_PROMTOOL


def lint(exposition: bytes) -> tuple[int, str]:
    """Exit code and output of `promtool check metrics`."""
    assert PROMTOOL is not None
    done = subprocess.run(
        [PROMTOOL, "check", "metrics"], input=exposition, capture_output=True, timeout=PATIENCE_SECONDS, check=False
    )
    return done.returncode, (done.stdout + done.stderr).decode()


class TestPromtool:
    """Exit code 0 and no output."""

    @pytest.mark.parametrize("case", CASES)
    def test_golden_exposition_is_clean(self, case: str) -> None:
        """Every workload metric is in one of the cases."""
        assert lint((FOLDER / case / "metrics.prom").read_bytes()) == (0, "")

    def test_own_metrics_are_clean(self) -> None:
        """One series of each; process_* come from prometheus-client."""
        own = OwnMetrics()
        for metric in catalog.OWN_METRICS:
            own.set(metric, 1, *("x" for _ in metric.labels))

        assert lint(OwnExposition(own).render(Format.TEXT)) == (0, "")

    def test_promtool_finds_a_wrong_name(self) -> None:
        """A counter without _total."""
        code, output = lint(b"# HELP x_bytes X.\n# TYPE x_bytes counter\nx_bytes 1\n")

        assert code != 0
        assert 'should have "_total" suffix' in output
