"""Documents of `explain --format=json` fit docs/explain.schema.json, and hold no field that it does not have."""

from __future__ import annotations

import json
from typing import Any

import pytest

from docs.generate.explain_schema import explain_schema
from exporter.chains.chain import Change
from exporter.demo.scenarios import SCENARIOS
from exporter.explain.comparison import compared
from exporter.explain.comparison_text import comparison_document
from exporter.explain.document import document
from exporter.explain.explanation import explain
from exporter.explain.recorded import explain_recording
from exporter.history.run import RecordedEvent, RecordedWindows
from exporter.history.selection import Selection
from exporter.recording.file import read
from tests.support.history import NOON, SECOND, a_run, a_window, an_event, resolved
from tests.support.json_schema import offences
from tests.unit.explain.test_comparison import QUIET, SLOW, spanning

SCHEMA: dict[str, Any] = json.loads(explain_schema())


def as_json(found: dict[str, Any]) -> Any:
    return json.loads(json.dumps(found))


class TestDocuments:
    @pytest.mark.parametrize("scenario", SCENARIOS)
    def test_every_demo_fits(self, scenario: str) -> None:
        explanation = explain_recording(read(SCENARIOS[scenario].recording)).explanation

        assert list(offences(as_json(document(explanation)), SCHEMA)) == []

    def test_history_with_everything_fits(self) -> None:
        """An interrupted chain, a confirmed one, a gap, operations."""
        events = [
            an_event(),
            an_event(change=Change.CONFIRMED, evidence=("a",)),
            an_event(chain_id="2" * 32, slowdown=None, usual_step_ns=0, identity=None),
            resolved(an_event(chain_id="3" * 32), 5),
        ]
        window = a_window()
        explanation = explain(
            [a_run(seen_seconds=20)],
            [RecordedEvent(1, one) for one in events],
            [RecordedWindows(1, window.began_unix_ns, window.ended_unix_ns, [window])],
            selection=Selection(),
            since_unix_ns=NOON - 300 * SECOND,
            now_unix_ns=NOON + 300 * SECOND,
            with_operations=True,
        )
        found = as_json(document(explanation))

        assert list(offences(found, SCHEMA)) == []
        assert found["gaps"]
        assert found["processes"][0]["operations"]
        assert any(chain["confirmation"] for chain in found["chains"])

    def test_history_without_anything_fits(self) -> None:
        explanation = explain([], [], [], selection=Selection(), since_unix_ns=NOON, now_unix_ns=NOON)

        assert list(offences(as_json(document(explanation)), SCHEMA)) == []

    def test_comparison_fits(self) -> None:
        comparison = compared(spanning(QUIET), spanning(SLOW, until_seconds=60))

        assert list(offences(as_json(comparison_document(comparison)), SCHEMA)) == []

    def test_other_documents_do_not_fit(self) -> None:
        """A wrong type, a wrong word, a missing field and an unknown one are found."""
        found = as_json(document(explain([], [], [], selection=Selection(), since_unix_ns=NOON, now_unix_ns=NOON)))
        changed = {**found, "status": "bad", "gaps": [{"began_unix_seconds": "x"}], "more": 1}
        del changed["verdict"]

        assert len(list(offences(changed, {**SCHEMA["$defs"]["explanation"], "$defs": SCHEMA["$defs"]}))) == 7
