"""The store of many nodes, `gpu-stall-exporter cluster`. The exporter has none of these."""

from __future__ import annotations

from exporter.catalog.metric import Kind, Metric


def _cluster(name: str, unit: str, kind: Kind, labels: tuple[str, ...], text: str) -> Metric:
    """name: without prefix, unit and `_total`, words separated by dots."""
    prometheus_unit = {"s": "_seconds", "By": "_bytes"}.get(unit, "")
    suffix = "_total" if kind is Kind.COUNTER else ""
    prometheus_name = "gpustall_cluster_" + name.replace(".", "_") + prometheus_unit + suffix
    return Metric(prometheus_name, "gpustall.cluster." + name, unit, kind, labels, text)


REQUESTS = _cluster(
    "requests",
    "{request}",
    Kind.COUNTER,
    ("transport", "status"),
    "Requests by transport and by the status that they were answered with, an HTTP status or the name of a gRPC code.",
)
STORED_ROWS = _cluster(
    "stored_rows",
    "{row}",
    Kind.COUNTER,
    (),
    "Windows, chain events and chains that were received, stored and acknowledged.",
)
DUPLICATES = _cluster(
    "duplicate_rows",
    "{row}",
    Kind.COUNTER,
    (),
    "Rows that the store had already, because a sender got no answer and sent them again.",
)
REJECTED = _cluster(
    "rejected_records",
    "{record}",
    Kind.COUNTER,
    ("reason",),
    "Records that were rejected, by reason; senders do not send them again.",
)
QUEUED_ROWS = _cluster("queued_rows", "{row}", Kind.GAUGE, (), "Rows that wait to be written.")
COMMITS = _cluster(
    "commits", "{commit}", Kind.COUNTER, (), "Commits to the store, each with all rows that had arrived."
)
COMMIT_FAILURES = _cluster(
    "commit_failures", "{commit}", Kind.COUNTER, (), "Commits that failed; senders send their rows again."
)
COMMIT_LAG = _cluster(
    "commit_lag",
    "s",
    Kind.GAUGE,
    (),
    "Time from the arrival of the oldest row of the last commit until it was on the disk.",
)
LAST_COMMIT = _cluster("last_commit_timestamp", "s", Kind.GAUGE, (), "Unix time in seconds of the last commit.")
SUCCESS = _cluster(
    "store_success", "", Kind.GAUGE, (), "1 while rows can be stored; 0 after a failure, until a commit succeeds."
)
STORE_BYTES = _cluster("store", "By", Kind.GAUGE, (), "Size of all segments of the store.")
SEGMENTS = _cluster("sealed_segments", "{segment}", Kind.GAUGE, (), "Segments that do not change any more.")
REMOVED_SEGMENTS = _cluster(
    "removed_segments",
    "{segment}",
    Kind.COUNTER,
    ("reason",),
    "Segments removed because of the age or the size of the store.",
)

METRICS = (
    REQUESTS,
    STORED_ROWS,
    DUPLICATES,
    REJECTED,
    QUEUED_ROWS,
    COMMITS,
    COMMIT_FAILURES,
    COMMIT_LAG,
    LAST_COMMIT,
    SUCCESS,
    STORE_BYTES,
    SEGMENTS,
    REMOVED_SEGMENTS,
)
