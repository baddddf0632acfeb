"""What a process did in a window, in OpenTelemetry's data model: a log record for each process and window.

Window -> LogRecord, which json_records and protobuf_records encode. ATTRIBUTES is the schema: docs/window-record.md has it.
Nanoseconds become seconds. What is empty or 0 is left out, except where 0 is not the same as unknown.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from exporter.catalog import COMMON_LABELS
from exporter.history.window import CommunicatorWindow, OperationTime, Window
from exporter.output.otlp.records import INFO, LogRecord, Value
from exporter.units import seconds

EVENT_NAME: Final = "gpustall.window"


class Attribute(NamedTuple):
    """kind: type of the value and, in brackets, its unit. meaning: one sentence without a full stop."""

    name: str
    kind: str
    meaning: str


ATTRIBUTES: Final = (
    *(Attribute(label, "string", f"label `{label}` of the metrics") for label in COMMON_LABELS),
    Attribute("process.pid", "int", "process id (tgid) as the exporter sees it"),
    Attribute("process.command", "string", "name of the command, as the kernel keeps it"),
    Attribute(
        "gpustall.window.id",
        "string",
        "`RUN-PROCESS-BEGAN`, unique: 16 hexadecimal digits that the exporter chose at its start; number of the process in this"
        " run; begin of the window in nanoseconds since 1970",
    ),
    Attribute("gpustall.window.duration", "double (s)", "length of the window; the record has the time of its end"),
    Attribute("gpustall.steps", "int", "steps that ended"),
    Attribute("gpustall.step.time", "double (s)", "time of these steps, summed"),
    Attribute(
        "gpustall.step.buckets",
        "map",
        "`first`: number of the first slot; `counts`: steps in each slot from there on, an array of int",
    ),
    Attribute("gpustall.lost", "map of double (s)", "time lost, by cause"),
    Attribute(
        "gpustall.culprits",
        "array of maps",
        "the largest first: `cause`, `culprit` and `lost`, double (s), of at most six",
    ),
    Attribute(
        "gpustall.thread_time",
        "map of double (s)",
        "time of threads that make traced calls, by state; between calls only of those that launch or synchronise",
    ),
    Attribute(
        "gpustall.communicators",
        "array of maps",
        "NCCL communicators with several ranks, at most sixteen, as of the end of the window: `hash`, 16 hexadecimal digits;"
        " `rank`, `ranks`, and `operations`, collectives entered so far, all int; `lag`, double (s), delay of this rank behind"
        " the first one of the node in this window, absent where no other rank of it is on the node",
    ),
    Attribute(
        "gpustall.calls",
        "array of maps",
        "the eight operations that took most time or failed, and `other` for the rest: `api`, `operation`; `calls` and `errors`,"
        " int; `time`, double (s), of the timed calls; `timed`, int, how many these are, absent where all are, and for `other`",
    ),
    Attribute(
        "gpustall.overhead",
        "double (s)",
        "estimated cost of the probes for the threads of the process; absent if unknown",
    ),
)
"""In the order in which they are sent."""


def window_record(window: Window, run_id: str) -> LogRecord:
    """run_id: 16 hexadecimal digits, different for each run of the exporter."""
    return LogRecord(
        identity=window.labels.identity,
        time_unix_ns=window.ended_unix_ns,
        observed_unix_ns=window.ended_unix_ns,
        severity_number=INFO[0],
        severity_text=INFO[1],
        body=_sentence(window),
        event_name=EVENT_NAME,
        attributes=_attributes(window, run_id),
        trace_id="",
        span_id="",
    )


def _sentence(window: Window) -> str:
    name = f"{window.labels.comm or 'process'} (pid {window.labels.tgid})"
    lost = seconds(sum(window.lost_ns.values()))
    return f"{name}: {window.steps.counts.total} steps, {lost:.3g} s lost in {seconds(window.duration_ns):.3g} s"


def _attributes(window: Window, run_id: str) -> dict[str, Value]:
    labels, steps = window.labels, window.steps
    known: dict[str, Value] = dict(zip(COMMON_LABELS, labels.identity.values(), strict=True))
    known |= {
        "process.pid": labels.tgid,
        "process.command": labels.comm,
        "gpustall.window.id": f"{run_id}-{window.process}-{window.began_unix_ns}",
        "gpustall.window.duration": seconds(window.duration_ns),
        "gpustall.steps": steps.counts.total,
        "gpustall.step.time": seconds(steps.sum_ns),
        "gpustall.step.buckets": {"first": steps.counts.begin, "counts": steps.counts.held}
        if steps.counts.held
        else {},
        "gpustall.lost": {cause: seconds(ns) for cause, ns in window.lost_ns.items() if ns},
        "gpustall.culprits": tuple(
            {"cause": cause, "culprit": culprit, "lost": seconds(ns)} for cause, culprit, ns in window.culprits_ns
        ),
        "gpustall.thread_time": {state: seconds(ns) for state, ns in window.states_ns.items() if ns},
        "gpustall.communicators": tuple(map(_communicator, window.communicators)),
        "gpustall.calls": tuple(map(_calls, window.operations)),
    }
    found = {name: value for name, value in known.items() if value}
    if window.probe_cost_ns is not None:
        found["gpustall.overhead"] = seconds(window.probe_cost_ns)
    return found


def _communicator(one: CommunicatorWindow) -> dict[str, Value]:
    """Rank 0 is a rank, and no operations are known to be none."""
    known: dict[str, Value] = {
        "hash": f"{one.communicator:016x}",
        "rank": one.rank,
        "ranks": one.ranks,
        "operations": one.operations,
    }
    return known if one.lag_ns is None else known | {"lag": seconds(one.lag_ns)}


def _calls(one: OperationTime) -> dict[str, Value]:
    known: dict[str, Value] = {
        "api": one.api,
        "operation": one.name,
        "calls": one.calls,
        "errors": one.errors,
        "time": seconds(one.timed.sum_ns),
    }
    found = {name: value for name, value in known.items() if value}
    timed = one.timed.counts.total
    is_known = timed > 0 or not one.timed.sum_ns  # of `other` it is not
    if is_known and timed != one.calls:
        found["timed"] = timed
    return found
