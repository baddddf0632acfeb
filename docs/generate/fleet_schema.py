"""docs/explain-nodes.schema.json: the JSON Schema of `explain --nodes=… --format=json`."""

from __future__ import annotations

import json
from typing import Any

from docs.generate.explain_schema import a_list, one_of, record
from exporter.fleet.failure import NodeFailureKind
from exporter.fleet.fleet_document import VERSION
from exporter.fleet.job_verdict import JobKind

_TEXT = {"type": "string"}
_NUMBER = {"type": "number"}
_NUMBER_OR_NULL = {"type": ["number", "null"]}
_COUNT = {"type": "integer", "minimum": 0}
_SWITCH = {"type": "boolean"}


def fleet_schema() -> str:
    """The file."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "gpu-stall-exporter explain --nodes --format=json",
        "description": "Made by `make golden`. docs/fleet.md has the meaning of each field. A version may gain fields.",
        **record(
            version={"const": VERSION},
            since_seconds=_NUMBER,
            is_complete=_SWITCH,
            jobs=a_list(_job()),
            failed_nodes=a_list(record(node=_TEXT, failure=one_of(*NodeFailureKind), message=_TEXT)),
            clock_warnings=a_list(_TEXT),
            nodes=a_list(_node()),
        ),
    }
    return json.dumps(schema, indent=2) + "\n"


def _job() -> dict[str, Any]:
    return record(
        communicator=_TEXT,
        kind=one_of(*JobKind),
        verdict=_TEXT,
        ranks=_COUNT,
        ranks_seen=_COUNT,
        nodes=a_list(_TEXT),
        since_seconds=_NUMBER,
        step_mean_seconds=_NUMBER,
        step_before_seconds=_NUMBER,
        cause=_TEXT,
        culprit=_TEXT,
        late=a_list(_late()),
        candidates=a_list(_late()),
        unseen_ranks=a_list(_COUNT),
        ambiguity=_TEXT,
        collectives=_COUNT,
        waiting_ranks=_COUNT,
        lost_gpu_seconds=_NUMBER,
        lost_usd=_NUMBER_OR_NULL,
        conflicts=a_list(
            record(communicator=_TEXT, rank=_COUNT, processes=a_list(record(node=_TEXT, pid=_COUNT))),
        ),
    )


def _late() -> dict[str, Any]:
    return record(
        node=_TEXT,
        rank=_TEXT,
        pod=_TEXT,
        pid=_COUNT,
        cause=_TEXT,
        culprit=_TEXT,
        line=_TEXT,
        chain_id=_TEXT,
        late_seconds=_NUMBER,
        is_gone=_SWITCH,
    )


def _node() -> dict[str, Any]:
    return record(
        node=_TEXT,
        summary=_TEXT,
        is_recording=_SWITCH,
        detects_chains=_SWITCH,
        written_seconds_ago=_NUMBER,
        open_chains=_COUNT,
        ranks_left_out=_COUNT,
        clock={"anyOf": [{"type": "null"}, _clock()]},
    )


def _clock() -> dict[str, Any]:
    return record(ahead_seconds=_NUMBER, bound_seconds=_NUMBER, kernel_bound_seconds=_NUMBER_OR_NULL)
