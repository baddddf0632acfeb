"""A token bucket: a burst of requests, then one in each interval."""

from __future__ import annotations

from exporter.config.web_file import RateLimit


class TokenBucket:
    """Starts full. now: CLOCK_MONOTONIC seconds."""

    def __init__(self, limit: RateLimit, now: float) -> None:
        self._limit = limit
        self._tokens = float(limit.burst)
        self._filled_at = now

    def take(self, now: float) -> bool:
        """Take a token. Returns whether there was one."""
        grown = (now - self._filled_at) / self._limit.interval_seconds
        self._tokens = min(float(self._limit.burst), self._tokens + grown)
        self._filled_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
