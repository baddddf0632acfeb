"""The log: logfmt or JSON, one line per event, on standard error."""

from __future__ import annotations

import json
import logging
import sys
import time

from exporter.config.log import LogFormat, LogLevel


class _Formatter(logging.Formatter):
    """One line per record: a traceback becomes a field, and so does each entry of the extra "fields"."""

    def fields(self, record: logging.LogRecord) -> dict[str, str]:
        """In the order in which they are written."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        fields = {
            "ts": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "msg": record.getMessage(),
        }
        fields |= getattr(record, "fields", {})
        if record.exc_info:
            fields["error"] = self.formatException(record.exc_info)
        return fields


class LogfmtFormatter(_Formatter):
    """`ts=… level=info msg="attached to …"`."""

    def format(self, record: logging.LogRecord) -> str:
        """One logfmt line."""
        return " ".join(f"{key}={_quoted(value)}" for key, value in self.fields(record).items())


class JsonFormatter(_Formatter):
    """`{"ts": …, "level": "info", "msg": …}`."""

    def format(self, record: logging.LogRecord) -> str:
        """One JSON line."""
        return json.dumps(self.fields(record))


def _quoted(value: str) -> str:
    if value and value.isprintable() and not any(c in ' "=\\' for c in value):
        return value
    # json alone would leave DEL, the C1 controls and U+2028 as they are: a terminal or a log reader acts on them.
    quoted = json.dumps(value, ensure_ascii=not value.isprintable())
    return quoted.replace("\x7f", r"\u007f")


def set_up(level: LogLevel, fmt: LogFormat) -> None:
    """Send the program's log to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if fmt is LogFormat.JSON else LogfmtFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.getLogger("asyncio").setLevel(logging.WARNING)  # its debug lines are about its selector alone
