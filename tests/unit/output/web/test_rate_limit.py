"""web.rate_limit: a bucket of tokens."""

from __future__ import annotations

from exporter.config.web_file import RateLimit
from exporter.output.web.rate_limit import TokenBucket


class TestBucket:
    """Three at once, one more every 10 s."""

    def test_burst_is_allowed(self) -> None:
        """But no further request."""
        bucket = TokenBucket(RateLimit(10.0, 3), now=0.0)

        assert [bucket.take(0.0) for _ in range(4)] == [True, True, True, False]

    def test_one_request_is_allowed_after_each_interval(self) -> None:
        bucket = TokenBucket(RateLimit(10.0, 3), now=0.0)
        for _ in range(3):
            bucket.take(0.0)

        assert [bucket.take(now) for now in (9.0, 10.5, 11.0, 20.5)] == [False, True, False, True]

    def test_no_more_than_the_burst_is_saved(self) -> None:
        """After a day of silence."""
        bucket = TokenBucket(RateLimit(10.0, 3), now=0.0)

        assert [bucket.take(86_400.0) for _ in range(4)] == [True, True, True, False]
