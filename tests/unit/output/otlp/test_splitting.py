"""otlp.splitting: requests that are too large, in a receiver's own words, and what is sent instead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from exporter import catalog
from exporter.output.otlp.response import PushOutcome, PushResult
from exporter.output.otlp.splitting import MAX_REFUSALS, REMEMBERED_SECONDS, Splitter
from tests.support.limited_receiver import COLLECTOR_TOO_LARGE, CONTENT_TOO_LARGE, GATEWAY_TOO_LARGE, unless
from tests.support.pushing import AGAIN_AND_AGAIN, FIRST_OWN_POINTS, Source, points, pushing, snapshot, totals
from tests.support.receiver import Entry, Request, answer

DELIVERED = PushResult(PushOutcome.DELIVERED)
TOO_LARGE = PushResult(PushOutcome.REJECTED, "status 413", is_too_large=True)


@dataclass
class Sizes:
    """A splitter whose receiver takes so many items at most, and the sizes of its requests."""

    items_max: int
    now: float = 0.0
    sizes: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        """A full request has 1,000 items."""
        self.splitter = Splitter(1000, lambda: self.now)

    def send(self, part: Sequence[int]) -> PushResult:
        """The answer of the receiver."""
        self.sizes.append(len(part))
        return DELIVERED if len(part) <= self.items_max else TOO_LARGE

    def push(self, count: int) -> list[int]:
        """The sizes of the requests of one push of so many items."""
        self.sizes = []
        limit = self.splitter.begin_push()
        for begin in range(0, count, limit):
            for _ in self.splitter.results(range(begin, min(begin + limit, count)), self.send):
                pass
        return self.sizes


def larger_than(count: int, refusal: Entry = CONTENT_TOO_LARGE) -> Entry:
    """Refuses requests of more points."""
    return unless(lambda request: len(points(request)) > count, refusal)


def has_value(value: int, request: Request) -> bool:
    """Whether a point of the workload has this value."""
    return value in totals([request])[0]


class TestMetrics:
    """A running exporter and a receiver with a limit."""

    @pytest.mark.parametrize(
        "refusal", [CONTENT_TOO_LARGE, COLLECTOR_TOO_LARGE, GATEWAY_TOO_LARGE], ids=["413", "400", "429"]
    )
    def test_halves_of_a_request_that_is_too_large_are_delivered(self, refusal: Entry) -> None:
        """384 of the workload, 16 of the exporter: 400 and 200 are refused, once each, 100 are not. Each point arrives once."""
        count = 400 - FIRST_OWN_POINTS
        with pushing([larger_than(100, refusal)], lambda: snapshot(*range(count))) as (found, push):
            push.awaited("delivered")
            requests = found.requests
            accepted = [request for request in requests if len(points(request)) <= 100]

            assert [len(points(request)) for request in requests] == [400, 200, 100, 100, 100, 100]
            assert sorted(value for values in totals(accepted) for value in values) == list(range(count))
            assert (push.value(catalog.own.PUSHED_POINTS), push.value(catalog.own.REJECTED_POINTS)) == (400, 0)
            assert push.pushes() == {"delivered": 1}

    def test_size_that_was_accepted_is_used_by_the_next_push(self) -> None:
        """A receiver's limit costs refusals once, not with every push."""
        with pushing([larger_than(100)], lambda: snapshot(*range(384)), AGAIN_AND_AGAIN) as (found, push):
            push.awaited("delivered", 2)
            later = found.requests[6:10]

        assert [len(points(request)) for request in later] == [100, 100, 100, 100]

    def test_single_point_that_is_too_large_is_dropped_and_counted(self) -> None:
        """Value 7 is; the others arrive."""
        script = [unless(lambda request: has_value(7, request))]
        with pushing(script, lambda: snapshot(*range(100))) as (found, push):
            push.awaited("partial")
            accepted = [values for values in totals(found.requests) if 7 not in values]

            assert sorted(value for values in accepted for value in values) == [*range(7), *range(8, 100)]
            assert push.value(catalog.own.REJECTED_POINTS) == 1
            assert push.value(catalog.own.PUSHED_POINTS) == 99 + FIRST_OWN_POINTS

    def test_delta_that_is_too_large_alone_is_not_sent_again(self) -> None:
        """It would be refused with every push. 5 is, and what comes after it, 2, is not."""
        script = [unless(lambda request: has_value(5, request))]
        with pushing(script, Source(5, 7), temporality="delta") as (found, push):
            push.awaited("partial")
            already = len(found.requests)
            push.stop()

            assert [values for values in totals(found.requests[already:]) if values] == [[2]]

    def test_receiver_that_refuses_every_size_gets_a_bounded_number_of_requests(self) -> None:
        """As a proxy with a wrong setting does; nothing counts as delivered."""
        with pushing([CONTENT_TOO_LARGE], lambda: snapshot(*range(384))) as (_, push):
            push.awaited("rejected")

            assert push.value(catalog.own.PUSH_ATTEMPTS) <= 3 * MAX_REFUSALS
            assert push.value(catalog.own.PUSHED_POINTS) == 0

    def test_receiver_that_fails_in_the_middle_is_not_sent_the_rest(self) -> None:
        """Halves of a push wait for the same receiver."""
        script = [CONTENT_TOO_LARGE, answer(), answer(503, headers={"Retry-After": "3600"})]
        with pushing(script, lambda: snapshot(*range(384))) as (found, push):
            push.awaited("unavailable")

            assert [len(points(request)) for request in found.requests] == [400, 200, 200]
            assert push.value(catalog.own.PUSHED_POINTS) == 200


class TestSizes:
    """Sizes of requests, by hand."""

    def test_parts_are_sent_in_the_order_of_their_items(self) -> None:
        """So that the rest is known when one fails; a size that was refused is not tried again in this push."""
        sizes = Sizes(300)
        parts = [list(part) for part, _ in sizes.splitter.results(range(1000), sizes.send)]

        assert [item for part in parts for item in part] == list(range(1000))
        assert sizes.sizes == [1000, 500, 250, 250, 250, 250]

    def test_limit_is_tried_out_again_after_an_hour(self) -> None:
        """It may have been raised."""
        sizes = Sizes(500)
        first, second = sizes.push(1000), sizes.push(1000)
        sizes.items_max, sizes.now = 1000, REMEMBERED_SECONDS
        third = sizes.push(1000)

        assert (first, second, third) == ([1000, 500, 500], [500, 500], [1000])

    def test_smaller_points_elsewhere_do_not_raise_the_size(self) -> None:
        """A whole request that was accepted beside a split one says nothing about the others."""
        sizes = Sizes(500)
        list(sizes.splitter.results(range(10), sizes.send))
        list(sizes.splitter.results(range(1000), sizes.send))

        assert sizes.splitter.begin_push() == 500

    def test_receiver_that_refuses_every_size_is_not_tried_again_for_an_hour(self) -> None:
        """Then once more."""
        sizes = Sizes(0)
        first = len(sizes.push(1000))
        second = sizes.push(1000)
        sizes.now = REMEMBERED_SECONDS
        third = len(sizes.push(1000))

        assert (first <= 3 * MAX_REFUSALS, second, third) == (True, [1000], first)

    @pytest.mark.parametrize(("count", "outcome"), [(1, PushOutcome.REJECTED), (2, PushOutcome.PARTIAL)])
    def test_one_item_that_is_too_large_counts_as_rejected(self, count: int, outcome: PushOutcome) -> None:
        """So that it is not sent again; a request that had others is accepted without it."""
        sizes = Sizes(0)
        (part, result), *_ = sizes.splitter.results(range(count), sizes.send)

        assert (part, result) == (range(1), PushResult(outcome, "too large, dropped: status 413", 1))

    def test_other_refusals_are_not_split(self) -> None:
        refused = PushResult(PushOutcome.REJECTED, "status 400")
        results = list(Splitter(1000).results(range(9), lambda _: refused))

        assert results == [(range(9), refused)]
