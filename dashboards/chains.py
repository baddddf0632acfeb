"""What is wrong now, and what was? Causal chains, open and past. For whoever was paged."""

from __future__ import annotations

from dashboards.boards import Board, Row, of_workloads, or_zero
from dashboards.panels import Column, Query, bars, graph, severities, stat, table

_CHAINS = of_workloads("gpustall_chains_total")
_PROCESSES = of_workloads("gpustall_workload_info")
_SEVERITY = of_workloads("gpustall_chain_severity")

_NUMBERS = (
    stat(
        "Open",
        "Episodes that go on now.",
        or_zero(f"sum({of_workloads('gpustall_chain_active')})", _PROCESSES),
        thresholds=((None, "green"), (1, "orange")),
    ),
    stat(
        "Critical",
        "Of the open ones, those that cost more than half of a rank's time, hangs, and out of memory.",
        or_zero(f"sum({_SEVERITY} >= bool 4)", _PROCESSES),
        thresholds=((None, "green"), (1, "red")),
    ),
    stat(
        "Opened",
        "In the range of time that is shown.",
        or_zero(f"sum(increase({_CHAINS}[$__range]))", _PROCESSES),
        decimals=0,
    ),
    stat(
        "Escalated",
        "Those of them that became worse.",
        or_zero(f"sum(increase({of_workloads('gpustall_chain_escalations_total')}[$__range]))", _PROCESSES),
        decimals=0,
    ),
    stat(
        "Not the host",
        "Open chains in which no resource of the host explains that a job is slower.",
        or_zero(f"""sum({of_workloads("gpustall_chain_active", 'cause="not_host"')})""", _PROCESSES),
        width=8,
    ),
)

_OPEN = (
    table(
        "Open chains",
        "Worst first. On the node, `gpu-stall-exporter explain` says the same in words, with what to do. The id is a trace id.",
        [Query(of_workloads("chain:gpustall_chain_severity:max"))],
        [
            Column("Value", "Severity", is_severity=True),
            Column("cause", "Cause"),
            Column("culprit", "Culprit"),
            Column("node", "Node"),
            Column("rank", "Rank", is_number=True),
            Column("namespace", "Namespace"),
            Column("pod", "Pod"),
            Column("container", "Container"),
            Column("chain_id", "Chain"),
        ],
        sort=("Severity", True),
        height=7,
    ),
    severities(
        "When, and how bad",
        "A lane for each rank and cause.",
        Query(
            f"max by (node, rank, cause) ({_SEVERITY}) > 0",
            "rank {{rank}} on {{node}}: {{cause}}",
        ),
        height=8,
    ),
)

_PAST = (
    table(
        "Opened, by cause",
        "How often in the range of time that is shown, and how bad they were when they were opened.",
        [Query(f"sum by (cause, effect, severity) (increase({_CHAINS}[$__range])) > 0")],
        [
            Column("Value", "Chains", "short"),
            Column("cause", "Cause"),
            Column("effect", "What took longer"),
            Column("severity", "Severity"),
        ],
        sort=("Chains", True),
        width=12,
    ),
    bars(
        "Opened, by rank",
        "A rank or a node that leads the list has something that the others do not have.",
        Query(f"sort_desc(sum by (node, rank) (increase({_CHAINS}[$__range])) > 0)", "rank {{rank}} on {{node}}"),
        "short",
    ),
    graph(
        "What the host cost meanwhile",
        "GPU time lost, by cause, as a number of GPUs; whether a chain was open or not. Its points carry the chain's trace.",
        Query(
            f"sum by (cause) (rate({of_workloads('gpustall_lost_seconds_total')}[$__rate_interval]))",
            "{{cause}}",
        ),
        is_stacked=True,
    ),
    graph(
        "Through whom",
        "The same by the program that held the CPU, where a cause has one.",
        Query(
            "sum by (cause, culprit)"
            f""" (rate({of_workloads("gpustall_culprit_seconds_total", 'culprit!=""')}[$__rate_interval]))""",
            "{{cause}}: {{culprit}}",
        ),
        is_stacked=True,
    ),
)

BOARD = Board(
    "gpustall-chains",
    "GPU stalls / Chains",
    "What is wrong now, and what was?",
    (Row("Now", _NUMBERS), Row("Open", _OPEN), Row("Past", _PAST)),
    since="now-6h",
)
