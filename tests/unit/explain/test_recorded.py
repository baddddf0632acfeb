"""recorded: a recording explained by today's accounting and detection."""

from __future__ import annotations

from dataclasses import replace

from exporter.chains.chain import Change
from exporter.demo.scenarios import SCENARIOS
from exporter.explain.recorded import explain_recording
from exporter.history.selection import Selection
from exporter.recording.file import read
from tests.support.history import SECOND, a_call_site

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

    def test_recording_of_an_older_version_has_no_lines_of_python(self) -> None:
        """It was made before there were any."""
        assert all(one.call_sites == () for one in RECORDING.processes.values())

    def test_chain_and_process_have_the_recorded_lines_of_python(self) -> None:
        processes = {number: replace(one, call_sites=(a_call_site(),)) for number, one in RECORDING.processes.items()}
        explanation = explain_recording(replace(RECORDING, processes=processes)).explanation

        assert explanation.chains[0].call_sites == (a_call_site(),)
        assert explanation.processes[0].call_sites.largest_first() == (a_call_site(),)

    def test_selection_leaves_out_other_processes(self) -> None:
        explanation = explain_recording(RECORDING, Selection.of("rank=77")).explanation

        assert (explanation.chains, explanation.processes) == ((), ())
