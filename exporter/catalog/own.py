"""What the exporter says of itself and of its machine."""

from __future__ import annotations

from exporter.catalog.metric import Kind, Metric


def _own(name: str, unit: str, kind: Kind, labels: tuple[str, ...], text: str) -> Metric:
    """A metric about the exporter itself. name: without prefix, unit and `_total`, words separated by dots."""
    prometheus_unit = {"s": "_seconds", "By": "_bytes", "1": "_ratio"}.get(unit, "")
    suffix = "_total" if kind is Kind.COUNTER else ""
    prometheus_name = "gpustall_exporter_" + name.replace(".", "_") + prometheus_unit + suffix
    return Metric(prometheus_name, "gpustall.exporter." + name, unit, kind, labels, text)


GPU_INFO = Metric(
    "gpustall_gpu_info",
    "gpustall.gpu.info",
    "",
    Kind.INFO,
    ("gpu_uuid", "model"),
    "GPUs of this machine, by the driver's list in /proc; none without an NVIDIA driver.",
)
BUILD_INFO = _own(
    "build_info",
    "",
    Kind.INFO,
    ("version", "python", "libbpf", "kernel", "attach_kind"),
    "The running exporter: its version, what it runs on, and how uprobes are attached.",
)
RELOAD_SUCCESS = _own(
    "config_last_reload_success",
    "",
    Kind.GAUGE,
    (),
    "1 when the configuration was read without a fault the last time it was to be read, 0 when it was not and the one before"
    " is in force.",
)
RELOAD_TIME = _own(
    "config_last_reload_success_timestamp",
    "s",
    Kind.GAUGE,
    (),
    "When the configuration that is in force was read, in seconds since 1970.",
)
PROBES_ENABLED = _own(
    "probes_enabled",
    "",
    Kind.GAUGE,
    (),
    "1 while libraries are probed as they are found; 0 once SIGUSR1 has removed every probe, or where probes were never allowed.",
)
ATTACHMENTS = _own(
    "attachments", "{library}", Kind.GAUGE, ("library", "kind"), "Library files probed now, by API and attachment kind."
)
ATTACHED_FUNCTIONS = _own(
    "attached_functions",
    "{function}",
    Kind.GAUGE,
    ("library",),
    "Functions probed now, over all library files of an API.",
)
ATTACH_FAILURES = _own(
    "attach.failures",
    "{library}",
    Kind.COUNTER,
    ("library", "reason"),
    "Library files that could not be probed: malformed, denied, vanished, hidden behind an overlay's later"
    " copy, refused by the kernel, or without a wanted symbol.",
)
SURPLUS_ATTACHMENTS = _own(
    "surplus_attachments",
    "{library}",
    Kind.COUNTER,
    ("library",),
    "Attachments whose calls another one had seen, so that both were on one file or a call passed through two; each call was"
    " counted once.",
)
UNREADABLE_PROCESSES = _own(
    "unreadable_processes",
    "{process}",
    Kind.GAUGE,
    (),
    "Processes whose mappings could not be read in the last walk through /proc; libraries that only they map are not probed.",
)
TRACKED_PROCESSES = _own(
    "tracked_processes", "{process}", Kind.GAUGE, (), "Processes alive that have made a traced call."
)
MAP_ENTRIES = _own("map_entries", "{entry}", Kind.GAUGE, ("map",), "Entries in a kernel map when it was last read.")
MAP_CAPACITY = _own("map_capacity", "{entry}", Kind.GAUGE, ("map",), "Entries a kernel map has room for.")
LOSSES = _own(
    "losses",
    "{loss}",
    Kind.COUNTER,
    ("program", "reason"),
    "What the kernel programs could not record, by program and reason; recursion: runs the kernel itself left out.",
)
HEALED_SWITCHES = _own(
    "healed_switches",
    "{switch}",
    Kind.COUNTER,
    (),
    "Switches and wake-ups of traced threads that the kernel did not show to the programs; the time in between was mended from"
    " the kernel's own sums.",
)
ACCOUNTING_ERROR = _own(
    "accounting_error",
    "1",
    Kind.GAUGE,
    ("figure",),
    "How far the booked time of threads is off, as a share of what was measured since the exporter started; 0 is perfect.",
)
TICK_DURATION = _own(
    "tick_duration", "s", Kind.GAUGE, (), "Wall time of the last tick, from waking up to having handled all news."
)
TICKS = _own("ticks", "{tick}", Kind.COUNTER, (), "Ticks done.")
TICK_TIME = _own("tick_time", "s", Kind.COUNTER, (), "CPU time spent in ticks.")
PUBLISH_DURATION = _own(
    "publish_duration", "s", Kind.GAUGE, (), "Wall time of the last reading of the kernel's tables into a snapshot."
)
RENDER_DURATION = _own(
    "render_duration",
    "s",
    Kind.GAUGE,
    ("format",),
    "Wall time of rendering the last scrape, from having the snapshot to having the body, compression included.",
)
COLLECTOR_SUCCESS = _own(
    "collector_success",
    "",
    Kind.GAUGE,
    ("collector",),
    "1 when the collector's last run succeeded with all of its kernel programs, else 0.",
)
COLLECTOR_DURATION = _own(
    "collector_duration",
    "s",
    Kind.GAUGE,
    ("collector",),
    "Wall time of the collector's last run, from when it began to read until its totals were there.",
)
COLLECTOR_RESETS = _own(
    "collector_resets",
    "{reset}",
    Kind.COUNTER,
    ("collector",),
    "Counters of the machine that were lower than the time before: a device or interface came anew, or the count wrapped; they"
    " count from 0 again.",
)
COLLECTOR_ERRORS = _own(
    "collector_errors",
    "{error}",
    Kind.COUNTER,
    ("collector",),
    "Runs of a collector that failed; its metrics are missing.",
)
STACKS = _own(
    "stacks",
    "{stack}",
    Kind.COUNTER,
    ("result",),
    "Stacks of threads of open chains by what became of them: functions named with bcc, located in files alone, unnamed since the"
    " process had ended, failed, or left_out because too many were waiting.",
)
PUSHES = _own(
    "pushes",
    "{push}",
    Kind.COUNTER,
    ("receiver", "outcome"),
    "Pushes over OTLP by how they ended, after all retries; a push is all points of one moment, in one or more requests.",
)
PUSH_ATTEMPTS = _own(
    "push.attempts", "{request}", Kind.COUNTER, ("receiver",), "Requests sent to a receiver, repeated ones included."
)
PUSHED_POINTS = _own("pushed_points", "{point}", Kind.COUNTER, ("receiver",), "Data points that a receiver has taken.")
REJECTED_POINTS = _own(
    "push.rejected_points",
    "{point}",
    Kind.COUNTER,
    ("receiver",),
    "Data points that a receiver said it had rejected from a request that it took otherwise.",
)
FORGOTTEN_POINTS = _own(
    "push.forgotten_points",
    "{point}",
    Kind.COUNTER,
    ("receiver",),
    "Undelivered deltas of series that had ended, dropped because too many were waiting.",
)
RECORD_PUSHES = _own(
    "record.pushes",
    "{push}",
    Kind.COUNTER,
    ("receiver", "signal", "outcome"),
    "Pushes of log records or of spans about causal chains by how they ended, after all retries.",
)
RECORDS = _own(
    "records",
    "{record}",
    Kind.COUNTER,
    ("receiver", "signal", "fate"),
    "Log records and spans about causal chains by what has become of them.",
)
PUSHED_BYTES = _own(
    "pushed", "By", Kind.COUNTER, ("receiver",), "Bytes of the bodies sent to a receiver, after compression."
)
PUSH_DURATION = _own(
    "push.duration",
    "s",
    Kind.GAUGE,
    ("receiver",),
    "Wall time of the last push, from taking the snapshot to the end of the last answer or of the last retry.",
)
PUSH_LAST_SUCCESS = _own(
    "push.last_success_timestamp",
    "s",
    Kind.GAUGE,
    ("receiver",),
    "Time of day, in seconds since 1970, of the last push that was delivered whole; 0 before the first.",
)
NAMES_SUCCESS = _own(
    "names_success",
    "",
    Kind.GAUGE,
    (),
    "1 while the orchestrator tells what its containers are called, 0 when it does not, has not yet or may not; missing where"
    " none is asked.",
)
HISTORY_SUCCESS = _own(
    "history_success",
    "",
    Kind.GAUGE,
    (),
    "1 when the last write of the history succeeded, 0 when it did not or the file cannot be used; missing where none is kept.",
)
HISTORY_BYTES = _own("history", "By", Kind.GAUGE, (), "What the history takes on disk, its log included.")
HISTORY_WRITE_FAILURES = _own(
    "history.write_failures", "{write}", Kind.COUNTER, (), "Writes of the history that failed, such as on a full disk."
)
HISTORY_DROPPED = _own(
    "history.dropped",
    "{record}",
    Kind.COUNTER,
    ("reason",),
    "Windows of processes and changes of chains that are not in the history.",
)
SERIES = _own("series", "{series}", Kind.GAUGE, (), "Workload series in the last snapshot; a histogram is one.")

MACHINE_METRICS = (GPU_INFO,)
"""About the machine that the exporter runs on."""

EXPORTER_METRICS = (
    BUILD_INFO,
    RELOAD_SUCCESS,
    RELOAD_TIME,
    PROBES_ENABLED,
    ATTACHMENTS,
    ATTACHED_FUNCTIONS,
    ATTACH_FAILURES,
    SURPLUS_ATTACHMENTS,
    UNREADABLE_PROCESSES,
    TRACKED_PROCESSES,
    MAP_ENTRIES,
    MAP_CAPACITY,
    LOSSES,
    HEALED_SWITCHES,
    ACCOUNTING_ERROR,
    TICK_DURATION,
    TICKS,
    TICK_TIME,
    PUBLISH_DURATION,
    RENDER_DURATION,
    COLLECTOR_SUCCESS,
    COLLECTOR_DURATION,
    COLLECTOR_RESETS,
    COLLECTOR_ERRORS,
    STACKS,
    PUSHES,
    PUSH_ATTEMPTS,
    PUSHED_POINTS,
    REJECTED_POINTS,
    FORGOTTEN_POINTS,
    RECORD_PUSHES,
    RECORDS,
    PUSHED_BYTES,
    PUSH_DURATION,
    PUSH_LAST_SUCCESS,
    NAMES_SUCCESS,
    HISTORY_SUCCESS,
    HISTORY_BYTES,
    HISTORY_WRITE_FAILURES,
    HISTORY_DROPPED,
    SERIES,
)
