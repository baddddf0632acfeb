"""How a request ends: the statuses of OTLP over HTTP and of gRPC, and whether the sender tries again.

Source: the OTLP specification. 429 and 503, RESOURCE_EXHAUSTED with RetryInfo and UNAVAILABLE are tried again, others are not.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

from exporter.cluster.errors import QueueFull, StoreUnavailable, Unstorable
from exporter.cluster.plain_records import TooManyRecords
from exporter.text.untrusted import Untrusted


class Code(enum.IntEnum):
    """Codes of gRPC, which google.rpc.Status has in bodies of HTTP as well."""

    OK = 0
    INVALID_ARGUMENT = 3
    NOT_FOUND = 5
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    UNAUTHENTICATED = 16


class RefusedRequest(Exception):
    """The request is not stored. retry_seconds: when the sender tries again, 0 for never."""

    def __init__(self, status: int, code: Code, message: str, retry_seconds: float = 0.0) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.retry_seconds = retry_seconds


class _Answer(NamedTuple):
    status: int
    code: Code
    retry_seconds: float


BUSY_SECONDS: Final = 1.0
UNAVAILABLE_SECONDS: Final = 5.0
_ANSWERS: Final[tuple[tuple[type[Exception], _Answer], ...]] = (
    (QueueFull, _Answer(429, Code.RESOURCE_EXHAUSTED, BUSY_SECONDS)),
    (StoreUnavailable, _Answer(503, Code.UNAVAILABLE, UNAVAILABLE_SECONDS)),
    (TooManyRecords, _Answer(413, Code.INVALID_ARGUMENT, 0.0)),
    (Untrusted, _Answer(400, Code.INVALID_ARGUMENT, 0.0)),
    (Unstorable, _Answer(500, Code.INTERNAL, 0.0)),
)


def refusal_of(error: Exception) -> RefusedRequest:
    """Raises the error itself if it is none of those that a request may cause."""
    for kind, answer in _ANSWERS:
        if isinstance(error, kind):
            return RefusedRequest(answer.status, answer.code, str(error), answer.retry_seconds)
    raise error


def not_authenticated() -> RefusedRequest:
    return RefusedRequest(401, Code.UNAUTHENTICATED, "no known token: send the header `Authorization: Bearer TOKEN`")


def too_often() -> RefusedRequest:
    return RefusedRequest(429, Code.RESOURCE_EXHAUSTED, "too many requests", BUSY_SECONDS)


def too_large(bytes_max: int) -> RefusedRequest:
    return RefusedRequest(413, Code.INVALID_ARGUMENT, f"a request of more than {bytes_max} bytes: send smaller ones")
