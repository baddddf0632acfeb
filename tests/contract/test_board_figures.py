"""dashboards/ and alerts/: a share is between 0 and 1, and a number of GPUs no more than there are, whatever the processes do.

promtool evaluates the queries of the boards and the rules on series of a node where figures come late, processes of equal labels
end, and a thread is counted in several rows.
"""

from __future__ import annotations

import re

import pytest

from dashboards.__main__ import BOARDS
from dashboards.boards import lost_gpus, lost_share, processes
from dashboards.data import CHOSEN
from dashboards.panels import Panel
from docs.generate import ROOT
from tests.support.promtool import NEEDS_PROMTOOL, Expected, empty, evaluated

pytestmark = NEEDS_PROMTOOL

RULES = sorted((ROOT / "alerts").glob("*.rules.yaml"))
AT = "30m"
INTERVAL = "4m"
_TARGET = 'job="gpu-stall-exporter", instance="a:10478"'
_NODE = f'{_TARGET}, node="a"'
_RANK = f'{_NODE}, container="c", rank="0"'
_ENDED = "1x27 stale"

LATE = {
    f"gpustall_exporter_tracked_processes{{{_TARGET}}}": "1x30",
    f"gpustall_exporter_build_info{{{_TARGET}}}": "1x30",
    f'gpustall_workload_info{{{_RANK}, pid="7"}}': "1x30",
    f'gpustall_lost_seconds_total{{{_RANK}, cause="lock"}}': "0+66x30",
    f"gpustall_cuda_operations_total{{{_RANK}}}": "0+100x30",
    f'gpustall_nccl_wait_seconds_sum{{{_RANK}, communicator="1"}}': "0+66x30",
    f'gpustall_engine_info{{{_RANK}, engine="vllm"}}': "1x30",
    f'gpustall_engine_idle_seconds_total{{{_RANK}, engine="vllm"}}': "0+66x30",
}
"""The last figure of each interval is read later than the first: 66 seconds of 60."""

ENDED = LATE | {
    f'gpustall_workload_info{{{_RANK}, pid="8"}}': _ENDED,
    f'gpustall_lost_seconds_total{{{_RANK}, cause="lock"}}': "0+120x27 3300 3360 3420",
    f'gpustall_nccl_wait_seconds_sum{{{_RANK}, communicator="1"}}': "0+120x27 3300 3360 3420",
    f'gpustall_engine_idle_seconds_total{{{_RANK}, engine="vllm"}}': "0+120x27 3300 3360 3420",
}
"""Two processes with one set of labels, of which one has ended three minutes ago."""

TWICE = LATE | {
    f'gpustall_nccl_wait_seconds_sum{{{_RANK}, communicator="2"}}': "0+60x30",
    f'gpustall_thread_time_seconds_total{{{_RANK}, operation="cudaStreamSynchronize", state="gpu_wait"}}': "0+120x30",
    f"gpustall_step_duration_seconds_sum{{{_RANK}}}": "0+60x30",
    f'gpustall_memcpy_host_time_seconds_total{{{_RANK}, blocking="true", direction="h2d", memory="pinned"}}': "0+120x30",
    f'gpustall_exporter_overhead_ratio{{{_RANK}, pid="7"}}': "0.9x30",
    f'gpustall_exporter_overhead_ratio{{{_NODE}, rank="1", pid="9"}}': "0.9x30",
}
"""Two threads that wait and copy at once, and a wait for two communicators."""


def _waits_of(rank: int, share: float) -> dict[str, str]:
    labels = f'{_NODE}, container="c", rank="{rank}", communicator="1"'
    return {
        f"gpustall_nccl_wait_seconds_sum{{{labels}}}": f"0+{60 * share:g}x30",
        f'gpustall_nccl_communicator_info{{{labels}, hash="h", communicator_rank="{rank}", nranks="4"}}': "1x30",
        f'gpustall_workload_info{{{_NODE}, container="c", rank="{rank}", pid="{rank}"}}': "1x30",
    }


UNEVEN = {
    f"gpustall_exporter_tracked_processes{{{_TARGET}}}": "4x30",
    **_waits_of(0, 0.1),
    **_waits_of(1, 0.5),
    **_waits_of(2, 0.6),
    **_waits_of(3, 0.9),
}
"""Ranks that wait less and more than the median of their communicator."""

NODES = pytest.mark.parametrize(
    "series", [LATE, ENDED, TWICE, UNEVEN], ids=["late figures", "a process has ended", "counted twice", "uneven ranks"]
)


def _filled_in(expression: str) -> str:
    chosen = CHOSEN | {"$__rate_interval": INTERVAL, "$__range": INTERVAL}
    return re.sub(r"\$[a-z_]\w*", lambda found: chosen[found[0]], expression)


def _shares(panel: Panel) -> list[str]:
    """Its queries whose unit is a share."""
    if panel.unit == "percentunit":
        return [query.expr for query in panel.queries]
    columns = {
        one["matcher"]["options"]
        for one in panel.overrides
        if {"id": "unit", "value": "percentunit"} in one["properties"]
    }
    organised = next((one["options"]["renameByName"] for one in panel.transformations if one["id"] == "organize"), {})
    return [
        query.expr
        for place, query in enumerate(panel.queries)
        if organised.get(f"Value #{chr(ord('A') + place)}") in columns
    ]


class TestShares:
    """Every figure in per cent of every board."""

    @NODES
    def test_share_is_between_0_and_1(self, series: dict[str, str]) -> None:
        """Beyond that it cannot be true."""
        shares = [_filled_in(one) for board in BOARDS for panel in board.panels() for one in _shares(panel)]

        assert len(shares) > 20
        assert empty(series, [f"({one}) > 1 or ({one}) < 0" for one in shares], AT, RULES) == ""

    def test_process_that_has_ended_counts_for_as_long_as_its_losses(self) -> None:
        """Each of the two lost half of its time."""
        halved = ENDED | {f'gpustall_lost_seconds_total{{{_RANK}, cause="lock"}}': "0+60x27 1650 1680 1710"}
        share = _filled_in(lost_share())

        # 150 s of 240, by 1.4 processes: one in five scrapes of five, one in two.
        assert evaluated(halved, f"round(100 * {share})", Expected(AT, 45)) == ""

    @NODES
    def test_no_more_gpus_are_lost_than_there_were(self, series: dict[str, str]) -> None:
        """On the boards and in the rules, each in its own span."""
        lost, all_gpus = _filled_in(lost_gpus()), _filled_in(processes())
        recorded = "sum(rank:gpustall_gpus_lost:rate5m) > 1.001 * sum(avg_over_time(rank:gpustall_gpus:count[5m]))"

        assert empty(series, [f"{lost} > 1.001 * {all_gpus}", recorded], AT, RULES) == ""

    @NODES
    def test_share_that_pages_is_at_most_1(self, series: dict[str, str]) -> None:
        """The page prints it."""
        spans = ("5m", "30m", "1h", "2h", "6h", "1d", "3d")

        assert empty(series, [f"container:gpustall_lost:ratio_{one} > 1" for one in spans], AT, RULES) == ""
