"""Which jobs lose GPU time, how much, and to what? For whoever is on call, and for the morning after."""

from __future__ import annotations

from dashboards.boards import Board, Row, of_exporters, of_workloads, or_zero
from dashboards.panels import Column, Query, graph, stat, table

_LOST = of_workloads("gpustall_lost_seconds_total")
_PROCESSES = of_workloads("gpustall_workload_info")
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
        "Part of the time of these processes in which their host made the GPU wait. The accounting is right to a few percent.",
        f"sum(rate({_LOST}[$__rate_interval])) / count({_PROCESSES})",
        "percentunit",
        decimals=1,
        thresholds=((None, "green"), (0.05, "yellow"), (0.25, "orange"), (0.5, "red")),
    ),
    stat(
        "GPUs lost",
        "The same as a number of GPUs: so many could be switched off, and as much would be computed, if nothing were lost.",
        f"sum(rate({_LOST}[$__rate_interval]))",
        decimals=2,
    ),
    stat(
        "Open chains",
        "Episodes that go on now, in which a rank is slower than it was, with a reason.",
        or_zero(f"sum({of_workloads('gpustall_chain_active')})", _PROCESSES),
        thresholds=((None, "green"), (1, "orange")),
    ),
    stat(
        "Worst chain",
        "1 low, 2 medium, 3 high, 4 critical: from 5, 10, 25 and 50 % of a rank's time.",
        or_zero(f"max({of_workloads('gpustall_chain_severity')})", _PROCESSES),
        thresholds=((None, "green"), (2, "yellow"), (3, "orange"), (4, "red")),
    ),
    stat(
        "Exporters",
        "Those that answered the last scrape.",
        f"sum({of_exporters('up')})",
    ),
)

_COURSES = (
    graph(
        "GPU time lost, by cause",
        "How many GPUs' worth of time was lost, and to what. docs/accounting.md says what each cause is.",
        Query(f"sum by (cause) (rate({_LOST}[$__rate_interval]))", "{{cause}}"),
        is_stacked=True,
    ),
    graph(
        "GPU time lost, by node",
        "Part of the time of a node's ranks.",
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
        "What is wrong now, worst first. The chain's id is a trace id: Tempo and Jaeger open it.",
        [Query(of_workloads("chain:gpustall_chain_severity:max"))],
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
        "Containers, by what they lose",
        "All ranks of a container together: part of their time, and as a number of GPUs. Median and tail of their steps.",
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
    "Which jobs lose GPU time, how much, and to what?",
    (Row("Now", _NUMBERS), Row("Course", _COURSES), Row("Who", _TABLES)),
)
