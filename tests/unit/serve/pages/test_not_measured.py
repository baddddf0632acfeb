"""What is missing on a machine, and why."""

from __future__ import annotations

from exporter.explain.explanation import Explanation, explain
from exporter.history.run import RecordedWindows, Run
from exporter.history.selection import Selection
from exporter.history.window import NO_STEPS, ProcessLabels, Window
from exporter.model import Identity
from exporter.serve.pages.not_measured import not_measured
from tests.support.history import NOON, SECOND, a_run, a_window


def missing(*windows: Window, runs: tuple[Run, ...] | None = None) -> dict[str, str]:
    """By what is missing. Without what the history never has."""
    recorded = [RecordedWindows(1, NOON, NOON + 10 * SECOND, windows)] if windows else []
    found = dict(not_measured(_explanation(recorded, (a_run(),) if runs is None else runs)))
    found.pop("kernels on the GPU, its clocks and its memory", None)
    return found


def _explanation(recorded: list[RecordedWindows], runs: tuple[Run, ...]) -> Explanation:
    return explain(runs, [], recorded, selection=Selection(), since_unix_ns=NOON, now_unix_ns=NOON + 200 * SECOND)


class TestNotMeasured:
    def test_nothing_of_a_complete_node(self) -> None:
        assert missing(a_window()) == {}

    def test_everything_without_a_run(self) -> None:
        assert list(missing(runs=())) == ["everything"]

    def test_chains_that_are_off(self) -> None:
        assert list(missing(a_window(), runs=(a_run(has_chains=False),))) == ["chains"]

    def test_exporter_that_has_stopped(self) -> None:
        assert list(missing(a_window(), runs=(a_run(ended_unix_ns=NOON),))) == ["the time since then"]

    def test_workloads_when_there_are_none(self) -> None:
        assert list(missing()) == ["workloads"]

    def test_steps_and_states_of_a_rank(self) -> None:
        found = missing(a_window(steps=NO_STEPS, states_ns={}))

        assert list(found) == ["steps of rank 3", "states of threads of rank 3"]

    def test_process_without_id_and_rank(self) -> None:
        found = missing(a_window(labels=ProcessLabels(Identity(), 0, "python")))

        assert list(found) == ["process ids of 1 process", "ranks of 1 process"]
