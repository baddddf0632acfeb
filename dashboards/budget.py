"""The budget of lost GPU time that alerts/lost.rules.yaml pages on, as panels.

In: the shares of lost time that its rules record for each container. Out: burn rates, 1 if exactly the budget would be used up in
thirty days.
"""

from __future__ import annotations

from dashboards.boards import container_series
from dashboards.panels import Query, graph, stat

BUDGET = 0.05
PAGES_IN_AN_HOUR, PAGES_IN_SIX_HOURS, WARNS_IN_A_DAY, WARNS_IN_THREE_DAYS = 14.4, 6.0, 3.0, 1.0
"""Burn rates. Source: alerts/lost.rules.yaml; tests/contract/test_board_limits.py compares them."""

LOST_THRESHOLDS = (
    (None, "green"),
    (BUDGET, "yellow"),
    (round(PAGES_IN_SIX_HOURS * BUDGET, 2), "orange"),
    (round(PAGES_IN_AN_HOUR * BUDGET, 2), "red"),
)
"""Colours of a share of lost time: the budget, and what pages if it lasts six hours or one."""

NEEDS_RULES = "needs the alert rules"


def burn_rate(window: str, by: str = "") -> str:
    """Burn rate of the worst container in a window that the rules record."""
    grouped = f" by ({by})" if by else ""
    return f"max{grouped} ({container_series(f'container:gpustall_lost:ratio_{window}')}) / {BUDGET}"


def _of_thirty_days() -> str:
    """Share of GPU time lost, all containers together, from a sample each hour."""
    share = container_series("container:gpustall_lost:ratio_1h")
    gpus = container_series("container:gpustall_processes:mean5m")
    return f"sum(sum_over_time(({share} * {gpus})[30d:1h])) / sum(sum_over_time(({gpus} and {share})[30d:1h]))"


BURN_RATE = stat(
    "Burn rate",
    "Burn rate of the worst container over an hour: at 1 exactly the budget is used up in thirty days. From 14.4 on"
    " GpuStallLostTime pages, if the last five minutes are as bad.",
    burn_rate("1h"),
    "none",
    width=3,
    decimals=1,
    thresholds=((None, "green"), (1, "yellow"), (PAGES_IN_AN_HOUR, "red")),
    no_value=NEEDS_RULES,
)
LOST_IN_A_MONTH = stat(
    "Lost in 30 days",
    "Share of GPU time lost in thirty days, or since your Prometheus stores it. The budget is 5 %: beyond it is red."
    " First shown an hour after the rules are loaded.",
    _of_thirty_days(),
    "percentunit",
    width=3,
    decimals=1,
    thresholds=((None, "green"), (BUDGET, "red")),
    is_instant=True,
    no_value=NEEDS_RULES,
)
BURN_RATES = graph(
    "Burn rate of the budget, worst container",
    "Lost GPU time divided by the budget of 5 % in thirty days. GpuStallLostTime pages and GpuStallLostTimeSlow warns from the"
    " values in the legend on, if a shorter window is as bad. No page while an alert of a chain names the cause.",
    Query(burn_rate("1h"), f"1 hour, pages from {PAGES_IN_AN_HOUR:g}"),
    Query(burn_rate("6h"), f"6 hours, pages from {PAGES_IN_SIX_HOURS:g}"),
    Query(burn_rate("1d"), f"1 day, warns from {WARNS_IN_A_DAY:g}"),
    Query(burn_rate("3d"), f"3 days, warns from {WARNS_IN_THREE_DAYS:g}"),
    unit="none",
    no_value=NEEDS_RULES,
)
