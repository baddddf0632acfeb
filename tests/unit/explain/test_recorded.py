"""recorded: a recording explained by today's accounting and detection."""

from __future__ import annotations

from exporter.chains.chain import Change
from exporter.demo.scenarios import SCENARIOS
from exporter.explain.recorded import explain_recording
from exporter.explain.selection import Selection
from exporter.recording.file import read
from tests.support.history import SECOND

RECORDING = read(SCENARIOS["cpu-contention"].recording)


class TestExplainRecording:
    def test_first_event_opens_a_chain_of_the_recorded_cause(self) -> None:
        seconds, event = explain_recording(RECORDING).events[0]

        assert (event.change, event.cause.value) == (Change.OPENED, "cpu_contention")
        assert 0 < seconds < 60

    def test_times_are_those_of_the_recording(self) -> None:
        explanation = explain_recording(RECORDING).explanation

        assert 0 <= RECORDING.taken_at.unix_ns - explanation.now_unix_ns < SECOND
        assert all(one.steps.counts.total > 0 for one in explanation.processes)

    def test_selection_leaves_out_other_processes(self) -> None:
        explanation = explain_recording(RECORDING, Selection.of("rank=77")).explanation

        assert (explanation.chains, explanation.processes) == ((), ())
