"""tables: every view, filled from a history; rows written by hand."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from exporter.history.reader import opened
from exporter.investigate.schema import VIEW_OF, VIEWS
from exporter.investigate.tables import QuerySpan, empty_views, fill
from tests.support.history import SECOND, a_call_site
from tests.support.investigated import HOUR_SECONDS, STACK, an_hour


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return an_hour(tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="module")
def views(path: Path) -> Iterator[sqlite3.Connection]:
    """All of them, of the last hour."""
    with filled(path, *VIEW_OF) as connection:
        yield connection


def filled(path: Path, *names: str, resolution_seconds: int = 0, since_seconds: int = HOUR_SECONDS) -> Any:
    now_unix_ns = time.time_ns()
    connection = empty_views()
    with opened(path) as history:
        span = QuerySpan(now_unix_ns - since_seconds * SECOND, now_unix_ns, resolution_seconds * SECOND or None)
        fill(connection, history, names, span)
    return closing(connection)


class TestWindows:
    def test_workloads(self, views: sqlite3.Connection) -> None:
        """Six windows of ten seconds with 500 steps of 20 ms; a second in each is lost by rank 3."""
        found = views.execute(
            "select workload, run, node, rank, pid, comm, round(ended_unix_seconds - began_unix_seconds), recorded_seconds,"
            " steps, step_seconds, lost_seconds, lost_ratio, voluntary_switches, involuntary_switches from workloads"
        ).fetchall()

        assert found == [
            (1, 2, "gpu7", "3", 100, "python", 60.0, 60.0, 3000, 60.0, 6.0, 0.1, 5400, 600),
            (2, 2, "gpu7", "4", 200, "python", 60.0, 60.0, 3000, 60.0, 0.0, 0.0, 5400, 600),
        ]

    def test_steps(self, views: sqlite3.Connection) -> None:
        """All in bucket 190, which ends at 2**(190/8 - 30) s."""
        found = views.execute("select rank, steps, mean_seconds, p50_seconds, p99_seconds from steps").fetchall()
        edge = pytest.approx(0.01313901, abs=1e-8)

        assert found == [("3", 3000, 0.02, edge, edge), ("4", 3000, 0.02, edge, edge)]

    def test_operations(self, views: sqlite3.Connection) -> None:
        found = views.execute(
            "select rank, api, operation, calls, errors, timed_calls, timed_seconds, mean_seconds from operations"
        ).fetchall()

        assert found == [
            ("3", "runtime", "cudaStreamSynchronize", 3000, 0, 3000, 30.0, 0.01),
            ("4", "nccl", "ncclAllReduce", 600, 6, 600, 1.8, 0.003),
        ]

    def test_lost_and_culprits(self, views: sqlite3.Connection) -> None:
        lost = views.execute("select rank, cause, lost_seconds, recorded_seconds from lost").fetchall()
        culprits = views.execute("select rank, cause, culprit, lost_seconds from culprits").fetchall()

        assert lost == [("3", "cpu_contention", 5.4, 60.0), ("3", "lock", 0.6, 60.0)]
        assert culprits == [("3", "cpu_contention", "stress-ng", 5.4)]

    def test_thread_states(self, views: sqlite3.Connection) -> None:
        assert views.execute(
            "select thread_seconds from thread_states where rank = '3' and state = 'gpu_wait'"
        ).fetchall() == [(30.0,)]

    def test_call_sites(self, views: sqlite3.Connection) -> None:
        """23 slow calls of 50 ms in each window, and the functions around them."""
        found = views.execute(
            "select rank, api, operation, slow_calls, slow_seconds, place, frames, working_directory from call_sites"
        ).fetchall()

        assert [row[:5] for row in found] == [("3", a_call_site().api, a_call_site().operation, 138, 6.9)]
        assert found[0][5:] == (
            "step (train.py:142) through Stream.synchronize (torch/cuda/streams.py:106)",
            "Stream.synchronize (torch/cuda/streams.py:106), step (train.py:142)",
            "/srv/job",
        )

    def test_resolution_gives_a_row_for_each_interval(self, path: Path) -> None:
        """Shorter than a window: a row for each."""
        with filled(path, "steps", resolution_seconds=1) as connection:
            found = connection.execute("select rank, steps, count(*) from steps group by rank, steps").fetchall()

        assert found == [("3", 500, 6), ("4", 500, 6)]


class TestChains:
    def test_open_one_comes_first(self, views: sqlite3.Connection) -> None:
        found = views.execute(
            "select substr(chain_id, 1, 1), run, rank, pod, pid, cause, severity, state, round(duration_seconds), end,"
            " lost_ratio, lost_seconds, culprit, culprit_pid, is_chronic, confirmation from chains"
        ).fetchall()

        assert found[0][:8] == ("1", 2, "3", "trainer-0", 100, "cpu_contention", "high", "open")
        assert found[1] == (
            *("2", 2, "3", "trainer-0", 100, "cpu_contention", "high", "resolved", 300.0, "recovered"),
            *(0.46, 90.0, "stress-ng", 777, 0, ""),
        )

    def test_events_are_in_order(self, views: sqlite3.Connection) -> None:
        found = views.execute("select substr(chain_id, 1, 1), change from chain_events").fetchall()

        assert found == [("2", "opened"), ("2", "resolved"), ("1", "opened"), ("1", "evidence")]

    def test_stacks_are_lines_of_evidence(self, views: sqlite3.Connection) -> None:
        found = views.execute("select substr(chain_id, 1, 1), line_number, line from stacks").fetchall()

        assert found == [("1", number, line) for number, line in enumerate(STACK, 1)]

    def test_chain_before_the_span_is_left_out(self, path: Path) -> None:
        """With its events. The open one is not."""
        with filled(path, "chains", "chain_events", since_seconds=60) as connection:
            assert connection.execute("select distinct substr(chain_id, 1, 1) from chain_events").fetchall() == [("1",)]
            assert connection.execute("select count(*) from chains").fetchall() == [(1,)]


class TestNode:
    def test_runs(self, views: sqlite3.Connection) -> None:
        found = views.execute(
            "select run, exporter_version, ended_unix_seconds is null, is_running, detects_chains, window_seconds from node"
        ).fetchall()

        assert found == [(1, "0.9", 0, 0, 0, 0.0), (2, "1.0", 1, 1, 1, 10.0)]


class TestFill:
    @pytest.mark.parametrize("name", VIEW_OF)
    def test_only_named_views_have_rows(self, name: str, path: Path) -> None:
        with filled(path, name) as connection:
            counts = {view: connection.execute(f"select count(*) from {view}").fetchone()[0] for view in VIEW_OF}  # noqa: S608

        assert {view for view, count in counts.items() if count} == {name}

    def test_every_view_has_a_column_of_each_name_once(self) -> None:
        for view in VIEWS:
            names = [column.name for column in view.columns]
            assert len(set(names)) == len(names)
