"""document: an explanation as JSON for other programs."""

from __future__ import annotations

import json
from typing import Any

from exporter.chains.chain import Change
from exporter.explain.document import document
from exporter.explain.explanation import explain
from exporter.history.run import RecordedEvent, RecordedWindows
from exporter.history.selection import Selection
from tests.support.history import NOON, SECOND, a_call_site, a_run, a_window, an_event


def explained() -> dict[str, Any]:
    """One open chain that was confirmed, and one window of its process."""
    window = a_window(10.0, call_sites=(a_call_site(),))
    events = [an_event(), an_event(change=Change.CONFIRMED, evidence=("steps took 30 ms before",))]
    found = explain(
        [a_run(seen_seconds=10.0)],
        [RecordedEvent(1, event) for event in events],
        [RecordedWindows(1, window.began_unix_ns, window.ended_unix_ns, [window])],
        selection=Selection(),
        since_unix_ns=NOON,
        now_unix_ns=NOON + 10 * SECOND,
        with_operations=True,
    )
    found_document: dict[str, Any] = json.loads(json.dumps(document(found)))
    return found_document


class TestDocument:
    def test_version_status_and_verdict(self) -> None:
        found = explained()

        assert (found["version"], found["status"]) == (1, "slow")
        assert found["verdict"].startswith("rank 3 (pod trainer-0) loses 46 % of its time to cpu_contention")

    def test_chain_has_its_culprits_and_its_confirmation(self) -> None:
        (chain,) = explained()["chains"]

        assert (chain["state"], chain["cause"], chain["severity"]) == ("open", "cpu_contention", "high")
        assert (chain["pid"], chain["culprit_pids"]) == (100, [777])
        assert chain["culprits"][0] == {"name": "stress-ng", "share_ratio": 0.94}
        assert chain["baseline_step_seconds"] == 0.014
        assert chain["detail"] == ""
        assert chain["confirmation"]["result"] == "confirmed"
        assert chain["confirmation"]["measured"] == ["steps took 30 ms before"]

    def test_lines_of_python_are_whole(self) -> None:
        """Those of the chain, and those of the process in the whole span."""
        found = explained()

        assert found["chains"][0]["call_sites"] == found["processes"][0]["call_sites"]
        assert found["chains"][0]["call_sites"] == [
            {
                "api": "runtime",
                "operation": "cudaStreamSynchronize",
                "slow_calls": 23,
                "slow_seconds": 1.15,
                "slow_from_seconds": 0.025,
                "working_directory": "/srv/job",
                "frames": [
                    {
                        "file": "/opt/venv/lib/python3.11/site-packages/torch/cuda/streams.py",
                        "function": "Stream.synchronize",
                        "line": 106,
                    },
                    {"file": "/srv/job/train.py", "function": "step", "line": 142},
                ],
            }
        ]

    def test_process_has_steps_lost_time_and_operations(self) -> None:
        (process,) = explained()["processes"]

        assert (process["pid"], process["rank"], process["comm"], process["steps"]) == (100, "3", "python", 500)
        assert process["lost_seconds"] == {"cpu_contention": 0.9, "lock": 0.1}
        assert process["operations"][0]["operation"] == "cudaStreamSynchronize"
        assert process["operations"][0]["calls"] == 500
