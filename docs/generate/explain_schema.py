"""docs/explain.schema.json: the JSON Schema of `explain --format=json`, with and without --compare."""

from __future__ import annotations

import json
from typing import Any

from exporter.catalog import COMMON_LABELS
from exporter.causes import CHAIN_CAUSES
from exporter.chains.chain import Effect, End, Severity
from exporter.explain import comparison_text, document
from exporter.explain.explanation import Status
from exporter.history.recorded_chains import CONFIRMATIONS, KnownState

_TEXT = {"type": "string"}
_NUMBER = {"type": "number"}
_COUNT = {"type": "integer", "minimum": 0}
_SWITCH = {"type": "boolean"}
_NUMBER_OR_NULL = {"type": ["number", "null"]}
_NUMBERS_BY_NAME = {"type": "object", "additionalProperties": _NUMBER}


def explain_schema() -> str:
    """The file."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "gpu-stall-exporter explain --format=json",
        "description": "Made by `make golden`. docs/history.md has the meaning of each field. A version may gain fields.",
        "anyOf": [_reference("explanation"), _reference("comparison")],
        "$defs": {
            "explanation": _explanation(),
            "chain": _chain(),
            "process": _process(),
            "call_site": _call_site(),
            "comparison": _comparison(),
        },
    }
    return json.dumps(schema, indent=2) + "\n"


def record(**fields: Any) -> dict[str, Any]:
    """An object with all of these fields."""
    return {"type": "object", "properties": fields, "required": list(fields)}


def a_list(of: dict[str, Any]) -> dict[str, Any]:
    """An array of these."""
    return {"type": "array", "items": of}


def _reference(name: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{name}"}


def one_of(*values: object) -> dict[str, Any]:
    """One of these words."""
    return {"enum": [str(value) for value in values]}


def _labels() -> dict[str, Any]:
    return dict.fromkeys(COMMON_LABELS, _TEXT)


def _gaps() -> dict[str, Any]:
    return a_list(
        record(
            began_unix_seconds=_NUMBER,
            ended_unix_seconds=_NUMBER,
            is_exporter_running=_SWITCH,
            is_before_the_history=_SWITCH,
        )
    )


def _explanation() -> dict[str, Any]:
    return record(
        version={"const": document.VERSION},
        status=one_of(*Status),
        verdict=_TEXT,
        since_unix_seconds=_NUMBER,
        now_unix_seconds=_NUMBER,
        exporter=record(
            is_running=_SWITCH,
            version=_TEXT,
            began_unix_seconds=_NUMBER_OR_NULL,
            seen_unix_seconds=_NUMBER_OR_NULL,
            detects_chains={"type": ["boolean", "null"]},
        ),
        chains=a_list(_reference("chain")),
        processes=a_list(_reference("process")),
        gaps=_gaps(),
        new_normals=a_list(
            record(
                pid=_COUNT,
                **_labels(),
                chain_id=_TEXT,
                began_unix_seconds=_NUMBER,
                baseline_step_seconds=_NUMBER,
                step_mean_seconds=_NUMBER,
            )
        ),
        left_out_until_unix_seconds=_NUMBER_OR_NULL,
    )


def _chain() -> dict[str, Any]:
    culprits = a_list(record(name=_TEXT, share_ratio=_NUMBER))
    now = record(lost_ratio=_NUMBER, slowdown_ratio=_NUMBER_OR_NULL, culprits=culprits)
    confirmation = record(result=one_of(*CONFIRMATIONS), at_unix_seconds=_NUMBER, measured=a_list(_TEXT))
    return record(
        chain_id=_TEXT,
        state=one_of(*KnownState),
        cause=one_of(*CHAIN_CAUSES),
        effect=one_of(*Effect),
        severity=one_of(*(one.name.lower() for one in Severity)),
        **_labels(),
        pid=_COUNT,
        cgroup=_TEXT,
        began_unix_seconds=_NUMBER,
        known_until_unix_seconds=_NUMBER,
        duration_seconds=_NUMBER,
        end=one_of("", *End),
        lost_ratio=_NUMBER,
        lost_seconds=_NUMBER,
        contribution_ratio=_NUMBER,
        slowdown_ratio=_NUMBER_OR_NULL,
        now={"anyOf": [{"type": "null"}, now]},
        baseline_step_seconds=_NUMBER_OR_NULL,
        is_chronic=_SWITCH,
        causes=a_list(record(cause=_TEXT, share_ratio=_NUMBER)),
        culprits=culprits,
        culprit_pids=a_list(_COUNT),
        culprit_start_ticks=a_list(_COUNT),
        peer_rank=_TEXT,
        detail=_TEXT,
        remedy=_TEXT,
        commands=a_list(_TEXT),
        evidence=a_list(_TEXT),
        call_sites=a_list(_reference("call_site")),
        confirmation={"anyOf": [{"type": "null"}, confirmation]},
        waiting=a_list(_reference("chain")),
    )


def _process() -> dict[str, Any]:
    return record(
        pid=_COUNT,
        comm=_TEXT,
        **_labels(),
        began_unix_seconds=_NUMBER,
        ended_unix_seconds=_NUMBER,
        recorded_seconds=_NUMBER,
        steps=_COUNT,
        step_mean_seconds=_NUMBER_OR_NULL,
        step_p50_seconds=_NUMBER_OR_NULL,
        step_p99_seconds=_NUMBER_OR_NULL,
        lost_ratio=_NUMBER,
        lost_seconds=_NUMBERS_BY_NAME,
        culprits=a_list(record(cause=_TEXT, name=_TEXT, lost_seconds=_NUMBER)),
        thread_time_seconds=_NUMBERS_BY_NAME,
        off_cpu_seconds=_NUMBER,
        cpu_stolen_seconds=_NUMBER,
        voluntary_switches=_COUNT,
        involuntary_switches=_COUNT,
        operations=a_list(
            record(
                api=_TEXT,
                operation=_TEXT,
                calls=_COUNT,
                errors=_COUNT,
                timed_calls=_COUNT,
                timed_seconds=_NUMBER,
                p50_seconds=_NUMBER_OR_NULL,
                p95_seconds=_NUMBER_OR_NULL,
                p99_seconds=_NUMBER_OR_NULL,
            )
        ),
        call_sites=a_list(_reference("call_site")),
    )


def _call_site() -> dict[str, Any]:
    return record(
        api=_TEXT,
        operation=_TEXT,
        slow_calls=_COUNT,
        slow_seconds=_NUMBER,
        slow_from_seconds=_NUMBER,
        working_directory=_TEXT,
        frames=a_list(record(file=_TEXT, function=_TEXT, line={"type": ["integer", "null"]})),
    )


def _comparison() -> dict[str, Any]:
    span = record(since_unix_seconds=_NUMBER, until_unix_seconds=_NUMBER, gaps=_gaps())
    pair = record(earlier=_NUMBER_OR_NULL, later=_NUMBER_OR_NULL)
    return record(
        version={"const": comparison_text.VERSION},
        earlier=span,
        later=span,
        workloads=a_list(
            record(
                pid=_COUNT,
                comm=_TEXT,
                **_labels(),
                is_in_earlier=_SWITCH,
                is_in_later=_SWITCH,
                differs=_SWITCH,
                step_mean_seconds=pair,
                lost_ratio=pair,
                causes=a_list(record(cause=_TEXT, share_ratio=pair, culprit=_TEXT)),
                operations=a_list(record(operation=_TEXT, mean_seconds=pair)),
            )
        ),
    )
