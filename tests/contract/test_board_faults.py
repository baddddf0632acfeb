"""dashboards/: each panel shows a fault of known size within 15 %, with classic histograms.

promtool evaluates each query for the series of tests/support/board_faults.py, before and during the fault. The figures are
computed by hand from the sizes there.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import NamedTuple

import pytest

from dashboards.__main__ import BOARDS
from dashboards.data import CHOSEN
from dashboards.panels import Panel, Query
from docs.generate import ROOT
from exporter import units
from tests.support.board_faults import STEP_BEFORE, STEP_DURING, series
from tests.support.promtool import NEEDS_PROMTOOL, Expected, reported

RULES = sorted((ROOT / "alerts").glob("*.rules.yaml"))
BEFORE, DURING = "29m", "100m"
NEAR = 0.15
SPANS = {"$__rate_interval": "5m", "$__range": "30m"}

Shown = Mapping[tuple[str, int, str], tuple[float | None, float | None]]
"""(title, number of the query, labels of the series) -> value before and during the fault; None without a value."""

_WORST = "Training jobs, worst first"
_BURN = "Burn rate of the budget, worst container"
_ON_B = "node=b container=job_4711"
_DOWN: Shown = {
    ("Exporters that are down", 0, "instance=c:10478"): (None, 0),
    ("Exporters that are down", 1, "instance=d:10478"): (None, 1),
}
_RANK_0, _RANK_2 = "workload=job_4711/rank 0", "workload=job_4711/rank 2"

FLEET: Shown = {
    ("Ranks", 0, ""): (5, 5),
    ("GPU time lost", 0, ""): (0.14 / 5, 2.81 / 5),
    ("Burn rate", 0, ""): (0.05 / 0.05, 0.605 / 0.05),  # the engine's container, then the job's on node a
    # At the only whole hour: (2 * 0.315 + 2 * 0.31 + 0.225) / 5.
    ("Lost in 30 days", 0, ""): (None, 0.295),
    ("GPUs lost", 0, ""): (0.14, 2.81),
    ("Open chains (stat)", 0, ""): (0, 3),
    ("Worst chain", 0, ""): (0, 4),
    ("Exporters down", 0, ""): (0, 2),
    (_WORST, 0, "training_job=4711"): (0.09 / 4, 2.41 / 4),
    (_WORST, 1, "training_job=4711"): (0.09, 2.41),
    (_WORST, 2, "training_job=4711"): (4, 4),
    (_WORST, 3, "training_job=4711"): (2, 2),
    (_WORST, 4, "training_job=4711"): (0, 4),
    ("GPU time lost, by cause", 0, "cause=cpu_contention"): (0.08, 2.4),
    ("GPU time lost, by node", 0, "node=b"): (0.02, 0.6),
    ("Lost GPU time, by training job", 0, "training_job=4711"): (0.09, 2.41),
    (_BURN, 0, ""): (1, 12.1),
    (_BURN, 1, ""): (1, 8.6),  # thirty minutes of 0.025, seventy of 0.605
    (_BURN, 2, ""): (1, 8.6),
    (_BURN, 3, ""): (1, 8.6),
    ("Open chains (table)", 0, "chain_id=6f95 culprit=rsync"): (None, 4),
    ("Open chains (table)", 1, "chain_id=6f95"): (None, 0.6),
    ("Open chains (table)", 2, "chain_id=6f95"): (None, 0.7),
    ("Containers by lost time", 0, _ON_B): (0.02, 0.6),
    ("Containers by lost time", 1, _ON_B): (0.04, 1.2),
    ("Containers by lost time", 2, _ON_B): (2, 2),
    ("Containers by lost time", 3, _ON_B): (0.4, 12),
    **_DOWN,
}
_SENT = "direction=h2d memory=pageable"
WORKLOAD: Shown = {
    ("Ranks", 0, ""): (5, 5),
    ("GPU time lost", 0, ""): (0.14 / 5, 2.81 / 5),
    ("Burn rate", 0, ""): (1, 12.1),
    ("Lost in 30 days", 0, ""): (None, 0.295),
    ("Step, mean", 0, ""): (0.010, 0.026),
    ("Worst open chain", 0, ""): (0, 4),
    ("GPU memory", 0, ""): (1e10, 3e10),
    ("Thread time, by state", 0, "state=runnable"): (0.08, 2.4),
    ("GPU time lost, by cause", 0, "cause=block_io"): (0.05, 0.4),
    ("Thread time, by call", 0, "operation=gap"): (0.08, 2.4),
    ("Culprits", 0, "culprit=rsync"): (0.08, 2.4),
    ("Step duration", 0, ""): (0.010, 0.026),
    ("Wake-up paths", 0, "blocked_on=pipe state=disk"): (0.01, 0.5),
    ("Iterations of engines", 0, "engine=vllm"): (0.008, 0.0208),
    ("Outlier iterations", 0, "engine=vllm"): (0.004, 0.1),
    ("Idle engines", 0, "engine=vllm"): (0.1, 0.7),
    ("GPU time lost, by engine", 0, "engine=vllm cause=block_io"): (0.05, 0.4),
    ("TCP retransmits", 0, "peer=other"): (0.001, 0.05),
    ("Round trip", 0, "peer=other"): (0.0002, 0.005),
    ("Connections", 0, "peer=other"): (8, 4),
    ("Smallest congestion window", 0, "peer=other"): (10, 2),
    ("CUDA calls", 0, "operation=cudaLaunchKernel"): (4000, 1538),
    ("Duration of CUDA calls", 0, "operation=cudaStreamSynchronize"): (0.009, 0.0234),
    ("Copies", 0, "direction=h2d"): (1e9, 4e8),
    ("CUDA errors", 0, "operation=cudaMalloc code=2"): (0, 5),
    ("GPU memory, by rank", 0, _RANK_0): (1e10, 3e10),
    ("GPU memory, allocated and freed", 0, ""): (1e6, 1e9),
    ("GPU memory, allocated and freed", 1, ""): (1e6, 9e8),
    ("Kernel launches", 0, "source=single"): (1000, 385),
    ("Host-bound share of steps", 0, ""): (0.1, 0.65),
    ("Kernel launches, by grid size", 0, "blocks=128"): (500, 1500),
    ("Blocking copies: throughput", 0, _SENT): (12e9, 4e9),
    ("Blocking copies: time", 0, _SENT): (0.1 / 5, 0.5 / 5),
    ("CUDA graphs", 0, "result=ended"): (0.1, 2),
    ("CUDA graphs", 1, ""): (0.1, 3),
    ("CUDA graphs", 2, ""): (100, 40),
    ("Open captures and unused graphs", 0, ""): (0, 3),
    ("Open captures and unused graphs", 1, ""): (0, 50),
    ("Cold start", 0, f"{_RANK_0} effect=gap"): (2, 20),
    ("Managed, pinned and peak memory", 0, _RANK_0): (1.2e10, 4e10),
    ("Managed, pinned and peak memory", 1, _RANK_0): (1e9, 9e10),
    ("Managed, pinned and peak memory", 2, _RANK_0): (2e9, 1e9),
}
RANKS: Shown = {
    ("Ranks (stat)", 0, ""): (4, 4),
    ("Communicators", 0, ""): (1, 1),
    ("Time in collectives", 0, ""): (0.2, 1.55 / 4),
    ("Largest lag", 0, ""): (0.02, 0.2),
    ("Ranks (table)", 0, "rank=2"): (0.2, 0.05),
    ("Ranks (table)", 1, "rank=2"): (0.0002, 0.0052),
    ("Ranks (table)", 2, "rank=2"): (0.02, 0.6),
    ("Ranks (table)", 3, "rank=2"): (0.010, 0.026),
    ("Lag, by rank", 0, _RANK_2): (0.0002, 0.0052),
    ("Waits for collectives", 0, _RANK_0): (0.2, 0.5),
    ("Waits less than the median of its communicator", 0, _RANK_2): (0, 0.45),
    ("Lost time, by rank", 0, _RANK_2): (0.02, 0.6),
    ("Open collectives", 0, "workload=job_4711/rank 3"): (0, 42),  # 0.01 a second for 70 minutes
    ("Bytes in collectives", 0, "operation=all_reduce"): (1e9, 3.85e8),
    ("Duration of NCCL calls", 0, "operation=all_reduce"): (20e-6, 52e-6),
    ("Step duration, by rank", 0, _RANK_2): (0.010, 0.026),
    ("Duration of waits, by rank", 0, _RANK_0): (0.002, 0.013),
}
_OF_JOB, _READS = "container=job_4711", "node=a device=nvme0n1 direction=read"
HOST: Shown = {
    ("GPU time lost to CPUs, by cause", 0, "series=cpu_contention a"): (0.04, 1.2),
    ("Culprits on CPUs", 0, "culprit=rsync"): (0.08, 2.4),
    ("CPU time taken by the hypervisor and interrupts", 0, "node=a"): (0.05, 1.5),
    ("CPU time taken by the hypervisor and interrupts", 1, "node=a"): (0.2, 0.5),
    ("Throttling by CPU limits", 0, _OF_JOB): (0.01, 0.8),
    ("Memory of containers", 0, _OF_JOB): (1e10, 3e10),
    ("Memory of containers", 1, _OF_JOB): (4e10, 4e10),
    ("Memory of containers", 2, "series=job_4711 a"): (1e6, 5e9),
    ("Direct reclaim", 0, "series=job_4711 a"): (0.001, 0.3),
    ("Major faults", 0, _OF_JOB): (1, 300),
    ("OOM kills", 0, _OF_JOB): (0, 5),
    ("Drops and errors of interfaces", 0, "series=a eth0 received"): (None, 20),
    ("Drops and errors of interfaces", 1, "series=a eth0 sent"): (None, 30),
    ("Drops and errors of interfaces", 2, "series=a eth0 received"): (None, 3),
    ("TCP retransmits, by container", 0, "series=job_4711 a data"): (1, 50),
    ("Waits for disks", 0, "series=a nvme0n1"): (0.05, 0.4),
    ("Culprits of disk waits", 0, "culprit=tar"): (0.05, 0.4),
    ("Device time", 0, _READS): (200e-6, 520e-6),
    ("Queue time", 0, _READS): (300e-6, 780e-6),
    ("Bytes, by container", 0, f"{_OF_JOB} direction=read"): (1e8, 4e7),
    ("Disk errors", 0, _READS): (0, 2),
    ("Abnormal ends of processes", 0, "series=worker signal 9"): (None, 5),
    ("New processes and threads", 0, "kind=thread"): (0.1, 50),
    ("Throttled clocks, by reason", 0, "reason=thermal_hw"): (0, 0.7),
    ("SM clock", 0, "node=a gpu=0"): (1, 0.5),
    ("Power and temperature", 0, "node=a gpu=0"): (0.5, 0.986),
    ("Power and temperature", 1, "node=a gpu=0"): (0.5, 0.978),
    ("GPU memory, by owner", 0, ""): (2e10, 6e10),
    ("GPU memory, by owner", 1, ""): (1e9, 1e10),
    ("GPU memory, by owner", 2, "state=free"): (6e10, 1e10),
    ("PCIe and NVLink", 0, "gpu=0 direction=sent"): (1e10, 4e9),
    ("PCIe and NVLink", 1, "gpu=0 direction=received"): (2e10, 8e9),
    ("XID and ECC errors", 0, "series=79 a 0"): (None, 30),
    ("XID and ECC errors", 1, "series=uncorrected a 0"): (None, 30),
}
_OPENED = "cause=cpu_contention effect=gap severity=high"
CHAINS: Shown = {
    ("Open", 0, ""): (0, 3),
    ("Critical", 0, ""): (0, 2),
    ("No progress", 0, ""): (0, 1),
    ("Job or GPU", 0, ""): (0, 1),
    ("Opened", 0, ""): (0, 30),
    ("Escalated", 0, ""): (0, 30),
    ("Open chains", 0, "chain_id=6f95 culprit=rsync"): (None, 4),
    ("Open chains", 1, "chain_id=6f95"): (None, 0.6),
    ("Open chains", 2, "chain_id=6f95"): (None, 0.7),
    ("Severity over time", 0, f"{_RANK_2} cause=cpu_contention"): (None, 4),
    ("Chains opened, by cause", 0, _OPENED): (None, 30),
    ("Chains opened, by rank", 0, _RANK_2): (None, 30),
    ("Lost GPU time, by cause", 0, "cause=cpu_contention"): (0.08, 2.4),
    ("Lost GPU time, by culprit", 0, "culprit=rsync"): (0.08, 2.4),
}
_JOB = "training_job=4711"
COST: Shown = {  # two dollars for each GPU and hour
    ("GPUs (stat)", 0, ""): (5, 5),
    ("Used", 0, ""): (1 - 0.14 / 5, 1 - (2.81 + 1) / 5),
    ("Lost", 0, ""): (0.14 / 5, 2.81 / 5),
    ("Idle", 0, ""): (0, 0.2),
    ("Loss per hour", 0, ""): (0.28, 5.62),
    ("Loss in range", 0, ""): (0.14, 2.81),
    ("GPUs (timeseries)", 0, ""): (4.86, 1.19),
    ("GPUs (timeseries)", 1, ""): (0.14, 2.81),
    ("GPUs (timeseries)", 2, ""): (0, 1),
    ("Lost GPU time, by training job", 0, _JOB): (0.09, 2.41),
    ("Training jobs", 0, _JOB): (4, 4),
    ("Training jobs", 1, _JOB): (0.09 / 4, 2.41 / 4),
    ("Training jobs", 2, "training_job=vllm"): (0, 1),
    ("Training jobs", 3, _JOB): (0.18, 4.82),
    ("Loss per hour, by cause", 0, "cause=cpu_contention"): (0.16, 4.8),
    ("Loss per hour, by namespace", 0, "namespace=ml"): (0.18, 4.82),
    ("Loss in range, by cause", 0, "cause=cpu_contention"): (0.08, 2.4),
    ("Loss in range, by node", 0, "node=b"): (0.04, 1.2),
}
_A = "instance=a:10478"
EXPORTER: Shown = {
    ("Up", 0, ""): (4, 2),
    ("Down", 0, ""): (0, 2),
    ("Processes", 0, ""): (4, 2),
    ("Dropped records", 0, ""): (0, 30),
    ("Accounting error", 0, ""): (0.001, 0.02),
    ("Balance error", 0, ""): (0.01, 0.08),
    ("Largest overhead", 0, ""): (0.002, 0.03),
    ("Sampled processes", 0, ""): (0, 2),
    **_DOWN,
    ("Dropped records, by reason", 0, "program=cuda reason=calls_full"): (0, 5),
    ("Kernel maps in use", 0, "map=calls"): (0.1, 0.95),
    ("Accounting error, by figure", 0, "figure=balance"): (0.01, 0.08),
    ("Healed switches", 0, _A): (0.1, 20),
    ("Libraries that could not be probed", 0, "series=nccl no_symbols"): (None, 30),
    ("Refused, by owner", 0, "series=workloads u1000"): (None, 30),
    ("Failing collectors", 0, "collector=nccl"): (0, 1),
    ("Probed libraries and functions", 0, "library=cuda"): (2, 1),
    ("Probed libraries and functions", 1, "library=cuda"): (120, 60),
    ("CPU", 0, _A): (0.01, 0.05),
    ("CPU", 1, _A): (0.005, 0.03),
    ("CPU", 2, _A): (0.004, 0.032),
    ("Memory", 0, _A): (4e7, 9e7),
    ("Duration of ticks and scrapes", 0, _A): (0.01, 0.2),
    ("Duration of ticks and scrapes", 1, _A): (0.002, 0.05),
    ("Duration of ticks and scrapes", 2, _A): (0.003, 0.06),
    ("Series", 0, _A): (500, 5000),
    ("Overhead of the probes, largest of a process", 0, "node=a"): (0.002, 0.03),
    ("History", 0, _A): (1e6, 9e8),
    ("Pushes", 0, "receiver=r outcome=failed"): (0, 1),
    ("Points", 0, "receiver=r"): (500, 50),
    ("Points", 1, "receiver=r"): (0, 20),
    ("Exporters", 0, _A): (1, 1),
}

SHOWN = {
    "gpustall-fleet": FLEET,
    "gpustall-workload": WORKLOAD,
    "gpustall-ranks": RANKS,
    "gpustall-host": HOST,
    "gpustall-chains": CHAINS,
    "gpustall-cost": COST,
    "gpustall-exporter": EXPORTER,
}


def needs_native(panel: Panel, query: Query) -> bool:
    """Whether it has no data with classic histograms: quantiles and heatmaps."""
    return panel.kind == "heatmap" or query.expr.startswith("histogram_quantile(")


def _queries(*, native: bool) -> dict[tuple[str, str, int], str]:
    """(uid of the board, title, number) -> each query that needs native histograms, or each other one.

    Where two panels of a board have one title, it is followed by the kind.
    """
    found = {}
    for board in BOARDS:
        titles = [panel.title for panel in board.panels()]
        for panel in board.panels():
            title = panel.title if titles.count(panel.title) == 1 else f"{panel.title} ({panel.kind})"
            for number, query in enumerate(panel.queries):
                if needs_native(panel, query) == native:
                    found[board.uid, title, number] = _filled_in(query.expr)
    return found


def _filled_in(expression: str) -> str:
    chosen = CHOSEN | SPANS
    return re.sub(r"\$[a-z_]\w*", lambda found: chosen[found[0]], expression)


class Figure(NamedTuple):
    """What a query shows for the series with these labels."""

    query: tuple[str, str, int]
    labels: str
    values: tuple[float | None, float | None]

    def checks(self) -> list[tuple[str, Expected | str]]:
        """Expressions for promtool, before and during the fault."""
        expression = f"({QUERIES[self.query]}){self._chosen()}"
        return [
            (expression, at) if value is None else (_near(expression, value), Expected(at, 1))
            for at, value in zip((BEFORE, DURING), self.values, strict=True)
        ]

    def _chosen(self) -> str:
        pairs = re.findall(r"(\w+)=(.+?)(?= \w+=|$)", self.labels)
        if not pairs:
            return ""
        wanted = "vector(1)"
        for name, value in pairs:
            wanted = f'label_replace({wanted}, "{name}", "{value}", "", "")'
        return f" and on ({', '.join(name for name, _ in pairs)}) {wanted}"


def _near(expression: str, value: float) -> str:
    """1 if exactly one series is within NEAR of the value."""
    room = NEAR * abs(value) + 1e-9
    return f"count(({expression}) >= {value - room:.12g} <= {value + room:.12g})"


QUERIES, NATIVE = _queries(native=False), _queries(native=True)
FIGURES = [
    Figure((uid, title, number), labels, values)
    for uid, shown in SHOWN.items()
    for (title, number, labels), values in shown.items()
]


@functools.cache
def _report() -> str:
    """What promtool says about all figures, asked once."""
    return reported(series(), [check for one in FIGURES for check in one.checks()], RULES)


@NEEDS_PROMTOOL
class TestFaults:
    """Each panel before and during the fault."""

    @pytest.mark.parametrize("figure", FIGURES, ids=lambda one: f"{' '.join(map(str, one.query))} {one.labels}")
    def test_panel_shows_its_size(self, figure: Figure) -> None:
        """Within 15 %, and what was normal before as well."""
        wrong = [expression for expression, _ in figure.checks() if f'expr: "{_quoted(expression)}"' in _report()]

        assert not wrong, _report()[:4000]

    @pytest.mark.parametrize("at", [BEFORE, DURING])
    def test_quantile_is_absent_with_classic_histograms(self, at: str) -> None:
        """Not a number that is off by the width of a bucket."""
        assert len(NATIVE) == 11
        assert reported(series(), [(expression, at) for expression in NATIVE.values()], ()) == ""


class TestCoverage:
    """Panels and figures."""

    def test_every_query_has_a_figure(self) -> None:
        """Queries for native histograms are left out: promtool 2 has none."""
        assert {one.query for one in FIGURES} == set(QUERIES)

    def test_every_panel_but_heatmaps_and_quantiles_is_tried(self) -> None:
        """With classic histograms, the others say that they need native ones."""
        tried = {(uid, title) for uid, title, _ in QUERIES}
        untried = [
            (panel.kind, panel.title, panel.defaults["noValue"])
            for board in BOARDS
            for panel in board.panels()
            if not {(board.uid, panel.title), (board.uid, f"{panel.title} ({panel.kind})")} & tried
        ]

        assert untried == [
            ("stat", "Step, p99", "needs native histograms"),
            ("heatmap", "Distribution of waits", "needs native histograms"),
            ("heatmap", "Distribution of steps", "needs native histograms"),
        ]

    def test_fault_lies_between_two_edges(self) -> None:
        """Quantiles of classic histograms do not move then: that is why there are none."""
        assert round(STEP_DURING / STEP_BEFORE, 3) == 2.6
        assert units.classic_bucket(STEP_BEFORE) == units.classic_bucket(STEP_DURING)


def _quoted(expression: str) -> str:
    """As promtool prints it."""
    return expression.replace("\\", "\\\\").replace('"', '\\"')
