"""The tool that says where a timeline is to be had."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.errors import BadInput
from exporter.history.scope import EVERYTHING
from exporter.serve.tools.registry import Offer


class TestTimeline:
    def test_path_and_command_have_the_same_span(self, tmp_path: Path) -> None:
        found = (
            Offer().tool("timeline").answer(tmp_path / "h.sqlite", EVERYTHING, {"since": "5m", "workload": "rank=3"})
        )

        assert found["files"] == [{"name": "timeline.pftrace", "path": "/api/v1/timeline?since=5m&workload=rank%3D3"}]
        assert found["command"].startswith("gpu-stall-exporter export --since=5m --workload=rank=3 --history.path=")

    def test_both_have_the_end_of_the_span(self, tmp_path: Path) -> None:
        found = Offer().tool("timeline").answer(tmp_path / "h.sqlite", EVERYTHING, {"at": "90m"})

        assert found["files"][0]["path"] == "/api/v1/timeline?since=15m&at=90m"
        assert found["command"].startswith("gpu-stall-exporter export --since=15m --at=90m --history.path=")

    def test_hostile_workload_stays_one_word_of_the_command(self, tmp_path: Path) -> None:
        found = Offer().tool("timeline").answer(tmp_path / "h.sqlite", EVERYTHING, {"workload": "x; rm -rf /"})

        assert "'--workload=x; rm -rf /'" in found["command"]

    def test_mistake_is_refused_here_already(self, tmp_path: Path) -> None:
        with pytest.raises(BadInput):
            Offer().tool("timeline").answer(tmp_path, EVERYTHING, {"since": "soon"})
