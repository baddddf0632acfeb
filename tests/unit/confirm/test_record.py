"""confirm.record: the outcome of a confirmation in the history."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.chains.chain import Change
from exporter.chains.event import ChainEvent
from exporter.confirm.eligibility import ProcessFacts
from exporter.confirm.experiment import Plan
from exporter.confirm.intervention import PauseMethod
from exporter.confirm.outcome import ConfirmOutcome, ConfirmResult
from exporter.confirm.record import record
from exporter.history.file_guard import claim
from exporter.history.reader import opened
from exporter.history.store import Store
from tests.support.history import NOON, an_event

PLAN = Plan((ProcessFacts(777, "stress-ng", 7, (1,), ("/",)),), (), PauseMethod.SIGSTOP)


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """With one open chain of run 1."""
    path = tmp_path / "state" / "history.sqlite"
    file = claim(path)
    store = Store(file, 4 << 20, began_unix_ns=NOON, version="1.0", has_chains=True)
    store.write([an_event()], [], NOON)
    store.close()
    file.release()
    return path


def events_after(history: Path, outcome: ConfirmOutcome) -> list[ChainEvent]:
    record(history, 1, an_event(), PLAN, ConfirmResult(outcome, "steps took 30 ms before, 16 ms during the pause"))
    with opened(history) as found:
        return [one.event for one in found.events(0)]


class TestRecord:
    @pytest.mark.parametrize(
        ("outcome", "change"),
        [(ConfirmOutcome.CONFIRMED, Change.CONFIRMED), (ConfirmOutcome.REFUTED, Change.REFUTED)],
    )
    def test_outcome_is_an_event_of_the_chain(self, history: Path, outcome: ConfirmOutcome, change: Change) -> None:
        """With what was done and measured."""
        _, event = events_after(history, outcome)

        assert (event.chain_id, event.change) == (an_event().chain_id, change)
        assert event.evidence == (
            "stress-ng (777) paused by sigstop for 2 s: steps took 30 ms before, 16 ms during the pause",
        )

    def test_undecided_outcome_is_not_recorded(self, history: Path) -> None:
        assert events_after(history, ConfirmOutcome.UNDECIDED) == [an_event()]
