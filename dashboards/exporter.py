"""Board Exporter: health, accuracy and cost of the exporters. For their operators."""

from __future__ import annotations

from dashboards.boards import Board, Row, counted, exporter_series, or_none
from dashboards.panels import Column, Query, graph, stat, table


def _own(name: str, *matchers: str) -> str:
    return exporter_series(f"gpustall_exporter_{name}", *matchers)


_PER = "{{instance}}"

_NUMBERS = (
    stat("Up", "Exporters that answered the last scrape.", f"sum({exporter_series('up')})"),
    stat("Processes", "Live traced processes.", f"sum({_own('tracked_processes')})"),
    stat(
        "Dropped records",
        "Records that kernel programs dropped in the time range.",
        f"""sum({counted(_own("losses_total", 'reason!="recursion"'))})""",
        decimals=0,
        thresholds=((None, "green"), (1, "red")),
    ),
    stat(
        "Accounting error",
        "Largest error of accounted thread time compared with the kernel's own sums.",
        f"max({_own('accounting_error_ratio')})",
        "percentunit",
        decimals=2,
        thresholds=((None, "green"), (0.01, "red")),
    ),
    stat(
        "Overhead",
        "CPU time of the probes in traced processes, as a number of CPUs.",
        f"sum({_own('overhead_ratio')})",
        decimals=3,
    ),
    stat(
        "Sampled processes",
        "Processes of which 1 in 64 kernel launches is timed.",
        f"sum({_own('sampled_processes')})",
        thresholds=((None, "green"), (1, "yellow")),
    ),
)

_ACCURACY = (
    graph(
        "Dropped records, by reason",
        "By program and reason; docs/metrics.md explains the reasons.",
        Query(
            f"sum by (program, reason) {counted(_own('losses_total'), '$__rate_interval')}",
            "{{program}}: {{reason}}",
        ),
    ),
    graph(
        "Kernel maps in use",
        "Share of the capacity of each map. A full map drops records.",
        Query(f"max by (map) ({_own('map_entries')} / {_own('map_capacity')})", "{{map}}"),
        unit="percentunit",
        max_value=1,
    ),
    graph(
        "Accounting error, by figure",
        "For waits for a CPU, and for all states together.",
        Query(f"max by (instance, figure) ({_own('accounting_error_ratio')})", "{{figure}} of {{instance}}"),
        unit="percentunit",
    ),
    graph(
        "Healed switches",
        "Context switches that the kernel did not show; their time was taken from its own sums.",
        Query(f"rate({_own('healed_switches_total')}[$__rate_interval])", _PER),
        unit="cps",
    ),
    graph(
        "Libraries that could not be probed",
        "In the time range, by reason: calls of processes that map them are not measured. docs/limits.md explains the reasons.",
        Query(
            or_none(
                f"sum by (library, reason) {counted(_own('attach_failures_total'))} > 0",
                _own("build_info"),
                *("library", "reason"),
            ),
            "{{series}}",
        ),
    ),
    graph(
        "Refused, by owner",
        "In the time range: rows, workloads and labels that a container or a user was refused because others need room.",
        Query(
            or_none(
                f"sum by (resource, owner) {counted(_own('refused_total'))} > 0",
                _own("build_info"),
                *("resource", "owner"),
            ),
            "{{series}}",
        ),
    ),
    graph(
        "Failing collectors",
        "1 if the last run did not succeed with all kernel programs of the collector.",
        Query(f"1 - min by (collector) ({_own('collector_success')})", "{{collector}}"),
        max_value=1,
    ),
    graph(
        "Probed libraries and functions",
        "Files of CUDA and NCCL, and functions in them.",
        Query(f"sum by (library) ({_own('attachments')})", "{{library}}: files"),
        Query(f"sum by (library) ({_own('attached_functions')})", "{{library}}: functions"),
    ),
)

_COST = (
    graph(
        "CPU",
        "CPU time of the exporter's process, in cores; ticks are its loop.",
        Query(f"rate({exporter_series('process_cpu_seconds_total')}[$__rate_interval])", f"{_PER}: all"),
        Query(f"rate({_own('tick_time_seconds_total')}[$__rate_interval])", f"{_PER}: ticks"),
        unit="short",
    ),
    graph(
        "Memory",
        "Resident memory of the exporter's process.",
        Query(exporter_series("process_resident_memory_bytes"), _PER),
        unit="bytes",
    ),
    graph(
        "Duration of ticks and scrapes",
        "Wall time of the last one.",
        Query(_own("tick_duration_seconds"), f"{_PER}: tick"),
        Query(_own("publish_duration_seconds"), f"{_PER}: reading for a scrape"),
        Query(_own("render_duration_seconds"), f"{_PER}: rendering {{{{format}}}}"),
        unit="s",
    ),
    graph(
        "Series",
        "Workload series in the last scrape; a histogram is one.",
        Query(_own("series"), _PER),
    ),
    graph(
        "Overhead of the probes",
        "CPU time of the probes in traced processes, as a number of CPUs.",
        Query(f"sum by (node) ({_own('overhead_ratio')})", "{{node}}"),
    ),
    graph(
        "History",
        "Size on disk.",
        Query(_own("history_bytes"), _PER),
        unit="bytes",
    ),
)

_PUSHED = (
    graph(
        "Pushes",
        "OTLP pushes, by outcome.",
        Query(
            f"sum by (receiver, outcome) (rate({_own('pushes_total')}[$__rate_interval]))",
            "{{receiver}}: {{outcome}}",
        ),
        unit="cps",
    ),
    graph(
        "Points",
        "Data points accepted and rejected by the receiver.",
        Query(f"sum by (receiver) (rate({_own('pushed_points_total')}[$__rate_interval]))", "{{receiver}}: accepted"),
        Query(
            f"sum by (receiver) (rate({_own('push_rejected_points_total')}[$__rate_interval]))",
            "{{receiver}}: rejected",
        ),
        unit="cps",
    ),
)

_VERSIONS = (
    table(
        "Exporters",
        "Versions of exporter, kernel and libraries on each node.",
        [Query(_own("build_info"))],
        [
            Column("instance", "Instance"),
            Column("version", "Version"),
            Column("kernel", "Kernel"),
            Column("attach_kind", "Probes"),
            Column("libbpf", "libbpf"),
            Column("python", "Python"),
        ],
        sort=("Instance", False),
        height=6,
    ),
)

BOARD = Board(
    "gpustall-exporter",
    "GPU stalls / Exporter",
    "Are the exporters healthy and accurate, and what do they cost?",
    (
        Row("Now", _NUMBERS),
        Row("Accuracy", _ACCURACY),
        Row("Cost", _COST),
        Row("OTLP pushes", _PUSHED),
        Row("Versions", _VERSIONS),
    ),
    is_of_workloads=False,
)
