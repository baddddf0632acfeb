"""Settings of the exporter's own log."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from exporter.config.parsers import choice
from exporter.config.setting import setting


class LogLevel(enum.StrEnum):
    """The least severe messages that are logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(enum.StrEnum):
    """How a line of the log is written."""

    LOGFMT = "logfmt"
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """What is logged, and how."""

    level: LogLevel = setting(
        "log.level",
        "info",
        choice(LogLevel),
        "LEVEL",
        "minimum severity: debug, info, warning or error",
        is_reloadable=True,
    )
    format: LogFormat = setting(
        "log.format", "logfmt", choice(LogFormat), "FORMAT", "log format: logfmt or json", is_reloadable=True
    )
