"""Board Fleet: which jobs lose GPU time, how much, and why. For on-call engineers."""

from __future__ import annotations

from dashboards.boards import (
    Board,
    Row,
    exporter_series,
    link_to_workload,
    lost_gpus,
    lost_share,
    or_zero,
    workload_series,
)
from dashboards.chains import OPEN_CHAINS
from dashboards.panels import Column, Query, graph, stat, table

_PROCESSES = workload_series("gpustall_workload_info")
_WHERE = "cluster, node, namespace, pod, container"
_NOT_ACTIONABLE = 'cause!~"other|unknown"'

_NUMBERS = (
    stat(
        "Ranks",
        "Processes that use a GPU. A process that makes CUDA calls counts as one GPU.",
        f"count({_PROCESSES})",
    ),
    stat(
        "GPU time lost",
        "Share of the time of these processes in which the GPU waited for the host. Accurate to a few percent.",
        lost_share(),
        "percentunit",
        decimals=1,
        thresholds=((None, "green"), (0.05, "yellow"), (0.25, "orange"), (0.5, "red")),
    ),
    stat(
        "GPUs lost",
        "Lost time as a number of GPUs: without the loss, the same work would need so many fewer.",
        lost_gpus(),
        decimals=2,
    ),
    stat(
        "Open chains",
        "Open incidents in which a rank is slower than its baseline, with a cause.",
        or_zero(f"sum({workload_series('gpustall_chain_active')})", _PROCESSES),
        thresholds=((None, "green"), (1, "orange")),
    ),
    stat(
        "Worst chain",
        "Low, medium, high or critical: from 5, 10, 25 and 50 % of a rank's time.",
        or_zero(f"max({workload_series('gpustall_chain_severity')})", _PROCESSES),
        thresholds=((None, "green"), (2, "yellow"), (3, "orange"), (4, "red")),
        is_severity=True,
    ),
    stat(
        "Exporters",
        "Exporters that answered the last scrape.",
        f"sum({exporter_series('up')})",
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
        is_stacked=True,
    ),
    graph(
        "GPU time lost, by node",
        "Share of the time of a node's ranks.",
        Query(lost_share("node"), "{{node}}"),
        unit="percentunit",
    ),
)

_TABLES = (
    OPEN_CHAINS,
    table(
        "Containers by lost time",
        "All ranks of a container: share of their time, and number of GPUs.",
        [
            Query(lost_share(_WHERE)),
            Query(lost_gpus(_WHERE)),
            Query(f"count by ({_WHERE}) ({_PROCESSES})"),
        ],
        [
            Column("Value #A", "Lost", "percentunit"),
            Column("Value #B", "GPUs lost", "short"),
            Column("Value #C", "Ranks", "short"),
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

BOARD = Board(
    "gpustall-fleet",
    "GPU stalls / Fleet",
    "Which jobs lose GPU time, how much, and why?",
    (Row("Now", _NUMBERS), Row("Over time", _OVER_TIME), Row("Chains and containers", _TABLES)),
)
