"""replay: recorded rows through the pipeline, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.chains.chain import Change
from exporter.demo.scenarios import SCENARIOS
from exporter.files.budget import ReadBudget
from exporter.pipeline.replay import ReplayedRun, replaying
from exporter.recording.file import read

RECORDING = read(SCENARIOS["cpu-contention"].recording)


class TestReplayedRun:
    def test_ticks_and_play_detect_the_same(self) -> None:
        run = ReplayedRun(RECORDING.ticks())
        by_tick = [one for transitions in run.ticks() for one in transitions]
        played = list(ReplayedRun(RECORDING.ticks()).play(until_end=False))

        assert [one.detected.transition for one in by_tick] == [one.detected.transition for one in played]
        assert by_tick[0].detected.transition.change is Change.OPENED

    def test_processes_end_with_the_last_tick_where_that_is_wanted(self) -> None:
        """A job that hangs has an open chain then."""
        hang = read(SCENARIOS["hang"].recording)
        ends = [
            sum(
                one.detected.transition.change is Change.RESOLVED
                for one in ReplayedRun(hang.ticks()).play(until_end=end)
            )
            for end in (False, True)
        ]

        assert ends == [0, 1]

    def test_calls_and_threads_are_those_of_the_last_tick(self) -> None:
        run = ReplayedRun(RECORDING.ticks())
        calls = [sum(run.calls().values()) for _ in run.ticks()]

        assert calls == sorted(calls)
        assert calls[-1] > 100_000
        assert {row.comm for row in run.threads()} >= {b"trainer", b"pt_data_worker"}


class TestReplaying:
    def test_time_is_bounded(self) -> None:
        budget = ReadBudget(until=-1.0, seconds=0.0)
        with pytest.raises(ValueError, match="gave up: it took more than"), replaying(RECORDING, budget) as run:
            list(run.ticks())

    def test_rows_of_no_node_are_refused(self) -> None:
        """Whatever the accounting does with them."""
        with pytest.raises(ValueError, match=r"its rows are not those of a node \(KeyError\)"), replaying(RECORDING):
            raise KeyError

    def test_ticks_out_of_order_are_refused(self) -> None:
        ticks = replace(RECORDING, compressed_ticks=RECORDING.compressed_ticks[::-1])
        with pytest.raises(ValueError, match="earlier than the one before"), replaying(ticks) as run:
            list(run.ticks())
