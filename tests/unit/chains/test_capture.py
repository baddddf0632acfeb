"""capture: one that does not end."""

from __future__ import annotations

from exporter.causes import Cause
from exporter.chains.capture import AbandonedCapture, Captures
from exporter.chains.chain import Change
from tests.unit.chains.job import Scene

SECOND = 1_000_000_000


class TestAbandoned:
    """Ten seconds after it began."""

    def test_capture_that_is_open_for_ten_seconds_was_abandoned(self) -> None:
        """Since it was seen first."""
        capture = AbandonedCapture()
        since = []
        for now in (5, 10, 14.75, 15, 16):
            capture.update(Captures(3, 2), round(now * SECOND))
            since.append(capture.since_ns)

        assert since == [0, 0, 0, 5 * SECOND, 5 * SECOND]
        assert capture.detail == "a capture has begun and not ended for more than 10 s"

    def test_captures_that_come_and_go_are_not(self) -> None:
        """At every tick one is open, and it is never the same."""
        capture = AbandonedCapture()
        for tick in range(200):
            capture.update(Captures(tick + 1, tick), tick * SECOND // 4)

        assert capture.since_ns == 0

    def test_it_is_over_when_it_ends_after_all(self) -> None:
        """Late."""
        capture = AbandonedCapture()
        for now, ended in ((0, 2), (20, 2), (21, 3)):
            capture.update(Captures(3, ended), (100 + now) * SECOND)

        assert capture.since_ns == 0

    def test_it_is_a_chain(self) -> None:
        """The job's steps go on; the chain is resolved when it ends."""
        scene = Scene()
        scene.jobs[0].captures = Captures(1, 0)
        scene.go_on(12)
        scene.jobs[0].captures = Captures(1, 1)
        scene.go_on(1)

        assert [(change, chain.cause) for change, chain in scene.transitions] == [
            (Change.OPENED, Cause.GRAPH_ABANDONED),
            (Change.RESOLVED, Cause.GRAPH_ABANDONED),
        ]
