"""Can the exporters be believed, and what do they cost? For whoever runs them."""

from __future__ import annotations

from dashboards.boards import Board, Row, of_exporters
from dashboards.panels import Column, Query, graph, stat, table


def _own(name: str, *matchers: str) -> str:
    return of_exporters(f"gpustall_exporter_{name}", *matchers)


_PER = "{{instance}}"

_NUMBERS = (
    stat("Up", "Exporters that answered the last scrape.", f"sum({of_exporters('up')})"),
    stat("Processes", "Traced ones that are alive.", f"sum({_own('tracked_processes')})"),
    stat(
        "Lost events",
        "What kernel programs could not record, in the range of time that is shown.",
        f"""sum(increase({_own("losses_total", 'reason!="recursion"')}[$__range]))""",
        decimals=0,
        thresholds=((None, "green"), (1, "red")),
    ),
    stat(
        "Accounting error",
        "The largest: booked time against what the kernel's own sums say.",
        f"max({_own('accounting_error_ratio')})",
        "percentunit",
        decimals=2,
        thresholds=((None, "green"), (0.01, "red")),
    ),
    stat(
        "Overhead",
        "What the probes cost the traced processes: seconds of CPU time in a second.",
        f"sum({_own('overhead_ratio')})",
        "percentunit",
        decimals=2,
    ),
    stat(
        "Sampled processes",
        "Those of which only one launch in 64 is timed.",
        f"sum({_own('sampled_processes')})",
        thresholds=((None, "green"), (1, "yellow")),
    ),
)

_BELIEVED = (
    graph(
        "Losses",
        "By program and reason; docs/metrics.md says what each reason is.",
        Query(
            f"sum by (program, reason) (increase({_own('losses_total')}[$__rate_interval]))",
            "{{program}}: {{reason}}",
        ),
    ),
    graph(
        "How full the kernel's maps are",
        "Of what they have room for.",
        Query(f"max by (map) ({_own('map_entries')} / {_own('map_capacity')})", "{{map}}"),
        unit="percentunit",
        max_value=1,
    ),
    graph(
        "Accounting error",
        "Of waits for a CPU, and of all states together.",
        Query(f"max by (instance, figure) ({_own('accounting_error_ratio')})", "{{figure}} of {{instance}}"),
        unit="percentunit",
    ),
    graph(
        "Healed switches",
        "That the kernel did not show; mended from its own sums.",
        Query(f"rate({_own('healed_switches_total')}[$__rate_interval])", _PER),
        unit="cps",
    ),
    graph(
        "Collectors that fail",
        "1 for one whose last run did not succeed with all of its kernel programs.",
        Query(f"1 - min by (collector) ({_own('collector_success')})", "{{collector}}"),
        max_value=1,
    ),
    graph(
        "Libraries and functions probed",
        "Files of CUDA and NCCL, and functions in them.",
        Query(f"sum by (library) ({_own('attachments')})", "{{library}}: files"),
        Query(f"sum by (library) ({_own('attached_functions')})", "{{library}}: functions"),
    ),
)

_COST = (
    graph(
        "CPU",
        "Of the exporter's process, in cores; ticks are its loop.",
        Query(f"rate({of_exporters('process_cpu_seconds_total')}[$__rate_interval])", f"{_PER}: all"),
        Query(f"rate({_own('tick_time_seconds_total')}[$__rate_interval])", f"{_PER}: ticks"),
        unit="short",
    ),
    graph(
        "Memory",
        "Resident, of the exporter's process.",
        Query(of_exporters("process_resident_memory_bytes"), _PER),
        unit="bytes",
    ),
    graph(
        "How long a tick and a scrape take",
        "Wall time of the last ones.",
        Query(_own("tick_duration_seconds"), f"{_PER}: tick"),
        Query(_own("publish_duration_seconds"), f"{_PER}: reading for a scrape"),
        Query(_own("render_duration_seconds"), f"{_PER}: rendering {{{{format}}}}"),
        unit="s",
    ),
    graph(
        "Series",
        "About workloads, in the last scrape; a histogram is one.",
        Query(_own("series"), _PER),
    ),
    graph(
        "Overhead of the probes",
        "Seconds of CPU time in a second, of the traced processes.",
        Query(f"sum by (node) ({_own('overhead_ratio')})", "{{node}}"),
        unit="percentunit",
    ),
    graph(
        "History",
        "What it takes on disk.",
        Query(_own("history_bytes"), _PER),
        unit="bytes",
    ),
)

_PUSHED = (
    graph(
        "Pushes",
        "Over OTLP, by how they ended.",
        Query(
            f"sum by (receiver, outcome) (rate({_own('pushes_total')}[$__rate_interval]))",
            "{{receiver}}: {{outcome}}",
        ),
        unit="cps",
    ),
    graph(
        "Points",
        "Taken by the receiver, and rejected by it.",
        Query(f"sum by (receiver) (rate({_own('pushed_points_total')}[$__rate_interval]))", "{{receiver}}: taken"),
        Query(
            f"sum by (receiver) (rate({_own('push_rejected_points_total')}[$__rate_interval]))",
            "{{receiver}}: rejected",
        ),
        unit="cps",
    ),
)

_WHICH = (
    table(
        "Exporters",
        "What runs where.",
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
    "Can the exporters be believed, and what do they cost?",
    (
        Row("Now", _NUMBERS),
        Row("Can it be believed", _BELIEVED),
        Row("What it costs", _COST),
        Row("Pushed over OTLP", _PUSHED),
        Row("Which", _WHICH),
    ),
    is_of_workloads=False,
)
