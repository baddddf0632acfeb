"""May one more request come in? A bucket of tokens: so many at once, and one more after each interval."""

from __future__ import annotations

from exporter.config.web_file import RateLimit


class Bucket:
    """Full at first. now: seconds of a clock that never goes back."""

    def __init__(self, limit: RateLimit, now: float) -> None:
        self._limit = limit
        self._tokens = float(limit.burst)
        self._filled_at = now

    def takes(self, now: float) -> bool:
        """Whether there was a token, which is gone then."""
        grown = (now - self._filled_at) / self._limit.interval_seconds
        self._tokens = min(float(self._limit.burst), self._tokens + grown)
        self._filled_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
