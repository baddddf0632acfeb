"""orchestrators.poller: pauses between syncs, what is logged, and the end."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

import pytest

from exporter.workloads.orchestrators.http_json import Endpoint, RequestFailed
from exporter.workloads.orchestrators.pod_cache import PodCache
from exporter.workloads.orchestrators.poller import OrchestratorPoller, PollDelays
from tests.support.patience import PATIENCE_SECONDS

DELAYS = PollDelays()


class Waits(threading.Event):
    """An event whose waits take no time and are recorded; it is set after `count` of them."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.seconds: list[float] = []
        self._count = count

    def wait(self, timeout: float | None = None) -> bool:
        """Record the wait."""
        self.seconds.append(timeout or 0.0)
        if len(self.seconds) >= self._count:
            self.set()
        return self.is_set()


class ScriptedSource:
    """A source whose syncs fail or succeed as the script says; the last entry is repeated."""

    permission = "list and watch of pods"

    def __init__(self, script: Sequence[Exception | None]) -> None:
        self.endpoint = Endpoint("http://127.0.0.1:1")
        self._script = list(script)

    def sync(self, _stopping: threading.Event, synced: Callable[[], None]) -> None:
        """The next entry."""
        failure = self._script.pop(0) if len(self._script) > 1 else self._script[0]
        if failure is not None:
            raise failure
        synced()


def pauses(script: Sequence[Exception | None], count: int, delays: PollDelays = DELAYS) -> list[float]:
    """The first pauses in seconds, rounded to what they are without their jitter of a fifth."""
    source = ScriptedSource(script)
    poller = OrchestratorPoller(source, PodCache(), lambda _: None, delays)
    waits = Waits(count)
    poller._stopping = waits
    poller.start()
    poller.join(PATIENCE_SECONDS)
    return waits.seconds


class TestBackOff:
    """How long until the next sync."""

    def test_pauses_double_up_to_the_last(self) -> None:
        found = pauses([RequestFailed("refused")], 8)

        expected = [1, 2, 4, 8, 16, 32, 60, 60]
        assert all(0.8 * e <= f <= 1.2 * e for e, f in zip(expected, found, strict=True)), found

    def test_short_syncs_that_succeed_back_off_too(self) -> None:
        """A watch that ends at once must not become a busy loop."""
        found = pauses([None], 3)

        assert all(0.8 * e <= f <= 1.2 * e for e, f in zip([1, 2, 4], found, strict=True)), found

    def test_forbidden_request_waits_for_minutes(self) -> None:
        (found,) = pauses([RequestFailed("403 Forbidden", 403)], 1)

        assert 240 <= found <= 360

    def test_defect_waits_for_the_longest_pause(self, caplog: pytest.LogCaptureFixture) -> None:
        (found,) = pauses([ZeroDivisionError()], 1)

        assert 48 <= found <= 72
        assert [record.getMessage() for record in caplog.records] == ["cannot read pods: internal error (bug)"]

    def test_sync_that_lasted_begins_the_back_off_again(self) -> None:
        found = pauses([RequestFailed("refused")], 4, PollDelays(long_seconds=0.0))

        assert all(0.8 <= f <= 1.2 for f in found), found


class TestLog:
    """One line when it fails, one when it works again."""

    def test_failure_and_recovery_are_logged_once(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO)
        pauses([RequestFailed("http://api: refused"), RequestFailed("http://api: refused"), None], 4)

        assert [record.getMessage() for record in caplog.records] == [
            "cannot read pods, new containers are labeled with ids instead of names: http://api: refused",
            "pod lookup recovered; container names restored",
        ]

    def test_forbidden_names_the_permission_to_grant(self, caplog: pytest.LogCaptureFixture) -> None:
        pauses([RequestFailed("http://api: 403 Forbidden", 403)], 1)

        assert (
            caplog.records[0].getMessage().endswith("; grant list and watch of pods to the exporter's service account")
        )


class TestStop:
    """The end of the exporter."""

    def test_request_in_flight_is_cancelled_without_a_warning(self, caplog: pytest.LogCaptureFixture) -> None:
        begun, cancelled = threading.Event(), threading.Event()

        class Hanging:
            permission = ""

            def __init__(self) -> None:
                self.endpoint = CancelledEndpoint("http://127.0.0.1:1")

            def sync(self, _stopping: threading.Event, _synced: Callable[[], None]) -> None:
                begun.set()
                cancelled.wait(PATIENCE_SECONDS)
                raise RequestFailed("request cancelled")

        class CancelledEndpoint(Endpoint):
            def cancel(self) -> None:
                cancelled.set()

        poller = OrchestratorPoller(Hanging(), PodCache(), lambda _: None)
        poller.start()
        begun.wait(PATIENCE_SECONDS)
        poller.stop()
        poller.join(PATIENCE_SECONDS)

        assert not poller._thread.is_alive()
        assert caplog.records == []
