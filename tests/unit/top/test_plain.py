"""plain: tables and documents, one after the other, into a file that is kept in memory."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace

import pytest

from exporter.model import Identity
from exporter.scrape.http_get import ScrapeFailed
from exporter.scrape.view import View
from exporter.top.plain import JsonWriter, TextWriter, document, print_tables
from exporter.top.screen import Screen
from tests.support.views import CHAIN, JOB, LAUNCH, SLOW


class EnoughSeen(Exception):
    """Ends what would go on for ever."""


def looking(*found: View | ScrapeFailed) -> Callable[[], View]:
    """Looks that see these, one after the other, and then enough."""
    left = iter(found)

    def look() -> View:
        one = next(left, None)
        if one is None:
            raise EnoughSeen
        if isinstance(one, ScrapeFailed):
            raise one
        return one

    return look


class Slept:
    """A sleep that takes no time and remembers how long it would have been."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def __call__(self, seconds: float) -> None:
        """Remember it."""
        self.seconds.append(seconds)


def printed(found: Iterable[View | ScrapeFailed], *, is_once: bool = False) -> tuple[list[str], list[float]]:
    """First lines of what was printed, and the pauses."""
    to, slept = io.StringIO(), Slept()
    writer = TextWriter(to, Screen(), "http://gpu7:10478/metrics", 60)
    with suppress(EnoughSeen):
        print_tables(writer, looking(*found), 2.0, is_once=is_once, sleep=slept)
    return [
        table.splitlines()[0] for table in to.getvalue().split("\n\n") if table.startswith(("top", "no"))
    ], slept.seconds


SINCE_START = replace(JOB, window_seconds=None)


class TestPrintTables:
    """The first is since the start."""

    def test_a_table_an_interval(self) -> None:
        """For ever."""
        tables, pauses = printed([SINCE_START, JOB, JOB])

        assert [table.split(" | ")[1] for table in tables] == [
            "since start",
            "last 2.00s",
            "last 2.00s",
        ]
        assert pauses == [2.0, 2.0, 2.0]

    def test_once_it_is_that_of_one_interval(self) -> None:
        """Not of the time since the start, which says little of now."""
        tables, pauses = printed([SINCE_START, JOB, JOB], is_once=True)

        assert [table.split(" | ")[1] for table in tables] == ["last 2.00s"]
        assert pauses == [2.0]

    def test_a_scrape_that_fails_is_a_line_and_it_goes_on(self) -> None:
        """With the next."""
        tables, _ = printed([SINCE_START, ScrapeFailed("http://gpu7/metrics: connection refused"), JOB])

        assert tables[1] == "no figures: http://gpu7/metrics: connection refused"
        assert tables[2].startswith("top | last 2.00s")

    def test_the_first_one_that_fails_ends_it(self) -> None:
        """A wrong address is never right later."""
        with pytest.raises(ScrapeFailed):
            printed([ScrapeFailed("refused")])


class TestText:
    """What is written."""

    def test_no_control_character_but_the_ends_of_lines(self) -> None:
        """Whatever a reason or a label may hold."""
        to = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
        writer = TextWriter(to, Screen(), "http://gpu7:10478/metrics", 200)
        writer.view(replace(JOB, chains=(CHAIN._replace(cause="\x1b[2J", culprits=("机器",)),)))
        writer.failure("\x1b]0;title\x07")
        written = to.detach().getvalue()  # type: ignore[attr-defined]

        assert all(byte == 10 or 32 <= byte < 127 for byte in written)
        assert b"?[2J -> longer gap, through ??" in written


class TestDocument:
    """For machines."""

    def test_a_line_is_a_document(self) -> None:
        """So is a failure."""
        to = io.StringIO()
        writer = JsonWriter(to)
        writer.view(JOB)
        writer.failure("refused")
        first, second = to.getvalue().splitlines()

        assert json.loads(first)["window_seconds"] == 2.0
        assert json.loads(second) == {"failure": "refused"}

    def test_it_has_all_of_a_view(self) -> None:
        """Names for everything."""
        view = View(
            7.0,
            2.0,
            (replace(SLOW, operations=(LAUNCH._replace(quantiles_seconds=(1.0, 2.0, float("inf"))),)),),
            (CHAIN,),
        )
        identity = {"node": "gpu7", "rank": "0", "container": "", "namespace": "", "pod": ""}

        assert json.loads(json.dumps(document(view), allow_nan=False)) == {
            "at_unix_seconds": 7.0,
            "window_seconds": 2.0,
            "notes": [],
            "chains": [
                {
                    "identity": identity,
                    "cause": "cpu_contention",
                    "effect": "gap",
                    "severity": "high",
                    "culprits": ["stress-ng"],
                    "ids": ["cddab23d5395645d094238308ffe087b"],
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
                }
            ],
        }

    def test_what_is_not_known_is_null(self) -> None:
        """Not an empty list, which would be nothing lost."""
        workload = replace(SLOW, identity=Identity(), lost=None, operations=(LAUNCH._replace(quantiles_seconds=None),))
        (found,) = document(View(0.0, None, (workload,), ()))["workloads"]

        assert (found["lost"], found["operations"][0]["quantiles_seconds"]) == (None, None)
