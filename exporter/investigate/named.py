"""Statements that answer what people ask first. They run like any other: `--list` shows them, docs/query.md their text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple


class NamedQuery(NamedTuple):
    """resolution: its default, empty for the whole span. next_name: the query that is usually asked after it."""

    name: str
    purpose: str
    statement: str
    next_name: str
    resolution: str = ""


QUERIES: Final = (
    NamedQuery(
        "open-chains",
        "what is slow now, the worst first",
        """\
select substr(chain_id, 1, 8) as chain, severity, node, rank, pod, cause, round(lost_ratio, 3) as lost_ratio, culprit,
    culprit_pid, datetime(began_unix_seconds, 'unixepoch', 'localtime') as began, remedy
from chains where state = 'open'""",
        "lost-by-cause",
    ),
    NamedQuery(
        "worst-chains",
        "which chains of the span have cost most GPU time",
        """\
select substr(chain_id, 1, 8) as chain, state, severity, node, rank, pod, cause, culprit, round(lost_seconds, 1) as lost_seconds,
    round(duration_seconds) as duration_seconds, datetime(began_unix_seconds, 'unixepoch', 'localtime') as began
from chains order by chains.lost_seconds desc limit 20""",
        "stacks",
    ),
    NamedQuery(
        "lost-by-cause",
        "how much GPU time was lost to each cause",
        """\
select cause, round(sum(lost_seconds), 1) as lost_seconds,
    round(sum(lost_seconds) / (select sum(recorded_seconds) from workloads), 4) as lost_ratio,
    count(distinct workload) as workloads, round(max(lost_seconds), 1) as worst_lost_seconds
from lost group by cause order by sum(lost_seconds) desc""",
        "top-culprits",
    ),
    NamedQuery(
        "top-culprits",
        "which programs have cost most GPU time, by which cause",
        """\
select culprit, cause, round(sum(lost_seconds), 1) as lost_seconds, count(distinct workload) as workloads
from culprits group by culprit, cause order by sum(lost_seconds) desc limit 20""",
        "worst-chains",
    ),
    NamedQuery(
        "slow-ranks",
        "which workloads lost most of their time, and how long their steps were",
        """\
select w.node, rank, pod, w.pid, comm, steps.steps, round(mean_seconds, 6) as step_mean_seconds,
    round(p99_seconds, 6) as step_p99_seconds, round(lost_seconds, 1) as lost_seconds, round(lost_ratio, 4) as lost_ratio
from workloads as w left join steps using (workload, rank, pod) order by w.lost_ratio desc limit 64""",
        "slow-operations",
    ),
    NamedQuery(
        "steps-over-time",
        "how long steps were, minute by minute",
        """\
select datetime(began_unix_seconds, 'unixepoch', 'localtime') as began, node, rank, pod, steps,
    round(mean_seconds, 6) as mean_seconds, round(p99_seconds, 6) as p99_seconds
from steps order by began_unix_seconds, cast(rank as integer)""",
        "slow-ranks",
        "1m",
    ),
    NamedQuery(
        "slow-operations",
        "in which calls the time was spent, for each workload",
        """\
select node, rank, pod, api, operation, calls, errors, round(timed_seconds, 3) as timed_seconds,
    round(mean_seconds, 9) as mean_seconds, round(p50_seconds, 9) as p50_seconds, round(p95_seconds, 9) as p95_seconds,
    round(p99_seconds, 9) as p99_seconds
from operations order by operations.timed_seconds desc limit 40""",
        "slow-lines",
    ),
    NamedQuery(
        "slow-lines",
        "which lines of Python made slow calls",
        """\
select node, rank, pod, operation, slow_calls, round(slow_seconds, 3) as slow_seconds,
    round(slow_from_seconds, 6) as slow_from_seconds, place
from call_sites order by call_sites.slow_seconds desc limit 40""",
        "stacks",
    ),
    NamedQuery(
        "collectives",
        "how long each rank spent in NCCL; the rank that waits least is late",
        """\
select operation, node, rank, pod, calls, round(timed_seconds, 3) as timed_seconds, round(p50_seconds, 9) as p50_seconds,
    round(p99_seconds, 9) as p99_seconds
from operations where api = 'nccl' order by operation, operations.timed_seconds""",
        "slow-ranks",
    ),
    NamedQuery(
        "failed-calls",
        "which calls returned errors",
        """\
select node, rank, pod, pid, api, operation, sum(errors) as errors, sum(calls) as calls
from operations where errors > 0 group by workload, api, operation order by sum(errors) desc""",
        "worst-chains",
    ),
    NamedQuery(
        "stacks",
        "where threads stood in the latest chains",
        """\
select substr(chain_id, 1, 8) as chain, node, rank, cause, datetime(at_unix_seconds, 'unixepoch', 'localtime') as at, line
from stacks order by at_unix_seconds desc, chain_id, line_number limit 200""",
        "open-chains",
    ),
)
QUERY_OF: Final = {query.name: query for query in QUERIES}


def list_lines() -> Iterator[str]:
    """What `--list` prints."""
    width = max(map(len, QUERY_OF))
    yield from (f"{query.name:{width}}  {query.purpose}" for query in QUERIES)
