"""clock_reading: the clocks of one machine, and the document of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from exporter.fleet.clock_reading import ClockReading, NodeClock, clock_document, clock_of, clock_reading, node_clock
from exporter.host.kernel_clock import KernelClock
from exporter.text.untrusted import Untrusted

CLOCK = NodeClock(
    ClockReading(1_700_000_000_000_000_000, 5_000, 30),
    ClockReading(1_700_000_000_000_000_900, 5_900, 40),
    KernelClock(is_synchronized=True, max_error_ns=2_000_000),
)


class TestReading:
    def test_closest_of_three_readings_counts(self) -> None:
        """The first and the last thread were preempted between the two clocks."""
        monotonic = iter([100, 900, 1_000, 1_010, 2_000, 2_400])
        of_day = iter([50_500, 51_004, 52_200])

        assert clock_reading(lambda: next(monotonic), lambda: next(of_day)) == ClockReading(51_004, 1_005, 5)

    def test_time_of_day_was_read_within_the_stated_time(self) -> None:
        """The same two clocks, a reading apart."""
        first, second = clock_reading(), clock_reading()

        assert abs(second.difference_ns - first.difference_ns) <= first.within_ns + second.within_ns + 1_000_000

    def test_answer_is_after_the_request(self) -> None:
        found = node_clock()

        assert found.sent.monotonic_ns >= found.received.monotonic_ns


class TestDocument:
    def test_document_is_read_as_it_was_made(self) -> None:
        assert clock_of(json.loads(json.dumps(clock_document(CLOCK)))) == CLOCK

    def test_kernel_may_be_unknown(self) -> None:
        unknown = CLOCK._replace(kernel=KernelClock())

        assert clock_of(json.loads(json.dumps(clock_document(unknown)))) == unknown

    @pytest.mark.parametrize(
        ("part", "value"),
        [
            ("received", None),
            ("sent", {"unix_ns": 1, "monotonic_ns": 2}),
            ("sent", {"unix_ns": -1, "monotonic_ns": 2, "within_ns": 0}),
            ("sent", {"unix_ns": 1.5, "monotonic_ns": 2, "within_ns": 0}),
            ("kernel", {"is_synchronized": "yes", "max_error_ns": 0}),
            ("kernel", {"is_synchronized": True, "max_error_ns": -1}),
        ],
    )
    def test_other_document_is_refused(self, part: str, value: Any) -> None:
        with pytest.raises(Untrusted):
            clock_of({**clock_document(CLOCK), part: value})
