"""top.plain: tables and JSON documents in a file in memory."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace

import pytest

from exporter.model import Identity
from exporter.scrape.http_get import ScrapeFailed
from exporter.scrape.view import SlowLine, View
from exporter.top.plain import JsonWriter, TextWriter, document, print_tables
from exporter.top.screen import Screen
from tests.support.views import CHAIN, JOB, LAUNCH, SLOW


class ScriptEnded(Exception):
    """Ends an endless loop."""


def scraping(*found: View | ScrapeFailed) -> Callable[[], View]:
    """A scrape() that returns or raises these in turn, then ScriptEnded."""
    left = iter(found)

    def scrape() -> View:
        one = next(left, None)
        if one is None:
            raise ScriptEnded
        if isinstance(one, ScrapeFailed):
            raise one
        return one

    return scrape


class RecordedSleep:
    """A sleep() that records its seconds and returns at once."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def __call__(self, seconds: float) -> None:
        """Record the pause."""
        self.seconds.append(seconds)


def printed(found: Iterable[View | ScrapeFailed], *, is_once: bool = False) -> tuple[list[str], list[float]]:
    """The first line of each table, and the pauses."""
    to, slept = io.StringIO(), RecordedSleep()
    writer = TextWriter(to, Screen(), "http://gpu7:10478/metrics", 60)
    with suppress(ScriptEnded):
        print_tables(writer, scraping(*found), 2.0, is_once=is_once, sleep=slept)
    return [
        table.splitlines()[0] for table in to.getvalue().split("\n\n") if table.startswith(("top", "no"))
    ], slept.seconds


SINCE_START = replace(JOB, window_seconds=None)


class TestPrintTables:
    """The first table has the totals since the start."""

    def test_table_for_each_interval(self) -> None:
        """Without end."""
        tables, pauses = printed([SINCE_START, JOB, JOB])

        assert [table.split(" | ")[1] for table in tables] == [
            "since start",
            "last 2.00s",
            "last 2.00s",
        ]
        assert pauses == [2.0, 2.0, 2.0]

    def test_once_prints_one_interval(self) -> None:
        """Not the totals since the start."""
        tables, pauses = printed([SINCE_START, JOB, JOB], is_once=True)

        assert [table.split(" | ")[1] for table in tables] == ["last 2.00s"]
        assert pauses == [2.0]

    def test_failed_scrape_is_a_line(self) -> None:
        """The next scrape follows."""
        tables, _ = printed([SINCE_START, ScrapeFailed("http://gpu7/metrics: connection refused"), JOB])

        assert tables[1] == "no figures: http://gpu7/metrics: connection refused"
        assert tables[2].startswith("top | last 2.00s")

    def test_failed_first_scrape_is_an_error(self) -> None:
        """The address may be wrong."""
        with pytest.raises(ScrapeFailed):
            printed([ScrapeFailed("refused")])


class TestText:
    """Text output."""

    def test_no_control_characters_except_line_ends(self) -> None:
        """Whatever a failure or a label holds."""
        to = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
        writer = TextWriter(to, Screen(), "http://gpu7:10478/metrics", 200)
        writer.view(replace(JOB, chains=(CHAIN._replace(cause="\x1b[2J", culprits=("机器",)),)))
        writer.failure("\x1b]0;title\x07")
        written = to.detach().getvalue()  # type: ignore[attr-defined]

        assert all(byte == 10 or 32 <= byte < 127 for byte in written)
        assert b"?[2J -> longer gap, culprit ??" in written


class TestDocument:
    """JSON output."""

    def test_each_line_is_a_document(self) -> None:
        """Also a failure."""
        to = io.StringIO()
        writer = JsonWriter(to)
        writer.view(JOB)
        writer.failure("refused")
        first, second = to.getvalue().splitlines()

        assert json.loads(first)["window_seconds"] == 2.0
        assert json.loads(second) == {"failure": "refused"}

    def test_document_has_the_whole_view(self) -> None:
        view = View(
            7.0,
            2.0,
            (
                replace(
                    SLOW,
                    operations=(LAUNCH._replace(quantiles_seconds=(1.0, 2.0, float("inf"))),),
                    slow_lines=(SlowLine("cudaLaunchKernel", "step (train.py:142)", 18.0, 0.36, 0.01),),
                ),
            ),
            (CHAIN,),
        )
        identity = {"node": "gpu7", "rank": "0", "container": "", "namespace": "", "pod": ""}

        assert json.loads(json.dumps(document(view), allow_nan=False)) == {
            "at_unix_seconds": 7.0,
            "window_seconds": 2.0,
            "notes": [],
            "failed_nodes": [],
            "chains": [
                {
                    "identity": identity,
                    "cause": "cpu_contention",
                    "effect": "gap",
                    "severity": "high",
                    "culprits": ["stress-ng"],
                    "ids": ["cddab23d5395645d094238308ffe087b"],
                    "lost_share": None,
                    "worst_lost_share": None,
                }
            ],
            "workloads": [
                {
                    "identity": identity,
                    "window_seconds": 2.0,
                    "step_seconds": 0.0191,
                    "is_step_old": False,
                    "late_seconds": 0.0024,
                    "calls_per_second": 8496.0,
                    "is_sampled": False,
                    "steps": 0,
                    "processes": [{"pid": "4026", "comm": "trainer"}],
                    "lost": [
                        {"cause": "cpu_contention", "share": 0.4, "culprits": {"stress-ng": 0.38, "other": 0.02}},
                        {"cause": "lock", "share": 0.06, "culprits": {}},
                    ],
                    "operations": [
                        {
                            "name": "cudaLaunchKernel",
                            "communicator": "",
                            "calls_per_second": 6908.0,
                            "busy_share": 0.0003,
                            "quantiles_seconds": {"p50": 1.0, "p95": 2.0, "p99": None},
                            "errors_per_second": 0.0,
                        }
                    ],
                    "slow_lines": [
                        {
                            "operation": "cudaLaunchKernel",
                            "line": "step (train.py:142)",
                            "calls_per_second": 18.0,
                            "busy_share": 0.36,
                            "slow_from_seconds": 0.01,
                            "mean_seconds": 0.02,
                        }
                    ],
                }
            ],
        }

    def test_unknown_figures_are_null(self) -> None:
        """An empty list would mean that nothing was lost."""
        workload = replace(SLOW, identity=Identity(), lost=None, operations=(LAUNCH._replace(quantiles_seconds=None),))
        (found,) = document(View(0.0, None, (workload,), ()))["workloads"]

        assert (found["lost"], found["operations"][0]["quantiles_seconds"]) == (None, None)
