"""The report of a node about its ranks, from its history."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from exporter.causes import Cause
from exporter.chains.chain import Change
from exporter.chains.event import ChainEvent
from exporter.fleet.node_ranks import ReportSpan, node_report, report_of
from exporter.fleet.rank_report import NodeReport, Place, RankSlice
from exporter.history.membership import RecordedMembership
from exporter.history.run import RecordedEvent, RecordedWindows
from exporter.history.scope import Scope
from exporter.history.window import Window
from exporter.python.call_site import LINES
from tests.support.history import MS, NOON, SECOND, a_call_site, a_membership, a_run, a_window, an_event, times
from tests.support.investigated import two_teams

AN_HOUR_OFF = 3600 * SECOND


def report(
    windows: list[Window], events: list[ChainEvent] | None = None, *, seen_seconds: float = 200.0, offset_ns: int = 0
) -> NodeReport:
    """As of 205 s after NOON. Rank 3 has a communicator, in the last window. offset_ns: of this node's clock."""
    recorded = [
        RecordedWindows(1, one.began_unix_ns + offset_ns, one.ended_unix_ns + offset_ns, [_shifted(one, offset_ns)])
        for one in windows
    ]
    place = a_membership(entered_unix_ns=NOON + 195 * SECOND + offset_ns)
    run = a_run(seen_seconds=200 + offset_ns / SECOND)
    now_unix_ns = NOON + 205 * SECOND + offset_ns
    seen_unix_ns = NOON + int(seen_seconds * SECOND) + offset_ns
    return report_of(
        [run],
        [RecordedEvent(1, one) for one in events or []],
        recorded,
        [RecordedMembership(1, seen_unix_ns, place)],
        ReportSpan(now_unix_ns - 300 * SECOND, now_unix_ns),
    )


def _shifted(window: Window, offset_ns: int) -> Window:
    began, ended = window.began_unix_ns + offset_ns, window.ended_unix_ns + offset_ns
    return replace(window, began_unix_ns=began, ended_unix_ns=ended)


class TestTimes:
    def test_all_are_ages(self) -> None:
        """The window ended 5 s ago; the last collective was entered 5 s before it ended."""
        found = report([a_window(200.0)])

        assert found.written_seconds_ago == 5.0
        assert found.ranks[0].slices[0].ended_seconds_ago == 5.0
        assert found.ranks[0].places == (Place(77, 3, 16, 41, 5.0),)

    @pytest.mark.parametrize("offset_ns", [-AN_HOUR_OFF, AN_HOUR_OFF])
    def test_clock_that_is_wrong_changes_nothing(self, offset_ns: int) -> None:
        windows = [a_window(ended) for ended in (180.0, 190.0, 200.0)]

        assert report(windows, offset_ns=offset_ns) == report(windows)


class TestSlices:
    def test_windows_of_fifteen_seconds_are_one(self) -> None:
        """Those that ended 5 and 14 s ago: each has 500 steps of 20 ms, 5 s of waiting, 4 s on a CPU, and one second lost."""
        found = report([a_window(191.0), a_window(200.0)])

        assert found.ranks[0].slices == (
            RankSlice(5.0, 20.0, 1000, 20.0, 10.0, 8.0, {"cpu_contention": 1.8, "lock": 0.2}),
        )

    def test_oldest_is_first(self) -> None:
        found = report([a_window(100.0), a_window(200.0)])

        assert [one.ended_seconds_ago for one in found.ranks[0].slices] == [105.0, 5.0]

    def test_day_has_a_bounded_number(self) -> None:
        """2,160 s are cut to 40 slices at most."""
        recorded = [a_window(10.0 * number) for number in range(1, 216)]
        span = ReportSpan(NOON, NOON + 2160 * SECOND)
        windows = [RecordedWindows(1, one.began_unix_ns, one.ended_unix_ns, [one]) for one in recorded]
        (rank,) = report_of([a_run()], [], windows, [], span).ranks

        assert len(rank.slices) <= 40
        assert sum(one.steps for one in rank.slices) == 215 * 500


class TestChains:
    def test_chain_of_the_process(self) -> None:
        (chain,) = report([a_window(200.0)], [an_event(165.0)]).ranks[0].chains

        assert (chain.cause, chain.state, chain.culprit) == (Cause.CPU_CONTENTION, "open", "stress-ng")
        assert (chain.began_seconds_ago, chain.usual_step_seconds) == (40.0, 0.014)

    def test_line_is_that_of_the_evidence(self) -> None:
        evidence = (LINES, "  12 of 20 samples: load (data.py:7)")
        events = [an_event(165.0), an_event(165.0, change=Change.EVIDENCE, evidence=evidence)]
        windows = [a_window(200.0, call_sites=(a_call_site(),))]

        assert report(windows, events).ranks[0].chains[0].line == "12 of 20 samples: load (data.py:7)"

    def test_line_is_that_of_slow_calls_without_such_evidence(self) -> None:
        windows = [a_window(200.0, call_sites=(a_call_site(142), a_call_site(9, each_ns=MS)))]

        assert report(windows, [an_event(165.0)]).ranks[0].chains[0].line.startswith("step (train.py:142)")

    def test_chain_of_another_process_stands_alone(self) -> None:
        """Its process has no window and no communicator."""
        found = report([a_window(200.0)], [an_event(165.0, tgid=999)])

        assert [(one.tgid, len(one.places), len(one.chains)) for one in found.ranks] == [(100, 1, 0), (999, 0, 1)]


class TestProcesses:
    def test_one_that_does_nothing_is_known_by_its_communicator(self) -> None:
        """It hangs: no window has it."""
        found = report([])

        assert [(one.tgid, one.is_gone, one.slices) for one in found.ranks] == [(100, False, ())]

    def test_one_that_the_last_window_has_not_is_gone(self) -> None:
        found = report([a_window(200.0, process=2)], seen_seconds=190.0)

        assert {one.tgid: one.is_gone for one in found.ranks if one.places} == {100: True}

    def test_communicators_of_an_earlier_run_are_left_out(self) -> None:
        """What has become of its processes is not known."""
        place = RecordedMembership(1, NOON + 100 * SECOND, a_membership())
        runs = [a_run(id=1, ended_unix_ns=NOON + 110 * SECOND), a_run(id=2)]
        found = report_of(runs, [], [], [place], ReportSpan(NOON, NOON + 205 * SECOND))

        assert (found.is_recording, found.ranks) == (True, ())

    def test_history_that_nothing_writes_is_not_recording(self) -> None:
        found = report_of([a_run(seen_seconds=0)], [], [], [], ReportSpan(NOON, NOON + 205 * SECOND))

        assert (found.is_recording, found.written_seconds_ago) == (False, 205.0)

    def test_job_without_steps_has_none(self) -> None:
        (rank,) = report([a_window(200.0, steps=times(0, 0))]).ranks

        assert (rank.slices[0].steps, rank.slices[0].step_seconds) == (0, 0.0)


def test_scope_holds(tmp_path: Path) -> None:
    """team-a sees rank 3 and its chain alone."""
    path = two_teams(tmp_path)
    time.time_ns()
    found = node_report(path, 300.0, Scope(namespaces=frozenset(("team-a",))))

    assert [(one.identity.namespace, len(one.chains)) for one in found.ranks] == [("team-a", 1)]
