"""alerts/nccl.rules.yaml on jobs of 64 ranks: the straggling rank is found, and no other one."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from docs.generate import ROOT
from tests.support.patience import PATIENCE_SECONDS
from tests.support.requirements import need_command

RULES = [str(ROOT / "alerts" / name) for name in ("chains.rules.yaml", "nccl.rules.yaml")]
SCRAPE_SECONDS = 15
SCRAPES = 40
RANKS_PER_NODE = 8
AT = "9m"
JOB = "gpu-stall-exporter"


def labels_of(rank: int, **more: str) -> dict[str, str]:
    """Eight ranks on each node."""
    node = f"n{rank // RANKS_PER_NODE}"
    return {"job": JOB, "instance": f"{node}:10478", "node": node, "rank": str(rank), "communicator": "0"} | more


def selector(metric: str, labels: dict[str, str]) -> str:
    """As promtool reads it."""
    return f"{metric}{{{', '.join(f'{name}={json.dumps(value)}' for name, value in labels.items())}}}"


def series_of(
    rank: int, nranks: int, values: str, hash_value: str = "h1", alive: str = f"1x{SCRAPES}"
) -> list[dict[str, str]]:
    """What a rank exports of its waits, and of its communicator."""
    known = labels_of(rank, hash=hash_value, communicator_rank=str(rank), nranks=str(nranks))
    return [
        {"series": selector("gpustall_nccl_wait_seconds_sum", labels_of(rank)), "values": values},
        {"series": selector("gpustall_nccl_communicator_info", known), "values": alive},
    ]


def growing(share: float) -> str:
    """So much of the time is spent waiting, scrape by scrape."""
    return f"0+{share * SCRAPE_SECONDS:g}x{SCRAPES}"


def a_job(waits: Sequence[float]) -> list[dict[str, str]]:
    """Series of a job whose ranks wait for these shares of their time."""
    return [one for rank, wait in enumerate(waits) for one in series_of(rank, len(waits), growing(wait))]


def straggling(series: list[dict[str, str]], folder: Path, expected: dict[int, float]) -> None:
    """Fails unless exactly these ranks straggle, by these shares of time, and the alert fires for them."""
    promtool = need_command("promtool", "prometheus")
    stragglers = [labels_of(rank, hash="h1") for rank in expected]
    case = {
        "interval": f"{SCRAPE_SECONDS}s",
        "input_series": series,
        "promql_expr_test": [
            {
                "expr": "round(rank:gpustall_straggling:ratio, 0.01)",
                "eval_time": AT,
                "exp_samples": [
                    {"labels": selector("", labels), "value": value}
                    for labels, value in zip(stragglers, expected.values(), strict=True)
                ],
            },
            {
                "expr": 'count(ALERTS{alertname="GpuStallStragglingRank", alertstate="firing"}) or vector(0)',
                "eval_time": AT,
                "exp_samples": [{"labels": "{}", "value": len(expected)}],
            },
        ],
    }
    path = folder / "ranks.test.json"
    path.write_text(
        json.dumps({"rule_files": RULES, "evaluation_interval": f"{SCRAPE_SECONDS}s", "tests": [case]}),
        encoding="utf-8",
    )
    done = subprocess.run(
        [promtool, "test", "rules", path], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


class TestStraggler:
    """Waits are shares of time."""

    def test_rank_that_waits_least_while_the_others_wait_is_reported(self, tmp_path: Path) -> None:
        """Rank 42 of 64: the others wait 40 % of their time, it waits 2 %."""
        waits = [0.4] * 64
        waits[42] = 0.02

        straggling(a_job(waits), tmp_path, {42: 0.38})

    def test_two_stragglers_are_both_reported(self, tmp_path: Path) -> None:
        """On different nodes."""
        waits = [0.5] * 64
        waits[3], waits[60] = 0.1, 0.05

        straggling(a_job(waits), tmp_path, {3: 0.4, 60: 0.45})

    def test_four_ranks_are_enough(self, tmp_path: Path) -> None:
        """Fewer are not."""
        straggling(a_job([0.5, 0.5, 0.0, 0.5]), tmp_path, {2: 0.5})

    @pytest.mark.parametrize("waits", [[0.5, 0.0], [0.5, 0.5, 0.0]], ids=["two", "three"])
    def test_with_two_or_three_ranks_none_is_reported(self, tmp_path: Path, waits: list[float]) -> None:
        """They have no meaningful median."""
        straggling(a_job(waits), tmp_path, {})

    def test_uneven_ranks_are_healthy(self, tmp_path: Path) -> None:
        """They wait for 10 % to 40 % of their time, at random."""
        chance = random.Random(1)

        straggling(a_job([0.1 + 0.3 * chance.random() for _ in range(64)]), tmp_path, {})

    def test_ranks_that_are_slow_together_wait_for_none_of_them(self, tmp_path: Path) -> None:
        """All of them wait half of their time: for the network."""
        straggling(a_job([0.5] * 64), tmp_path, {})

    def test_rank_that_is_a_little_behind_is_not_reported(self, tmp_path: Path) -> None:
        """By 8 % of the time."""
        straggling(a_job([0.4] * 63 + [0.32]), tmp_path, {})

    def test_ranks_that_restart_are_not_reported(self, tmp_path: Path) -> None:
        """All 64 restart in the middle: counters from 0, in another communicator, after two scrapes without data."""
        growth = 0.4 * SCRAPE_SECONDS
        series = []
        for rank in range(64):
            series += series_of(rank, 64, f"0+{growth:g}x18 _x2 0+{growth:g}x20", "h0", "1x18 stale")
            series += series_of(rank, 64, "_", "h1", "_x20 1x20")[1:]

        straggling(series, tmp_path, {})

    def test_rank_of_two_processes_with_equal_labels_is_left_out(self, tmp_path: Path) -> None:
        """Two communicators differ only in their hashes, so the wait for each is unknown."""
        series = a_job([0.5] * 63 + [0.0])
        again = labels_of(63, hash="h2", communicator_rank="0", nranks="2")
        series.append({"series": selector("gpustall_nccl_communicator_info", again), "values": f"1x{SCRAPES}"})

        straggling(series, tmp_path, {})
