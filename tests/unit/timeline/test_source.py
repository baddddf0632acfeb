"""source: what a history or a recording holds, in one form."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from exporter.demo.scenarios import SCENARIOS
from exporter.errors import NotPossibleHere
from exporter.history.recorded_chains import KnownState
from exporter.history.run import RecordedWindows
from exporter.pipeline.replayed_windows import ThreadSpan
from exporter.recording.file import read
from exporter.timeline.source import recorded, stored
from tests.support.history import SECOND
from tests.support.hostile_files import make_history
from tests.support.investigated import an_hour

RECORDING = read(SCENARIOS["cpu-contention"].recording)


class TestStored:
    def test_chain_of_the_run_that_goes_on_is_open(self, tmp_path: Path) -> None:
        path = tmp_path / "state" / "history.sqlite"
        make_history(path, now_unix_ns=time.time_ns())
        with stored(path, 300) as source:
            assert [chain.state for chain in source.chains] == [KnownState.OPEN]
            assert [type(one) for one in source.done] == [RecordedWindows]
            assert len(source.runs) == 1

    def test_what_ended_before_the_time_span_is_left_out(self, tmp_path: Path) -> None:
        path = tmp_path / "state" / "history.sqlite"
        make_history(path, now_unix_ns=time.time_ns() - 600 * SECOND)
        with stored(path, 300) as source:
            assert (source.runs, source.chains, list(source.done)) == ([], [], [])

    def test_earlier_time_is_as_it_was_known_then(self, tmp_path: Path) -> None:
        """The exporter went on, the chain was not known, and later windows are left out."""
        path = an_hour(tmp_path)
        with stored(path, 3600) as source:
            ended = [one.ended_unix_ns for one in source.done]
        with stored(path, 3600, at_unix_ns=ended[-1] - 35 * SECOND) as source:
            assert [chain.last.chain_id for chain in source.chains] == ["2" * 32]
            assert len(list(source.done)) == len(ended) - 4
            assert source.now_unix_ns == ended[-1] - 35 * SECOND

    def test_history_that_is_missing_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(NotPossibleHere, match="no history at"), stored(tmp_path / "history.sqlite", 300):
            pass


class TestRecorded:
    def test_chains_are_those_that_were_reported(self) -> None:
        with recorded(RECORDING) as source:
            assert [chain.events for chain in source.chains] == [RECORDING.events]

    def test_time_span_is_that_of_the_ticks(self) -> None:
        with recorded(RECORDING) as source:
            done = list(source.done)
        windows = [one for one in done if isinstance(one, RecordedWindows)]

        assert windows[0].began_unix_ns == source.since_unix_ns
        assert source.now_unix_ns == RECORDING.taken_at.unix_ns
        assert any(isinstance(one, ThreadSpan) for one in done)

    def test_recording_without_ticks_has_no_windows(self) -> None:
        with recorded(replace(RECORDING, compressed_ticks=())) as source:
            assert list(source.done) == []

    def test_tick_that_cannot_be_replayed_is_refused(self) -> None:
        broken = replace(RECORDING, compressed_ticks=(b"x",))
        with pytest.raises(ValueError, match="a tick is truncated"), recorded(broken) as source:
            list(source.done)
