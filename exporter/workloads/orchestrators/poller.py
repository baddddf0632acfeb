"""Asks an orchestrator for its containers, round after round, in a thread of its own.

What goes wrong is said when it begins and when it is over, and tried again after a time that doubles. Meanwhile processes keep
the names they have, and new ones have ids.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from exporter.workloads.orchestrators.http_json import RequestFailed
from exporter.workloads.orchestrators.pod_cache import PodCache

log = logging.getLogger(__name__)

_FORBIDDEN = 403


@dataclass(frozen=True, slots=True)
class PollDelays:
    """How long until the next try: from first to last, doubling; denied while we may not ask.

    long_seconds: a round that lasts as long was worth it, and the next one may follow soon.
    """

    first_retry_seconds: float = 1.0
    last_retry_seconds: float = 60.0
    denied_retry_seconds: float = 300.0
    long_seconds: float = 5.0


class Source(Protocol):
    """Kubernetes or ECS, by one of the ways in which they tell."""

    @property
    def permission(self) -> str:
        """What to grant where it forbids: "list and watch of pods"; "" where nothing can be granted."""

    def round(self, stopping: threading.Event, worked: Callable[[], None]) -> None:
        """Fill a directory; returns when another round is due. worked: to be called whenever it is up to date."""


class OrchestratorPoller:
    """directory: the one that the source fills. report: is told whether it is up to date."""

    def __init__(
        self, source: Source, directory: PodCache, report: Callable[[bool], None], pace: PollDelays = PollDelays()
    ) -> None:
        self._pace = pace
        self.directory = directory
        self.source = source
        self._report = report
        self._stopping = threading.Event()
        self._is_failing = False
        self._thread = threading.Thread(target=self._run, name="names", daemon=True)

    def start(self) -> None:
        """From here on the directory fills."""
        self._report(False)
        self._thread.start()

    def stop(self) -> None:
        """Does not wait for a server that hangs: the thread ends with the process."""
        self._stopping.set()

    def join(self, timeout_seconds: float) -> None:
        """After stop(): until the server has nothing more to say."""
        self._thread.join(timeout_seconds)

    def _run(self) -> None:
        retry_seconds = self._pace.first_retry_seconds
        while not self._stopping.is_set():
            began_at = time.monotonic()
            pause_seconds = retry_seconds
            try:
                self.source.round(self._stopping, self._worked)
            except RequestFailed as error:
                self._failed(error)
                if error.status == _FORBIDDEN:
                    pause_seconds = self._pace.denied_retry_seconds
            except Exception:
                log.exception("pods cannot be read")
                pause_seconds = self._pace.last_retry_seconds
            lasted_seconds = time.monotonic() - began_at
            was_long = lasted_seconds >= self._pace.long_seconds
            retry_seconds = (
                self._pace.first_retry_seconds if was_long else min(retry_seconds * 2, self._pace.last_retry_seconds)
            )
            self._stopping.wait(pause_seconds * random.uniform(0.8, 1.2))  # noqa: S311 - so that nodes do not march in step

    def _worked(self) -> None:
        if self._is_failing:
            log.info("pods have their names again")
        self._is_failing = False
        self.directory.is_worth_waiting_for = True
        self._report(True)

    def _failed(self, error: RequestFailed) -> None:
        if not self._is_failing:
            permission = self.source.permission if error.status == _FORBIDDEN else ""
            remedy = f"; grant {permission} to its service account" if permission else ""
            log.warning(
                "new containers have ids for names, until their pods can be read: %s%s", error.one_line(), remedy
            )
        self._is_failing = True
        self.directory.is_worth_waiting_for = False
        self._report(False)
