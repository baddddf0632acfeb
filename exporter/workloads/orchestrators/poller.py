"""Keeps the pod cache up to date in a thread: one sync after another, with back-off while the orchestrator fails.

While it fails, processes keep the names they have, and new ones have container ids for names.
"""

from __future__ import annotations

import enum
import logging
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from tenacity import RetryCallState, Retrying, retry_if_result, wait_exponential

from exporter.workloads.orchestrators.http_json import Endpoint, RequestFailed
from exporter.workloads.orchestrators.pod_cache import PodCache

log = logging.getLogger(__name__)

_FORBIDDEN = 403


@dataclass(frozen=True, slots=True)
class PollDelays:
    """Pauses between syncs: from first to last, doubling; denied while the orchestrator forbids the request.

    A sync that lasted long_seconds has worked for a while, so the back-off begins again at first_retry_seconds.
    """

    first_retry_seconds: float = 1.0
    last_retry_seconds: float = 60.0
    denied_retry_seconds: float = 300.0
    long_seconds: float = 5.0


class Source(Protocol):
    """One API of Kubernetes or ECS."""

    endpoint: Endpoint

    @property
    def permission(self) -> str:
        """The permission to grant when the API answers 403, such as `list and watch of pods`; "" where there is none."""

    def sync(self, stopping: threading.Event, synced: Callable[[], None]) -> None:
        """Fill a cache; returns when another sync is due. Calls synced() whenever the cache is up to date."""


class _Stopped(Exception):
    """stop() was called."""


class _SyncEnd(enum.Enum):
    """How a sync ended."""

    LASTED = enum.auto()
    SHORT = enum.auto()
    FORBIDDEN = enum.auto()
    DEFECT = enum.auto()


class OrchestratorPoller:
    """cache: the one that the source fills. set_current: called with whether it is up to date."""

    def __init__(
        self,
        source: Source,
        cache: PodCache,
        set_current: Callable[[bool], None],
        delays: PollDelays = PollDelays(),
    ) -> None:
        self.cache = cache
        self.source = source
        self._set_current = set_current
        self._delays = delays
        self._back_off = wait_exponential(multiplier=delays.first_retry_seconds, max=delays.last_retry_seconds)
        self._stopping = threading.Event()
        self._is_failing = False
        self._thread = threading.Thread(target=self._run, name="orchestrator", daemon=True)

    def start(self) -> None:
        """Begin to fill the cache."""
        self._set_current(False)
        self._thread.start()

    def stop(self) -> None:
        """Cancel the request in flight. Returns at once."""
        self._stopping.set()
        self.source.endpoint.cancel()

    def join(self, timeout_seconds: float) -> None:
        """Wait for the thread after stop()."""
        self._thread.join(timeout_seconds)

    def _run(self) -> None:
        until_it_lasts = Retrying(
            retry=retry_if_result(lambda ending: ending is not _SyncEnd.LASTED),
            wait=self._pause_seconds,
            sleep=self._sleep,
        )
        with suppress(_Stopped):
            while True:
                until_it_lasts(self._sync)
                self._sleep(_jittered(self._delays.first_retry_seconds))

    def _sleep(self, seconds: float) -> None:
        if self._stopping.wait(seconds):
            raise _Stopped

    def _pause_seconds(self, state: RetryCallState) -> float:
        ending = state.outcome.result() if state.outcome else _SyncEnd.SHORT
        if ending is _SyncEnd.FORBIDDEN:
            return _jittered(self._delays.denied_retry_seconds)
        if ending is _SyncEnd.DEFECT:
            return _jittered(self._delays.last_retry_seconds)
        return _jittered(self._back_off(state))

    def _sync(self) -> _SyncEnd:
        began_at = time.monotonic()
        try:
            self.source.sync(self._stopping, self._synced)
        except RequestFailed as error:
            if self._stopping.is_set():
                raise _Stopped from error  # its request was cancelled
            self._failed(error)
            if error.status == _FORBIDDEN:
                return _SyncEnd.FORBIDDEN
        except Exception:
            log.exception("cannot read pods: internal error (bug)")
            return _SyncEnd.DEFECT
        lasted_seconds = time.monotonic() - began_at
        return _SyncEnd.LASTED if lasted_seconds >= self._delays.long_seconds else _SyncEnd.SHORT

    def _synced(self) -> None:
        if self._is_failing:
            log.info("pod lookup recovered; container names restored")
        self._is_failing = False
        self.cache.is_worth_waiting_for = True
        self._set_current(True)

    def _failed(self, error: RequestFailed) -> None:
        if not self._is_failing:
            permission = self.source.permission if error.status == _FORBIDDEN else ""
            remedy = f"; grant {permission} to the exporter's service account" if permission else ""
            log.warning(
                "cannot read pods, new containers are labeled with ids instead of names: %s%s",
                error.one_line(),
                remedy,
            )
        self._is_failing = True
        self.cache.is_worth_waiting_for = False
        self._set_current(False)


def _jittered(seconds: float) -> float:
    """So that the nodes of a cluster do not send their requests at the same time."""
    return seconds * random.uniform(0.8, 1.2)  # noqa: S311 - no secret
