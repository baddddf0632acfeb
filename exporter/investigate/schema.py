"""The views that a statement may name: their columns, with units in the names. docs/query.md is made from it.

Within a version views and columns may be added, and none changes its name or meaning.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

VERSION: Final = 1

TEXT, INTEGER, REAL = "text", "integer", "real"


class ViewColumn(NamedTuple):
    """kind: a type of SQLite."""

    name: str
    kind: str
    meaning: str


class SqlView(NamedTuple):
    """purpose: what a row is."""

    name: str
    purpose: str
    columns: tuple[ViewColumn, ...]

    @property
    def definition(self) -> str:
        """The statement that creates it, empty."""
        return f"create table {self.name} ({', '.join(f'{one.name} {one.kind}' for one in self.columns)})"


_LABELS: Final = (
    ViewColumn("node", TEXT, "node; labels that are not known are empty"),
    ViewColumn("rank", TEXT, "rank, as text: `cast(rank as integer)` sorts by number"),
    ViewColumn("container", TEXT, "container id or name"),
    ViewColumn("namespace", TEXT, "namespace of the pod"),
    ViewColumn("pod", TEXT, "pod"),
    ViewColumn("pid", INTEGER, "process id, which the kernel calls tgid; 0 if not known"),
)
_WORKLOAD: Final = (
    ViewColumn("workload", INTEGER, "number of the workload in this result, the same in all views"),
    ViewColumn("run", INTEGER, "run of the exporter, as in `node`"),
    *_LABELS,
)
_INTERVAL: Final = (
    ViewColumn("began_unix_seconds", REAL, "begin of the first window in the interval, seconds since 1970"),
    ViewColumn("ended_unix_seconds", REAL, "end of the last window in it"),
)


def _distribution(what: str) -> tuple[ViewColumn, ...]:
    return (
        ViewColumn("mean_seconds", REAL, f"mean duration of {what}; null without one"),
        *(
            ViewColumn(
                f"p{percent}_seconds", REAL, f"{percent} % of them took no longer; an upper edge, at most 9 % too long"
            )
            for percent in (50, 95, 99)
        ),
    )


_UPPER_EDGE: Final = ViewColumn(
    "upper_edge_seconds", REAL, "longest duration in the bucket; null for what took longer than 4,096 s"
)
"""The same edges for all nodes and versions of the exporter: counts of one edge can be added."""

_CHAIN: Final = (
    ViewColumn("chain_id", TEXT, "id of the chain, as in the log and in `explain`"),
    ViewColumn("run", INTEGER, "run of the exporter, as in `node`"),
    *_LABELS,
    ViewColumn("cause", TEXT, "why"),
    ViewColumn("effect", TEXT, "what became slow"),
    ViewColumn("severity", TEXT, "none, low, medium, high or critical"),
)
_CHAIN_FIGURES: Final = (
    ViewColumn("lost_ratio", REAL, "share of the time that is lost to the cause, at the worst"),
    ViewColumn("lost_seconds", REAL, "time lost to the cause since the chain began"),
    ViewColumn("contribution_ratio", REAL, "share of the slowdown that the cause explains"),
    ViewColumn("slowdown_ratio", REAL, "1.0: steps take twice as long; null if not known"),
    ViewColumn("culprit", TEXT, "largest culprit"),
    ViewColumn("culprit_pid", INTEGER, "its process id; null if not known"),
    ViewColumn("peer_rank", TEXT, "rank that is late"),
    ViewColumn("detail", TEXT, "more about the cause, in words"),
)

VIEWS: Final = (
    SqlView(
        "workloads",
        "one row for each traced process",
        (
            *_WORKLOAD,
            ViewColumn("comm", TEXT, "name of its command"),
            ViewColumn("began_unix_seconds", REAL, "begin of its first window in the span, seconds since 1970"),
            ViewColumn("ended_unix_seconds", REAL, "end of its last window"),
            ViewColumn("recorded_seconds", REAL, "total length of its windows"),
            ViewColumn("steps", INTEGER, "steps that ended; iterations of a serving engine"),
            ViewColumn("step_seconds", REAL, "their total duration"),
            ViewColumn("lost_seconds", REAL, "lost GPU time"),
            ViewColumn(
                "lost_ratio", REAL, "lost GPU time as a share of the recorded time, at most 1; null without any"
            ),
            ViewColumn(
                "voluntary_switches", INTEGER, "context switches into a sleep, of threads that make traced calls"
            ),
            ViewColumn("involuntary_switches", INTEGER, "context switches by preemption, of the same threads"),
        ),
    ),
    SqlView(
        "steps",
        "durations of steps, for each workload and interval",
        (
            *_WORKLOAD,
            *_INTERVAL,
            ViewColumn("steps", INTEGER, "steps that ended"),
            ViewColumn("step_seconds", REAL, "their total duration"),
            *_distribution("a step"),
        ),
    ),
    SqlView(
        "step_buckets",
        "histogram of the durations of steps: one row for each workload, interval and bucket that is not empty",
        (*_WORKLOAD, *_INTERVAL, _UPPER_EDGE, ViewColumn("steps", INTEGER, "steps in the bucket")),
    ),
    SqlView(
        "operations",
        "calls of CUDA and NCCL, for each workload, interval and operation",
        (
            *_WORKLOAD,
            *_INTERVAL,
            ViewColumn("api", TEXT, "runtime, driver or nccl; empty for the operation `other`"),
            ViewColumn(
                "operation", TEXT, "function; `other` stands for those beside the eight that took most time in a window"
            ),
            ViewColumn("calls", INTEGER, "calls"),
            ViewColumn("errors", INTEGER, "calls that returned an error"),
            ViewColumn("timed_calls", INTEGER, "calls whose duration is known"),
            ViewColumn("timed_seconds", REAL, "their total duration"),
            *_distribution("a timed call"),
        ),
    ),
    SqlView(
        "operation_buckets",
        "histogram of the durations of calls: one row for each workload, interval, operation and bucket that is not empty",
        (
            *_WORKLOAD,
            *_INTERVAL,
            ViewColumn("api", TEXT, "as in `operations`"),
            ViewColumn("operation", TEXT, "as in `operations`"),
            _UPPER_EDGE,
            ViewColumn("timed_calls", INTEGER, "calls in the bucket"),
        ),
    ),
    SqlView(
        "lost",
        "lost GPU time, for each workload, interval and cause",
        (
            *_WORKLOAD,
            *_INTERVAL,
            ViewColumn("recorded_seconds", REAL, "total length of the windows in the interval"),
            ViewColumn("cause", TEXT, "why"),
            ViewColumn("lost_seconds", REAL, "lost GPU time"),
        ),
    ),
    SqlView(
        "culprits",
        "lost GPU time, for each workload, interval, cause and culprit; the six largest of each window",
        (
            *_WORKLOAD,
            *_INTERVAL,
            ViewColumn("cause", TEXT, "why"),
            ViewColumn("culprit", TEXT, "name of the program"),
            ViewColumn("lost_seconds", REAL, "GPU time lost to it"),
        ),
    ),
    SqlView(
        "thread_states",
        "time of threads that make traced calls, for each workload, interval and state",
        (
            *_WORKLOAD,
            *_INTERVAL,
            ViewColumn(
                "state",
                TEXT,
                "on_cpu, runnable, throttled, gpu_wait and others, as in `gpustall_thread_time_seconds_total`",
            ),
            ViewColumn("thread_seconds", REAL, "sum over these threads"),
        ),
    ),
    SqlView(
        "call_sites",
        "slow calls by line of Python, for each workload, interval, operation and stack; the eight largest of each window",
        (
            *_WORKLOAD,
            *_INTERVAL,
            ViewColumn("api", TEXT, "runtime, driver or nccl"),
            ViewColumn("operation", TEXT, "function"),
            ViewColumn("slow_calls", INTEGER, "calls that took twice as long as nine of ten, and at least 0.2 ms"),
            ViewColumn("slow_seconds", REAL, "their total duration"),
            ViewColumn("slow_from_seconds", REAL, "longer calls are slow, as of the last one"),
            ViewColumn(
                "place", TEXT, "innermost line of the job's own code, and of a package; `other stacks` for the rest"
            ),
            ViewColumn("frames", TEXT, "all functions with file and line, innermost first"),
            ViewColumn("working_directory", TEXT, "working directory of the process, which paths leave out"),
        ),
    ),
    SqlView(
        "chains",
        "one row for each chain that was open in the span, the worst first",
        (
            *_CHAIN,
            ViewColumn("state", TEXT, "open, resolved, or interrupted: it was open when the exporter stopped"),
            ViewColumn("began_unix_seconds", REAL, "begin, seconds since 1970"),
            ViewColumn(
                "known_until_unix_seconds", REAL, "end, or the last time at which it is known to have been open"
            ),
            ViewColumn("duration_seconds", REAL, "as far as it is known"),
            ViewColumn("end", TEXT, "how it ended; empty if it has not"),
            *_CHAIN_FIGURES,
            ViewColumn("baseline_step_seconds", REAL, "duration of a step before; null if not known"),
            ViewColumn("is_chronic", INTEGER, "1 if it was there from the first steps on"),
            ViewColumn("cgroup", TEXT, "cgroup of the process"),
            ViewColumn("remedy", TEXT, "what to do"),
            ViewColumn(
                "confirmation", TEXT, "confirmed or refuted by `explain --confirm`; empty without an experiment"
            ),
        ),
    ),
    SqlView(
        "chain_events",
        "one row for each change of these chains, oldest first",
        (
            *_CHAIN,
            ViewColumn("change", TEXT, "opened, escalated, evidence, resolved and others"),
            ViewColumn("at_unix_seconds", REAL, "when, seconds since 1970"),
            ViewColumn("duration_seconds", REAL, "since the chain began"),
            *_CHAIN_FIGURES,
        ),
    ),
    SqlView(
        "stacks",
        "one row for each line of the evidence of these chains: where threads stood, and which lines made slow calls",
        (
            *_CHAIN,
            ViewColumn("at_unix_seconds", REAL, "when it was collected, seconds since 1970"),
            ViewColumn("line_number", INTEGER, "from 1 on, in the order of the evidence"),
            ViewColumn("line", TEXT, "a thread, a frame, or a heading"),
        ),
    ),
    SqlView(
        "node",
        "one row for each run of the exporter on this node, oldest first",
        (
            ViewColumn("run", INTEGER, "number of the run"),
            ViewColumn("exporter_version", TEXT, "version of the exporter"),
            ViewColumn("began_unix_seconds", REAL, "start, seconds since 1970"),
            ViewColumn("seen_unix_seconds", REAL, "last time it wrote the history"),
            ViewColumn("ended_unix_seconds", REAL, "end; null while it runs and if it was killed"),
            ViewColumn("is_running", INTEGER, "1 if it goes on"),
            ViewColumn("detects_chains", INTEGER, "0 if the detection of chains was off"),
            ViewColumn("window_seconds", REAL, "length of its windows"),
        ),
    ),
)
VIEW_OF: Final = {view.name: view for view in VIEWS}


def schema_lines() -> Iterator[str]:
    """What `--schema` prints."""
    yield f"views, version {VERSION}; the span is --since, an interval --resolution"
    width = max(len(column.name) for view in VIEWS for column in view.columns)
    for view in VIEWS:
        yield f"\n{view.name}: {view.purpose}"
        yield from (f"  {name:{width}}  {kind:7}  {meaning}" for name, kind, meaning in view.columns)
