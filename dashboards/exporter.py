"""Board Exporter: health, accuracy and cost of the exporters. For their operators."""

from __future__ import annotations

from dashboards.boards import WORKLOAD, Board, Row, counted, exporter_series, or_none, up
from dashboards.fleet import MISSING, MISSING_EXPORTERS
from dashboards.panels import CPUS, Column, Query, graph, stat, table


def _own(name: str, *matchers: str) -> str:
    return exporter_series(f"gpustall_exporter_{name}", *matchers)


_PER = "{{instance}}"
_OF_STATES, _OF_THE_SUM = 'figure!="balance"', 'figure="balance"'
ERROR_OF_STATES, ERROR_OF_THE_SUM, FULL = 0.01, 0.05, 0.9
"""From which alerts fire. Source: alerts/exporter.rules.yaml; tests/contract/test_board_limits.py compares them."""
OVERHEAD_LIMIT = 0.01
"""The default of probes.overhead-limit in exporter/config/probes.py, for one process; the same test compares them."""
_OVERHEAD = (
    f"clamp_max(sum by ({WORKLOAD}) ({_own('overhead_ratio')})"
    f" / count by ({WORKLOAD}) ({exporter_series('gpustall_workload_info')}), 1)"
)
"""Mean of the processes with the labels of one rank."""

_NUMBERS = (
    stat("Up", "Exporters that answered the last scrape.", f"sum({up()})", width=3, is_instant=True),
    stat(
        "Down",
        "Exporters that did not answer the last scrape, or are no longer targets.",
        f"{MISSING} or 0 * count({up()})",
        width=3,
        is_instant=True,
        thresholds=((None, "green"), (1, "red")),
    ),
    stat("Processes", "Live traced processes.", f"sum({_own('tracked_processes')})", width=3),
    stat(
        "Dropped records",
        "Records that kernel programs dropped in the time range.",
        f"""sum({counted(_own("losses_total", 'reason!="recursion"'))})""",
        width=3,
        decimals=0,
        thresholds=((None, "green"), (1, "red")),
    ),
    stat(
        "Accounting error",
        "Largest error of the accounted thread time in one state, compared with the kernel's own sums.",
        f"max({_own('accounting_error_ratio', _OF_STATES)})",
        "percentunit",
        width=3,
        decimals=2,
        thresholds=((None, "green"), (ERROR_OF_STATES, "red")),
    ),
    stat(
        "Balance error",
        "Largest error of the accounted thread time over all states.",
        f"max({_own('accounting_error_ratio', _OF_THE_SUM)})",
        "percentunit",
        width=3,
        decimals=2,
        thresholds=((None, "green"), (ERROR_OF_THE_SUM, "red")),
    ),
    stat(
        "Largest overhead",
        "CPU time of the probes in one traced process, as a share of a CPU. Red from the default of --probes.overhead-limit on.",
        f"max({_OVERHEAD})",
        "percentunit",
        width=3,
        decimals=2,
        thresholds=((None, "green"), (OVERHEAD_LIMIT, "red")),
    ),
    stat(
        "Sampled processes",
        "Processes of which 1 in 64 kernel launches is timed.",
        f"sum({_own('sampled_processes')})",
        width=3,
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
        unit="suffix:records",
        no_value="no record was dropped",
    ),
    graph(
        "Kernel maps in use",
        "Share of the capacity of each map. A full map drops records.",
        Query(f"max by (map) ({_own('map_entries')} / {_own('map_capacity')})", "{{map}}"),
        unit="percentunit",
        max_value=1,
        limit=FULL,
    ),
    graph(
        "Accounting error, by figure",
        "For single states such as waits for a CPU, where an alert fires beyond 1 %, and for all states together (balance),"
        " beyond 5 %.",
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
        "CPU time of the exporter's process; ticks are its loop. Probes run in the traced processes.",
        Query(f"rate({exporter_series('process_cpu_seconds_total')}[$__rate_interval])", f"{_PER}: all"),
        Query(f"rate({_own('tick_time_seconds_total')}[$__rate_interval])", f"{_PER}: ticks"),
        Query(f"sum by (instance) ({_own('overhead_ratio')})", f"{_PER}: probes in all processes"),
        unit=CPUS,
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
        "Overhead of the probes, largest of a process",
        "CPU time of the probes in one traced process, as a share of a CPU. Beyond --probes.overhead-limit, 1 % by default, its"
        " launches are sampled.",
        Query(f"max by (node) ({_OVERHEAD})", "{{node}}"),
        unit="percentunit",
        limit=OVERHEAD_LIMIT,
        no_value="no process is traced",
    ),
    graph(
        "History",
        "Size on disk.",
        Query(_own("history_bytes"), _PER),
        unit="bytes",
        no_value="no history is stored",
    ),
)

_NO_PUSHES = "nothing is pushed"

_PUSHED = (
    graph(
        "Pushes",
        "OTLP pushes, by outcome.",
        Query(
            f"sum by (receiver, outcome) (rate({_own('pushes_total')}[$__rate_interval]))",
            "{{receiver}}: {{outcome}}",
        ),
        unit="cps",
        no_value=_NO_PUSHES,
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
        no_value=_NO_PUSHES,
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
        Row("Down", (MISSING_EXPORTERS,)),
        Row("Accuracy", _ACCURACY),
        Row("Cost", _COST),
        Row("OTLP pushes", _PUSHED),
        Row("Versions", _VERSIONS),
    ),
    is_of_workloads=False,
)
