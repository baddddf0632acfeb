"""Board Fleet: which jobs lose GPU time, how much, and why. For on-call engineers."""

from __future__ import annotations

from dashboards.boards import (
    Board,
    Row,
    gone,
    link_to_workload,
    lost_gpus,
    lost_share,
    or_zero,
    up,
    workload_series,
)
from dashboards.budget import BURN_RATE, BURN_RATES, LOST_IN_A_MONTH, LOST_THRESHOLDS, burn_rate
from dashboards.chains import OPEN_CHAINS
from dashboards.cost import LOST_BY_JOB, WORST_JOBS
from dashboards.panels import GPUS, Column, Query, graph, stat, table

_PROCESSES = workload_series("gpustall_workload_info")
_WHERE = "cluster, node, namespace, pod, container"
_NOT_ACTIONABLE = 'cause!~"other|unknown"'

MISSING = f"count({up()} == 0 or {gone()})"

_NUMBERS = (
    stat(
        "Ranks",
        "Processes that use a GPU. A process that makes CUDA calls counts as one GPU.",
        f"count({_PROCESSES})",
        width=3,
    ),
    stat(
        "GPU time lost",
        "Share of the time of these processes in which the GPU waited for the host, accurate to a few percent. Colours from the"
        " budget of 5 % on, and from what pages within six hours and one hour.",
        lost_share(),
        "percentunit",
        width=3,
        decimals=1,
        thresholds=LOST_THRESHOLDS,
    ),
    BURN_RATE,
    LOST_IN_A_MONTH,
    stat(
        "GPUs lost",
        "Lost time as a number of GPUs: without the loss, the same work would need so many fewer.",
        lost_gpus(),
        GPUS,
        width=3,
        decimals=2,
    ),
    stat(
        "Open chains",
        "Open incidents in which a rank is slower than its baseline, with a cause.",
        or_zero(f"sum({workload_series('gpustall_chain_active')})", _PROCESSES),
        width=3,
        thresholds=((None, "green"), (1, "orange")),
    ),
    stat(
        "Worst chain",
        "Low, medium, high or critical: from 5, 10, 25 and 50 % of a rank's time.",
        or_zero(f"max({workload_series('gpustall_chain_severity')})", _PROCESSES),
        width=3,
        thresholds=((None, "green"), (2, "yellow"), (3, "orange"), (4, "red")),
        is_severity=True,
    ),
    stat(
        "Exporters down",
        "Exporters that did not answer the last scrape, or are no longer targets. Stalls on their nodes will not page.",
        f"{MISSING} or 0 * count({up()})",
        width=3,
        is_instant=True,
        thresholds=((None, "green"), (1, "red")),
        no_value="no exporter is a target",
    ),
)

_OVER_TIME = (
    graph(
        "GPU time lost, by cause",
        "As a number of GPUs, without `other` and `unknown`: no action helps against these, and the board Workload has them. The"
        " runbook has an action for each cause.",
        Query(
            f"sum by (cause)"
            f" (rate({workload_series('gpustall_lost_seconds_total', _NOT_ACTIONABLE)}[$__rate_interval]))",
            "{{cause}}",
        ),
        unit=GPUS,
        is_stacked=True,
        no_value="no GPU time lost to a known cause",
    ),
    graph(
        "GPU time lost, by node",
        "Share of the time of a node's ranks.",
        Query(lost_share("node"), "{{node}}"),
        unit="percentunit",
    ),
    LOST_BY_JOB,
    BURN_RATES,
)

_TABLES = (
    OPEN_CHAINS,
    table(
        "Containers by lost time",
        "All ranks of a container: share of their time, number of GPUs, and the burn rate of the budget over an hour, which pages"
        " from 14.4 on.",
        [
            Query(lost_share(_WHERE)),
            Query(lost_gpus(_WHERE)),
            Query(f"count by ({_WHERE}) ({_PROCESSES})"),
            Query(burn_rate("1h", _WHERE)),
        ],
        [
            Column("Value #A", "Lost", "percentunit"),
            Column("Value #B", "GPUs lost", GPUS),
            Column("Value #C", "Ranks", "none"),
            Column("Value #D", "Burn rate", "none"),
            Column(
                *("node", "Node"),
                link=link_to_workload("Node", "Namespace", "Pod", "Container"),
                link_title="Board Workload",
            ),
            Column("namespace", "Namespace"),
            Column("pod", "Pod"),
            Column("container", "Container"),
        ],
        sort=("Lost", True),
        height=9,
    ),
)

MISSING_EXPORTERS = table(
    "Exporters that are down",
    "Targets whose last scrape failed, and exporters that were scraped in the time range and are no longer targets: the node is"
    " gone, or service discovery lost it.",
    [
        Query(f'label_replace({up()} == 0, "state", "scrape fails", "", "")'),
        Query(f'label_replace({gone()}, "state", "no longer a target", "", "")'),
    ],
    [
        Column("instance", "Instance"),
        Column("job", "Scrape job"),
        Column("cluster", "Cluster"),
        Column("state", "State"),
    ],
    sort=("Instance", False),
    height=6,
    no_value="all exporters answer",
)

BOARD = Board(
    "gpustall-fleet",
    "GPU stalls / Fleet",
    "Which jobs lose GPU time, how much, and why?",
    (
        Row("Now", _NUMBERS),
        Row("Jobs", (WORST_JOBS,)),
        Row("Over time", _OVER_TIME),
        Row("Chains and containers", _TABLES),
        Row("Exporters", (MISSING_EXPORTERS,)),
    ),
)
