"""The answer to `explain --nodes` as a document, which fits docs/explain-nodes.schema.json."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from docs.generate.fleet_schema import fleet_schema
from exporter.fleet.clock_offset import ClockOffset
from exporter.fleet.fleet_document import document
from tests.support.json_schema import offences
from tests.support.rank_reports import a_node
from tests.unit.fleet.test_fleet_text import explained, slow
from tests.unit.fleet.test_job_verdict import late, victims

SCHEMA: dict[str, Any] = json.loads(fleet_schema())


class TestDocument:
    def test_slow_rank(self) -> None:
        found = json.loads(json.dumps(document(slow())))

        (job,) = found["jobs"]
        assert (job["kind"], job["ranks"], job["nodes"], job["lost_usd"]) == ("slow_rank", 4, ["gpu1", "gpu2"], None)
        assert [(one["node"], one["rank"], one["cause"]) for one in job["late"]] == [("gpu2", "3", "cpu_contention")]
        assert found["failed_nodes"] == [{"node": "gpu9", "failure": "unreachable", "message": "connection refused"}]
        assert (found["is_complete"], [one["node"] for one in found["nodes"]]) == (False, ["gpu1", "gpu2"])

    def test_offsets_of_clocks_are_in_seconds(self) -> None:
        clocks = {"gpu1": ClockOffset(3_000_000, 500_000, 2_000_000), "gpu2": ClockOffset(-52_000_000, 500_000, None)}
        found = json.loads(json.dumps(document(replace(slow(), clocks=clocks))))

        assert [one["clock"] for one in found["nodes"]] == [
            {"ahead_seconds": 0.003, "bound_seconds": 0.0005, "kernel_bound_seconds": 0.002},
            {"ahead_seconds": -0.052, "bound_seconds": 0.0005, "kernel_bound_seconds": None},
        ]
        assert len(found["clock_warnings"]) == 2
        assert list(offences(found, SCHEMA)) == []

    def test_every_kind_fits_the_schema(self) -> None:
        """A late rank, a node that failed, a claim of two nodes, and no answer."""
        claimed = {"gpu1": a_node(*victims(0, 1)), "gpu2": a_node(*victims(2), late(3)), "b": a_node(*victims(3))}
        for found in (slow(usd=2.0), explained(claimed), explained({})):
            assert list(offences(json.loads(json.dumps(document(found))), SCHEMA)) == []
