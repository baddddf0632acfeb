"""The time span of a page."""

from __future__ import annotations

import pytest

from exporter.errors import BadInput
from exporter.serve.pages.span import PageSpan, moment_text
from tests.support.history import NOON, SECOND


class TestSpan:
    def test_without_a_query_it_is_that_of_the_tools(self) -> None:
        assert PageSpan.of({"since": " "}) == ("15m", "")

    def test_links_keep_it(self) -> None:
        span = PageSpan("6h", "14:02")

        assert span.link("chains", "11111111") == "/chains/11111111?since=6h&until=14%3A02"

    def test_hostile_part_of_a_path_stays_one_part(self) -> None:
        assert PageSpan().link("chains", "../x?y").startswith("/chains/..%2Fx%3Fy?")

    def test_end_that_stays_is_not_later(self) -> None:
        """A time in the future is refused."""
        assert PageSpan("6h").fixed(NOON + 1_999_999) == ("6h", "2027-01-15T08:00:00.001Z")
        assert moment_text(NOON + SECOND) == "2027-01-15T08:00:01.000Z"

    def test_endless_text_is_refused(self) -> None:
        with pytest.raises(BadInput):
            PageSpan.of({"until": "1" * 20_000})
