"""Board Fleet: which jobs lose GPU time, how much, and why. For on-call engineers."""

from __future__ import annotations

from dashboards.boards import Board, Row, exporter_series, or_zero, workload_series
from dashboards.panels import Column, Query, graph, stat, table

_LOST = workload_series("gpustall_lost_seconds_total")
_PROCESSES = workload_series("gpustall_workload_info")
_WHERE = "cluster, node, namespace, pod, container"
_WORKLOAD_BOARD = "/d/gpustall-workload?${__url_time_range}&${datasource:queryparam}&var-node=${__data.fields.Node}"

_NUMBERS = (
    stat(
        "Ranks",
        "Processes that use a GPU. A process that makes CUDA calls counts as one GPU.",
        f"count({_PROCESSES})",
    ),
    stat(
        "GPU time lost",
        "Share of the time of these processes in which the GPU waited for the host. Accurate to a few percent.",
        f"sum(rate({_LOST}[$__rate_interval])) / count({_PROCESSES})",
        "percentunit",
        decimals=1,
        thresholds=((None, "green"), (0.05, "yellow"), (0.25, "orange"), (0.5, "red")),
    ),
    stat(
        "GPUs lost",
        "Lost time as a number of GPUs: without the loss, the same work would need so many fewer.",
        f"sum(rate({_LOST}[$__rate_interval]))",
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
        "1 low, 2 medium, 3 high, 4 critical: from 5, 10, 25 and 50 % of a rank's time.",
        or_zero(f"max({workload_series('gpustall_chain_severity')})", _PROCESSES),
        thresholds=((None, "green"), (2, "yellow"), (3, "orange"), (4, "red")),
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
        "As a number of GPUs. docs/accounting.md explains the causes.",
        Query(f"sum by (cause) (rate({_LOST}[$__rate_interval]))", "{{cause}}"),
        is_stacked=True,
    ),
    graph(
        "GPU time lost, by node",
        "Share of the time of a node's ranks.",
        Query(
            f"sum by (node) (rate({_LOST}[$__rate_interval])) / on (node) count by (node) ({_PROCESSES})",
            "{{node}}",
        ),
        unit="percentunit",
    ),
)

_TABLES = (
    table(
        "Open chains",
        "Worst first. The id of a chain is a trace id: open it in Tempo or Jaeger.",
        [Query(workload_series("chain:gpustall_chain_severity:max"))],
        [
            Column("Value", "Severity", is_severity=True),
            Column("cause", "Cause"),
            Column("culprit", "Culprit"),
            Column("node", "Node", link=_WORKLOAD_BOARD),
            Column("rank", "Rank", is_number=True),
            Column("namespace", "Namespace"),
            Column("pod", "Pod"),
            Column("container", "Container"),
            Column("chain_id", "Chain"),
        ],
        sort=("Severity", True),
        height=7,
    ),
    table(
        "Containers by lost time",
        "All ranks of a container: share of their time, and number of GPUs.",
        [
            Query(
                f"sum by ({_WHERE}) (rate({_LOST}[$__rate_interval])) / on ({_WHERE}) count by ({_WHERE}) ({_PROCESSES})"
            ),
            Query(f"sum by ({_WHERE}) (rate({_LOST}[$__rate_interval]))"),
            Query(f"count by ({_WHERE}) ({_PROCESSES})"),
        ],
        [
            Column("Value #A", "Lost", "percentunit"),
            Column("Value #B", "GPUs lost", "short"),
            Column("Value #C", "Ranks", "short"),
            Column("node", "Node", link=_WORKLOAD_BOARD),
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
