"""The exporter itself, and its machine."""

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
    "GPUs of this machine, as listed by the driver in /proc; none without an NVIDIA driver.",
)
BUILD_INFO = _own(
    "build_info",
    "",
    Kind.INFO,
    ("version", "python", "libbpf", "kernel", "attach_kind"),
    "Version of the exporter, of what it runs on, and the kind of uprobe attachment.",
)
RELOAD_SUCCESS = _own(
    "config_last_reload_success",
    "",
    Kind.GAUGE,
    (),
    "1 if the last attempt to load the configuration succeeded; 0 if it failed and the previous configuration stays"
    " in use.",
)
RELOAD_TIME = _own(
    "config_last_reload_success_timestamp",
    "s",
    Kind.GAUGE,
    (),
    "Unix time in seconds at which the configuration in use was loaded.",
)
PROBES_ENABLED = _own(
    "probes_enabled",
    "",
    Kind.GAUGE,
    (),
    "1 while libraries are probed as they are found; 0 after SIGUSR1 removed every probe, or where probes were"
    " never allowed.",
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
    "Library files that could not be probed, by reason: malformed, denied, vanished, hidden by a later copy on an overlay,"
    " refused by the kernel, frozen (--probes.attach-once), no_symbols, written, descriptors, share,"
    " user_file_system, unanswered, unexamined (its process maps too many files).",
)
CHANGED_LIBRARIES = _own(
    "changed_libraries",
    "{library}",
    Kind.COUNTER,
    ("library",),
    "Probed library files that were written to: their probes were removed, and calls are not counted until the file is probed"
    " again.",
)
UNGUARDED_LIBRARIES = _own(
    "unguarded_libraries",
    "{library}",
    Kind.GAUGE,
    ("library",),
    "Probed library files that cannot be leased, on a network file system or without CAP_LEASE: a program that overwrites"
    " one does not wait until its probes are removed.",
)
SURPLUS_ATTACHMENTS = _own(
    "surplus_attachments",
    "{library}",
    Kind.COUNTER,
    ("library",),
    "Attachments whose calls another attachment had already counted, because both were on one file or a call passed"
    " through two files; each call was counted once.",
)
UNANSWERED_READS = _own(
    "unanswered_reads",
    "{read}",
    Kind.COUNTER,
    (),
    "Reads of the environment or the programs of a new process that were given up, because they were not answered; its"
    " rank and engine may stay unknown.",
)
UNREADABLE_PROCESSES = _own(
    "unreadable_processes",
    "{process}",
    Kind.GAUGE,
    (),
    "Processes whose mappings could not be read in the last scan of /proc; libraries mapped only by them are not"
    " probed.",
)
TRACKED_PROCESSES = _own("tracked_processes", "{process}", Kind.GAUGE, (), "Live processes that made a traced call.")
MAP_ENTRIES = _own("map_entries", "{entry}", Kind.GAUGE, ("map",), "Entries in a kernel map when it was last read.")
MAP_CAPACITY = _own("map_capacity", "{entry}", Kind.GAUGE, ("map",), "Entries that a kernel map has room for.")
LOSSES = _own(
    "losses",
    "{loss}",
    Kind.COUNTER,
    ("program", "reason"),
    "Dropped records: what the kernel programs could not record, by program and reason; `recursion` counts program"
    " runs that the kernel itself skipped.",
)
REFUSED = _own(
    "refused",
    "{refusal}",
    Kind.COUNTER,
    ("resource", "owner"),
    "Requests rejected by per-owner limits, by resource and by owner (a container or a user): rows of a kernel table,"
    " workloads, labels that another owner has, series of error codes, infos, reads of new processes, reports of chains.",
)
HEALED_SWITCHES = _own(
    "healed_switches",
    "{switch}",
    Kind.COUNTER,
    (),
    "Switches and wake-ups of traced threads that the kernel did not show to the programs; the missing time was"
    " filled in from the kernel's own sums.",
)
ACCOUNTING_ERROR = _own(
    "accounting_error",
    "1",
    Kind.GAUGE,
    ("figure",),
    "Error of the accounting, as a share of the time measured since the exporter started; 0 is exact.",
)
TICK_DURATION = _own(
    "tick_duration",
    "s",
    Kind.GAUGE,
    (),
    "Wall time of the last tick in seconds, from wake-up until all events were handled.",
)
TICKS = _own(
    "ticks", "{tick}", Kind.COUNTER, (), "Completed ticks: runs of the exporter's main loop, one per --tick.interval."
)
TICK_TIME = _own("tick_time", "s", Kind.COUNTER, (), "CPU time spent in ticks, in seconds.")
PUBLISH_DURATION = _own(
    "publish_duration",
    "s",
    Kind.GAUGE,
    (),
    "Wall time in seconds of the last reading of the kernel's tables into a snapshot.",
)
RENDER_DURATION = _own(
    "render_duration",
    "s",
    Kind.GAUGE,
    ("format",),
    "Wall time in seconds of rendering the last scrape, from the finished snapshot to the finished body,"
    " compression included.",
)
COLLECTOR_SUCCESS = _own(
    "collector_success",
    "",
    Kind.GAUGE,
    ("collector",),
    "1 if the collector's last run succeeded with all of its kernel programs, else 0.",
)
COLLECTOR_DURATION = _own(
    "collector_duration",
    "s",
    Kind.GAUGE,
    ("collector",),
    "Wall time of the collector's last run in seconds, from the start of reading until its totals were complete.",
)
COLLECTOR_RESETS = _own(
    "collector_resets",
    "{reset}",
    Kind.COUNTER,
    ("collector",),
    "Counters of the machine that were lower than before, because a device or interface was replaced or the counter"
    " wrapped; they count from 0 again.",
)
COLLECTOR_ERRORS = _own(
    "collector_errors",
    "{error}",
    Kind.COUNTER,
    ("collector",),
    "Failures of a collector: runs that raised an error, whose metrics are missing until a run succeeds, and kernel"
    " programs of it that could not be loaded at the start.",
)
STACKS = _own(
    "stacks",
    "{stack}",
    Kind.COUNTER,
    ("result",),
    "Stacks of threads of open chains, by result: functions named with bcc, located by file only, unnamed because"
    " the process had ended, failed, or left_out because too many were waiting.",
)
PYTHON_INTERPRETERS = _own(
    "python_interpreters",
    "{interpreter}",
    Kind.COUNTER,
    ("result",),
    "Python interpreters of traced processes: readable, so that evidence of chains shows lines of Python, or why not.",
)
PYTHON_TASKS = _own(
    "python_tasks",
    "{stack}",
    Kind.COUNTER,
    ("result",),
    "Stacks of threads with an event loop of asyncio: read, so that evidence of chains shows the tasks that wait, or why not.",
)
NCCL_RAS = _own(
    "nccl_ras",
    "{query}",
    Kind.COUNTER,
    ("result",),
    "Queries of NCCL's RAS sockets for evidence of chains, by result: answered, or why there is no answer.",
)
PUSHES = _own(
    "pushes",
    "{push}",
    Kind.COUNTER,
    ("receiver", "outcome"),
    "OTLP pushes by outcome, after all retries; a push is all points of one moment, in one or more requests.",
)
PUSH_ATTEMPTS = _own(
    "push.attempts", "{request}", Kind.COUNTER, ("receiver",), "Requests sent to a receiver, retries included."
)
PUSHED_POINTS = _own("pushed_points", "{point}", Kind.COUNTER, ("receiver",), "Data points accepted by a receiver.")
REJECTED_POINTS = _own(
    "push.rejected_points",
    "{point}",
    Kind.COUNTER,
    ("receiver",),
    "Data points that a receiver rejected: in a request it otherwise accepted, or alone because they are too large.",
)
FORGOTTEN_POINTS = _own(
    "push.forgotten_points",
    "{point}",
    Kind.COUNTER,
    ("receiver",),
    "Undelivered deltas of ended series, dropped because too many were waiting.",
)
RECORD_PUSHES = _own(
    "record.pushes",
    "{push}",
    Kind.COUNTER,
    ("receiver", "signal", "outcome"),
    "OTLP pushes of log records or spans by outcome, after all retries.",
)
RECORDS = _own(
    "records",
    "{record}",
    Kind.COUNTER,
    ("receiver", "signal", "fate"),
    "Log records and spans about causal chains and windows, by fate.",
)
PUSHED_BYTES = _own(
    "pushed", "By", Kind.COUNTER, ("receiver",), "Bytes of request bodies sent to a receiver, after compression."
)
PUSH_DURATION = _own(
    "push.duration",
    "s",
    Kind.GAUGE,
    ("receiver",),
    "Wall time of the last push in seconds, from taking the snapshot until the last answer or the last retry ended.",
)
PUSH_LAST_SUCCESS = _own(
    "push.last_success_timestamp",
    "s",
    Kind.GAUGE,
    ("receiver",),
    "Unix time in seconds of the last push that was delivered completely; 0 before the first.",
)
NAMES_SUCCESS = _own(
    "names_success",
    "",
    Kind.GAUGE,
    (),
    "1 while the orchestrator reports container names; 0 when it does not, has not yet or refuses; absent where no"
    " orchestrator is configured.",
)
HISTORY_SUCCESS = _own(
    "history_success",
    "",
    Kind.GAUGE,
    (),
    "1 if the last write of the history succeeded; 0 if it failed or the file cannot be used; absent where no"
    " history is kept.",
)
HISTORY_BYTES = _own("history", "By", Kind.GAUGE, (), "Bytes of the history on disk, its write-ahead log included.")
HISTORY_WRITE_FAILURES = _own(
    "history.write_failures", "{write}", Kind.COUNTER, (), "Writes of the history that failed, such as on a full disk."
)
HISTORY_DROPPED = _own(
    "history.dropped",
    "{record}",
    Kind.COUNTER,
    ("reason",),
    "Windows of processes, changes of chains and places in communicators that are missing from the history, by reason.",
)
RECORDING_DROPPED = _own(
    "recording.dropped",
    "{record}",
    Kind.COUNTER,
    (),
    "Changes of chains that are missing from recordings, because their disk did not respond.",
)
LOG_DROPPED = _own(
    "log.dropped",
    "{line}",
    Kind.COUNTER,
    (),
    "Log lines that were dropped because standard error was not read or could not be written.",
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
    CHANGED_LIBRARIES,
    UNGUARDED_LIBRARIES,
    SURPLUS_ATTACHMENTS,
    UNANSWERED_READS,
    UNREADABLE_PROCESSES,
    TRACKED_PROCESSES,
    MAP_ENTRIES,
    MAP_CAPACITY,
    LOSSES,
    REFUSED,
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
    PYTHON_INTERPRETERS,
    PYTHON_TASKS,
    NCCL_RAS,
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
    RECORDING_DROPPED,
    LOG_DROPPED,
    SERIES,
)
