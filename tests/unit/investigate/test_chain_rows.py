"""chain_rows: the order of chains, and what is not known; test_tables has whole rows."""

from __future__ import annotations

from typing import Any

from exporter.chains.chain import Change, Severity
from exporter.chains.event import ChainEvent
from exporter.history.recorded_chains import recorded_chains
from exporter.history.run import RecordedEvent
from exporter.investigate.chain_rows import chain_rows, event_rows, run_rows
from exporter.investigate.schema import VIEW_OF
from tests.support.history import NOON, SECOND, a_run, an_event, resolved


def named(view: str, row: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip((column.name for column in VIEW_OF[view].columns), row, strict=True))


def chains(*events: ChainEvent, live_run: int | None = 1) -> list[dict[str, Any]]:
    known = recorded_chains([RecordedEvent(1, event) for event in events], {1: a_run()}, live_run, NOON + 200 * SECOND)
    return [named("chains", row) for row in chain_rows(known)]


class TestChains:
    def test_open_ones_come_first_and_then_the_severe_ones(self) -> None:
        over = an_event(chain_id="2" * 32, severity=Severity.CRITICAL)
        low = an_event(chain_id="3" * 32, severity=Severity.LOW)
        found = chains(over, resolved(over, 50), low, an_event())

        assert [(row["chain_id"][0], row["state"]) for row in found] == [
            ("1", "open"),
            ("3", "open"),
            ("2", "resolved"),
        ]
        assert [row["duration_seconds"] for row in found] == [200.0, 200.0, 50.0]

    def test_what_is_not_known_is_null_or_empty(self) -> None:
        (row,) = chains(an_event(identity=None, slowdown=None, usual_step_ns=0, culprits=(), culprit_tgids=()))

        assert (row["rank"], row["culprit"], row["end"]) == ("", "", "")
        assert (row["slowdown_ratio"], row["culprit_pid"], row["baseline_step_seconds"]) == (None, None, None)

    def test_result_of_an_experiment_is_named(self) -> None:
        (row,) = chains(an_event(), an_event(change=Change.REFUTED))

        assert row["confirmation"] == "refuted"

    def test_event_has_its_change(self) -> None:
        row = named("chain_events", next(event_rows([RecordedEvent(4, an_event())])))

        assert (row["run"], row["change"], row["at_unix_seconds"]) == (4, "opened", NOON // SECOND + 1)


class TestRuns:
    def test_only_the_last_one_can_be_running(self) -> None:
        """One that was killed has no end either."""
        rows = [named("node", row) for row in run_rows([a_run(id=1), a_run(id=2)], NOON + 210 * SECOND)]

        assert [row["is_running"] for row in rows] == [0, 1]
