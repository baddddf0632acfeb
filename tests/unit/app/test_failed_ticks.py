"""app.failed_ticks: what is logged of ticks that fail."""

from __future__ import annotations

import logging

import pytest

from exporter.app.failed_ticks import FailedTicks
from exporter.errors import KernelRefused


def fail(ticks: FailedTicks, error: Exception) -> None:
    """One tick that fails."""
    try:
        raise error
    except Exception as caught:
        ticks.failed(caught)


class TestFailedTicks:
    def test_reason_is_logged_once_until_a_tick_succeeds(self, caplog: pytest.LogCaptureFixture) -> None:
        """Three failed ticks, a success, one failed tick."""
        caplog.set_level(logging.INFO)
        ticks = FailedTicks()
        for _ in range(3):
            fail(ticks, KernelRefused("cannot read a map: Operation not permitted", remedy="allow it"))
        ticks.succeeded()
        ticks.succeeded()
        fail(ticks, KernelRefused("cannot read a map: Operation not permitted"))

        assert caplog.messages == [
            "cannot update metrics: cannot read a map: Operation not permitted; allow it; logged once until a tick succeeds",
            "metrics are updated again after 3 failed ticks",
            "cannot update metrics: cannot read a map: Operation not permitted; logged once until a tick succeeds",
        ]

    def test_defect_has_a_traceback_and_a_refusal_has_none(self, caplog: pytest.LogCaptureFixture) -> None:
        ticks = FailedTicks()
        fail(ticks, KernelRefused("no"))
        fail(ticks, ZeroDivisionError("0"))
        fail(ticks, ZeroDivisionError("0"))

        assert [bool(record.exc_info) for record in caplog.records] == [False, True]

    def test_at_most_eight_reasons_are_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        """A message may hold a number that changes."""
        ticks = FailedTicks()
        for number in range(100):
            fail(ticks, KernelRefused(f"row {number}"))

        assert len(caplog.records) == 8
