"""Who makes a request, by its bearer token, and whether it comes too often."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from typing import Final

from exporter.config.web_file import RateLimit
from exporter.output.web.rate_limit import TokenBucket
from exporter.service.tokens import LOCAL_READER, TokenFile, TokenReader

log = logging.getLogger(__name__)

_BUCKETS_MAX: Final = 1024


class BearerCheck:
    """tokens: None: every client is LOCAL_READER. limit: of requests, for each token, and for each address without one."""

    def __init__(self, tokens: TokenFile | None, limit: RateLimit) -> None:
        self._tokens = tokens
        self._limit = limit
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()
        self._problem = ""

    def reader(self, authorization: str) -> TokenReader | None:
        """authorization: the header of that name. None without a known token."""
        if self._tokens is None:
            return LOCAL_READER
        scheme, _, token = authorization.partition(" ")
        tokens = self._tokens.tokens()
        if self._tokens.problem != self._problem:
            self._problem = self._tokens.problem
            if self._problem:
                log.error("cannot load the changed tokens, keeping the last ones: %s", self._problem)
        return tokens.reader(token.strip()) if scheme.lower() == "bearer" else None

    def is_within_limit(self, reader: TokenReader | None, address: str) -> bool:
        """Counts a request."""
        key = f"token {reader.name}" if reader else f"address {address}"
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = TokenBucket(self._limit, time.monotonic())
            if len(self._buckets) > _BUCKETS_MAX:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(key)
        return bucket.take(time.monotonic())
