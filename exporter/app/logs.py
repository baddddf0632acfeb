"""The log: logfmt or JSON, one line per event, on standard error."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from exporter.app.log_lines import LogLines
from exporter.config.log import LogFormat, LogLevel

log = logging.getLogger(__name__)


class _Formatter(logging.Formatter):
    """One line per record: a traceback becomes a field, and so does each entry of the extra "fields"."""

    def fields(self, record: logging.LogRecord) -> dict[str, str]:
        """Log fields in output order."""
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


class _Handler(logging.Handler):
    """Writes to standard error: at once, or by a thread of its own where `lines` is set."""

    lines: LogLines | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """A record that cannot be formatted is a defect, and must not end the thread that has made it."""
        try:
            line = self.format(record)
            if self.lines is None:
                print(line, file=sys.stderr, flush=True)
            else:
                self.lines.put(line.encode(sys.stderr.encoding, sys.stderr.errors or "replace"))
        except Exception:
            self.handleError(record)


_HANDLER: Final = _Handler()


@contextmanager
def in_background() -> Iterator[None]:
    """In the block no thread waits until standard error is read."""
    lines = _HANDLER.lines = LogLines(sys.stderr.fileno(), _report)
    try:
        yield
    finally:
        is_written = lines.stop()
        _HANDLER.lines = None
        if not is_written:  # nothing else may wait for it
            sys.stderr = Path(os.devnull).open("w", encoding="ascii")  # noqa: SIM115 - for the rest of the process


def dropped() -> int:
    """Lines of this log that were not written, since it is written in the background."""
    return _HANDLER.lines.dropped if _HANDLER.lines else 0


def _report(count: int) -> None:
    log.warning("%d log lines were dropped: standard error was not read, or could not be written", count)


def set_up(level: LogLevel, fmt: LogFormat) -> None:
    """Send the program's log to standard error."""
    _HANDLER.setFormatter(JsonFormatter() if fmt is LogFormat.JSON else LogfmtFormatter())
    root = logging.getLogger()
    root.handlers[:] = [_HANDLER]
    root.setLevel(level.upper())
    logging.getLogger("asyncio").setLevel(logging.WARNING)  # its debug lines are about its selector alone
