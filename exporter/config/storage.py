"""Settings of what is kept: series in memory, the history and the recordings on disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from exporter.config.parsers import count, duration, path_or_none, size, sqlite_file_or_none
from exporter.config.setting import declared, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesSettings:
    """How many series there may be, and how long each lives."""

    ttl_seconds: float = setting(
        "series.ttl",
        "15m",
        duration,
        "DURATION",
        "how long series of a workload outlive its last process",
        is_reloadable=True,
    )
    max_workloads: int = setting(
        "series.max-workloads", "256", count, "N", "workloads with series of their own; others share rank `other`"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySettings:
    """The SQLite file that `explain` reads. path: None for no history."""

    path: Path | None = setting(
        "history.path",
        "/var/lib/gpu-stall-exporter/history.sqlite",
        sqlite_file_or_none,
        "FILE",
        "history file, .sqlite, or none",
    )
    max_bytes: int = setting(
        "history.max-bytes", "64MiB", size, "SIZE", "size limit of the history and its write-ahead log, 2MiB or more"
    )
    retention_seconds: float = setting("history.retention", "24h", duration, "DURATION", "age limit of the history")


HISTORY_PATH = declared(HistorySettings)["path"]
"""Shared by `run` and the commands that read what it writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingSettings:
    """directory: None for no recordings. socket: None for none of single calls."""

    directory: Path | None = setting(
        "recording.directory",
        "/var/lib/gpu-stall-exporter/recordings",
        path_or_none,
        "DIR",
        "directory for recordings of chains, or none",
    )
    socket: Path | None = setting(
        "recording.socket",
        "/var/lib/gpu-stall-exporter/record.sock",
        path_or_none,
        "FILE",
        "socket for requests of `record`, or none",
    )


RECORDING_SOCKET = declared(RecordingSettings)["socket"]
"""Shared by `run` and `record`."""
