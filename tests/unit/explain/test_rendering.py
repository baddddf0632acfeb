"""explain.rendering: text for people, JSON for programs."""

from __future__ import annotations

import json
from typing import Any

from exporter.demo.scenarios import SCENARIOS
from exporter.explain.recorded import explain_recording
from exporter.explain.rendering import rendered
from exporter.recording.file import read

EXPLANATION = explain_recording(read(SCENARIOS["cpu-contention"].recording)).explanation
HEADING = "pid  rank  command"


class TestRendered:
    def test_text_has_no_table_of_processes_unless_wanted(self) -> None:
        assert HEADING not in rendered(EXPLANATION, is_json=False)

    def test_table_follows_the_text_after_an_empty_line(self) -> None:
        text, with_table = (rendered(EXPLANATION, is_json=False, per_process=wanted) for wanted in (False, True))

        assert with_table.startswith(text + "\n\n")
        assert with_table.removeprefix(text).lstrip().split()[:3] == ["pid", "rank", "command"]

    def test_json_is_one_document_with_the_processes(self) -> None:
        document: dict[str, Any] = json.loads(rendered(EXPLANATION, is_json=True))

        assert len(document["processes"]) == len(EXPLANATION.processes) > 0
