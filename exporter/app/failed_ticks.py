"""Logs that ticks fail, once for each reason, and that they succeed again: four a second would fill the log."""

from __future__ import annotations

import logging

from exporter.errors import ExporterError

log = logging.getLogger(__name__)

REASONS_MAX = 8
"""Different reasons that are logged until a tick succeeds."""


class FailedTicks:
    """For one thread."""

    def __init__(self) -> None:
        self._reasons: set[str] = set()
        self._count = 0

    def failed(self, error: Exception) -> None:
        """Call it while the exception is being handled."""
        self._count += 1
        reason = error.one_line() if isinstance(error, ExporterError) else repr(error)
        if reason in self._reasons or len(self._reasons) >= REASONS_MAX:
            return
        self._reasons.add(reason)
        if isinstance(error, ExporterError):
            log.error("cannot update metrics: %s; logged once until a tick succeeds", reason)
        else:
            log.exception("cannot update metrics: internal error (bug); logged once until a tick succeeds")

    def succeeded(self) -> None:
        """A tick did all its work."""
        if self._count:
            log.info("metrics are updated again after %d failed ticks", self._count)
            self._count = 0
            self._reasons.clear()
