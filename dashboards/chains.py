"""Board Chains: causal chains, open and past. For on-call engineers."""

from __future__ import annotations

from dashboards.boards import (
    ON_NODE,
    RUNBOOK,
    WORKLOAD,
    Board,
    Row,
    counted,
    link_to_workload,
    named,
    or_zero,
    workload_series,
)
from dashboards.panels import GPUS, Column, Query, bars, graph, severities, stat, table

_CHAINS = workload_series("gpustall_chains_total")
_PROCESSES = workload_series("gpustall_workload_info")
_SEVERITY = workload_series("gpustall_chain_severity")
_NO_PROGRESS = 'cause=~"nccl_hang|stalled"'
_OF_THE_JOB = (
    'cause=~"own_code|own_wait|gpu|allocation_churn|pageable_copy|pcie|graph_recapture|gpu_throttled|gpu_contention"'
)

_NUMBERS = (
    stat(
        "Open",
        "Causal chains that are open now.",
        or_zero(f"sum({workload_series('gpustall_chain_active')})", _PROCESSES),
        thresholds=((None, "green"), (1, "orange")),
    ),
    stat(
        "Critical",
        "Open chains that cost more than half of a rank's time, hangs, standstills of a minute, and out of memory.",
        or_zero(f"sum({_SEVERITY} >= bool 4)", _PROCESSES),
        thresholds=((None, "green"), (1, "red")),
    ),
    stat(
        "No progress",
        "Jobs that stand still: a collective hangs, or no step ends for another reason.",
        or_zero(f"sum({workload_series('gpustall_chain_active', _NO_PROGRESS)})", _PROCESSES),
        thresholds=((None, "green"), (1, "red")),
    ),
    stat(
        "Job or GPU",
        "Open chains of the job's own code, calls or waits, or of its GPU: no resource of the host explains them.",
        or_zero(f"sum({workload_series('gpustall_chain_active', _OF_THE_JOB)})", _PROCESSES),
    ),
    stat(
        "Opened",
        "Chains opened in the time range.",
        or_zero(f"sum({counted(_CHAINS)})", _PROCESSES),
        decimals=0,
    ),
    stat(
        "Escalated",
        "Chains that became worse in the time range.",
        or_zero(f"sum({counted(workload_series('gpustall_chain_escalations_total'))})", _PROCESSES),
        decimals=0,
    ),
)

_WIDTH_OF_AN_ID = 290  # whole, since `explain --confirm` takes nothing less
_OF_CHAIN = link_to_workload("Node", "Namespace", "Pod", "Container", "Rank")

OPEN_CHAINS = table(
    "Open chains",
    "Worst first. On that node, `gpu-stall-exporter explain` prints the reasons and what to do; `--confirm=CHAIN` tests the"
    " verdict. The id is a trace id as well: open it in Tempo or Jaeger.",
    [
        Query(workload_series("chain:gpustall_chain_severity:max")),
        Query(workload_series("gpustall_chain_lost_ratio")),
        Query(workload_series("gpustall_chain_worst_lost_ratio")),
    ],
    [
        Column("Value #A", "Severity", is_severity=True),
        Column("Value #B", "Lost now", "percentunit"),
        Column("Value #C", "Lost at worst", "percentunit"),
        Column("cause", "Cause", link=f"{RUNBOOK}#causes", link_title="What to do: the runbook"),
        Column("culprit", "Culprit"),
        Column("node", "Node", link=_OF_CHAIN, link_title="Board Workload"),
        Column("rank", "Rank", is_number=True, link=_OF_CHAIN, link_title="Board Workload"),
        Column("namespace", "Namespace"),
        Column("pod", "Pod"),
        Column("container", "Container"),
        Column("chain_id", "Chain", width=_WIDTH_OF_AN_ID),
    ],
    sort=("Severity", True),
    height=7,
    no_value="no open chains",
)

_OPEN = (
    OPEN_CHAINS,
    severities(
        "Severity over time",
        "One lane for each rank and cause.",
        Query(
            named(f"max by ({WORKLOAD}, cause) ({_SEVERITY}) > 0"),
            f"{ON_NODE}: {{{{cause}}}}",
        ),
        height=8,
    ),
)

_NO_CHAINS = "no chain was opened in the time range"

_PAST = (
    table(
        "Chains opened, by cause",
        "Number in the time range, and severity at opening. `changed` is a lasting change of the job's steps, not a fault.",
        [Query(f"sum by (cause, effect, severity) {counted(_CHAINS)} > 0")],
        [
            Column("Value", "Chains", "none"),
            Column("cause", "Cause"),
            Column("effect", "Effect"),
            Column("severity", "Severity"),
        ],
        sort=("Chains", True),
        width=12,
        no_value=_NO_CHAINS,
    ),
    bars(
        "Chains opened, by rank",
        "If one rank or node leads the list, look for what is different there.",
        Query(f"sort_desc({named(f'sum by ({WORKLOAD}) {counted(_CHAINS)} > 0')})", ON_NODE),
        "none",
        no_value=_NO_CHAINS,
    ),
    graph(
        "Lost GPU time, by cause",
        "As a number of GPUs, with or without an open chain. Its exemplars have the trace id of the chain.",
        Query(
            f"sum by (cause) (rate({workload_series('gpustall_lost_seconds_total')}[$__rate_interval]))",
            "{{cause}}",
        ),
        unit=GPUS,
        is_stacked=True,
    ),
    graph(
        "Lost GPU time, by culprit",
        "As a number of GPUs, by the program that held the CPU, for causes with a culprit.",
        Query(
            "sum by (cause, culprit)"
            f""" (rate({workload_series("gpustall_culprit_seconds_total", 'culprit!=""')}[$__rate_interval]))""",
            "{{cause}}: {{culprit}}",
        ),
        unit=GPUS,
        no_value="no GPU time lost to a culprit",
        is_stacked=True,
    ),
)

BOARD = Board(
    "gpustall-chains",
    "GPU stalls / Chains",
    "Which causal chains are open, and which were?",
    (Row("Now", _NUMBERS), Row("Open", _OPEN), Row("Past", _PAST)),
    since="now-6h",
)
