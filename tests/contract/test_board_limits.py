"""dashboards/: a panel is red where the alert of the same quantity fires, and nowhere else.

The numbers of alerts are read from alerts/.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from dashboards.__main__ import BOARDS
from dashboards.budget import LOST_THRESHOLDS
from dashboards.panels import Panel
from docs.generate import ROOT
from exporter.config.probes import ProbeSettings

RULES = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "alerts").glob("*.rules.yaml")))

LIMITS = {
    ("gpustall-fleet", "Burn rate"): r"ratio_1h > ([\d.]+) \* 0\.05",
    ("gpustall-fleet", "Lost in 30 days"): r"ratio_3d > ([\d.]+) and",
    ("gpustall-workload", "Burn rate"): r"ratio_1h > ([\d.]+) \* 0\.05",
    ("gpustall-workload", "Lost in 30 days"): r"ratio_3d > ([\d.]+) and",
    ("gpustall-fleet", "Worst chain"): r"alert: GpuStallChainCritical\n.* >= (\d)",
    ("gpustall-workload", "Worst open chain"): r"alert: GpuStallChainCritical\n.* >= (\d)",
    ("gpustall-workload", "TCP retransmits"): r"alert: GpuStallNetworkRetransmits\n.* > ([\d.]+)",
    ("gpustall-workload", "Outlier iterations"): r"alert: GpuStallEngineUneven\n.*\n.* > ([\d.]+)",
    ("gpustall-ranks", "Waits less than the median of its communicator"): r"shortfall > ([\d.]+)",
    ("gpustall-ranks", "Largest lag"): r"shortfall > ([\d.]+)",
    ("gpustall-host", "Drops and errors of interfaces"): r"interface_drops_total\{.*\}\[5m\]\) > ([\d.]+)",
    ("gpustall-exporter", "Accounting error"): r'figure!="balance"\} > ([\d.]+)',
    ("gpustall-exporter", "Balance error"): r'figure="balance"\} > ([\d.]+)',
    ("gpustall-exporter", "Kernel maps in use"): r"map_capacity > ([\d.]+)",
}
"""(uid, title) -> the number in the rule."""

FROM_THE_FIRST = {
    ("gpustall-fleet", "Exporters down"),
    ("gpustall-exporter", "Down"),
    ("gpustall-exporter", "Dropped records"),
    ("gpustall-chains", "Critical"),
    ("gpustall-chains", "No progress"),
}
"""Counts of what raises an alert each time."""

BUDGET = {("gpustall-fleet", "GPU time lost"), ("gpustall-workload", "GPU time lost")}
OVERHEAD = {
    ("gpustall-exporter", "Largest overhead"),
    ("gpustall-exporter", "Overhead of the probes, largest of a process"),
}


def _red(panel: Panel) -> float | None:
    """From which value on the panel is red."""
    steps = panel.defaults.get("thresholds", {"steps": ()})["steps"]
    return next((step["value"] for step in steps if step["color"] == "red"), None)


def _limited() -> Iterator[tuple[tuple[str, str], float]]:
    for board in BOARDS:
        for panel in board.panels():
            red = _red(panel)
            if red is not None and panel.kind != "state-timeline":
                yield (board.uid, panel.title), red


RED = dict(_limited())


class TestLimits:
    """Each panel with a limit."""

    def test_each_is_compared(self) -> None:
        """With an alert, the budget, a setting, or the first event."""
        assert {*LIMITS, *FROM_THE_FIRST, *BUDGET, *OVERHEAD} == set(RED)

    @pytest.mark.parametrize(("panel", "pattern"), LIMITS.items(), ids=lambda one: one[1] if len(one) == 2 else "")
    def test_panel_is_red_where_its_alert_fires(self, panel: tuple[str, str], pattern: str) -> None:
        """Neither earlier nor later."""
        (number,) = set(re.findall(pattern, RULES))

        assert RED[panel] == float(number)

    @pytest.mark.parametrize("panel", sorted(FROM_THE_FIRST))
    def test_count_is_red_from_the_first(self, panel: tuple[str, str]) -> None:
        """One is enough."""
        assert RED[panel] == 1

    def test_lost_time_changes_colour_with_the_burn_rates_that_page(self) -> None:
        """The budget itself, six times it, and 14.4 times."""
        six_hours, hour = (
            float(number)
            for window in ("6h", "1h")
            for number in re.findall(rf"\(container:gpustall_lost:ratio_{window} > ([\d.]+) \* 0\.05", RULES)
        )

        assert [value for value, _ in LOST_THRESHOLDS[1:]] == pytest.approx([0.05, six_hours * 0.05, hour * 0.05])
        assert {RED[panel] for panel in BUDGET} == {LOST_THRESHOLDS[-1][0]}

    def test_legends_of_burn_rates_have_the_numbers_of_the_rules(self) -> None:
        """All four, in the order of the windows."""
        (panel,) = (one for board in BOARDS for one in board.panels() if one.title.startswith("Burn rate of"))
        said = [float(query.legend.rpartition(" ")[2]) for query in panel.queries]
        rules = [
            float(number or 1)
            for window in ("1h", "6h", "1d", "3d")
            for number in re.findall(rf"\(container:gpustall_lost:ratio_{window} > (?:([\d.]+) \* )?0\.05", RULES)
        ]

        assert said == rules == [14.4, 6, 3, 1]

    def test_overhead_is_red_from_the_default_limit_of_a_process(self) -> None:
        """`--probes.overhead-limit`."""
        assert {RED[panel] for panel in OVERHEAD} == {ProbeSettings().overhead_limit}
