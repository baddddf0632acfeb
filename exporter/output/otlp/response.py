"""The result of a request, from its response or failure: whether it was delivered, and whether to retry. Pure.

Source: the OTLP specification, OTLP/HTTP response: success is a 200 with a response message; four statuses may be retried, all
others and a partial success must not be. Parts of a request that was too large are other requests.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from exporter.http_client.errors import DeadlineExceeded, HttpFailure, TlsFailed
from exporter.output.otlp import json_body
from exporter.output.otlp.transport import HttpResponse

MAX_RETRY_AFTER_SECONDS = 3600.0  # a receiver cannot silence an exporter for longer with one response
_MAX_CHARACTERS = 200
_RETRYABLE_STATUSES = {429, 502, 503, 504}
_UNSUPPORTED_STATUSES = {404, 405, 501}
_CONTENT_TOO_LARGE = 413
_TOO_LARGE = (
    "request body too large",  # Go's MaxBytesReader; a Collector answers 400 with it
    "message larger than max",  # gRPC's RESOURCE_EXHAUSTED, which gateways pass on as 429
    "message length too large",  # tonic's OUT_OF_RANGE, which gateways pass on as 400
    "larger than the allowed limit",  # Mimir
    "entity too large",
    "payload too large",
    "content too large",
)
"""How receivers with another status than 413 say that a request is too large, in lower case."""


class PushOutcome(enum.StrEnum):
    """How a push ended, from best to worst."""

    DELIVERED = "delivered"
    PARTIAL = "partial"  # accepted without the points that the receiver rejected
    REJECTED = "rejected"  # an error status that may not be retried
    REDIRECTED = "redirected"  # not followed
    NOT_OTLP = "not_otlp"  # a 200 without a response message: a proxy's page, a login form
    UNAVAILABLE = "unavailable"  # 429, 502, 503, 504
    NOT_TRUSTED = "not_trusted"  # the TLS handshake failed
    TIMED_OUT = "timed_out"
    NO_ANSWER = "no_answer"  # no connection, or it broke
    FAILED = "failed"  # a internal error (bug)


class PushResult(NamedTuple):
    """The result of one request. detail: for the log. rejected: points, log records or spans.

    retry_after_seconds: of the header Retry-After, else 0. is_unsupported: the receiver has no endpoint for this signal.
    is_too_large: rejected for its size, so a smaller request may be accepted.
    """

    outcome: PushOutcome
    detail: str = ""
    rejected: int = 0
    retry_after_seconds: float = 0.0
    is_unsupported: bool = False
    is_too_large: bool = False

    @property
    def outcome_index(self) -> int:
        """A larger index is a worse outcome."""
        return list(PushOutcome).index(self.outcome)

    @property
    def is_accepted(self) -> bool:
        """Whether the receiver has the points: sent again, they would count twice."""
        return self.outcome in (PushOutcome.DELIVERED, PushOutcome.PARTIAL)

    @property
    def is_retryable(self) -> bool:
        """Whether the same request may succeed soon."""
        return self.outcome in (PushOutcome.UNAVAILABLE, PushOutcome.TIMED_OUT, PushOutcome.NO_ANSWER)


def from_response(
    response: HttpResponse, content_type: str, rejected: Callable[[bytes], tuple[int, str]], now: datetime | None = None
) -> PushResult:
    """content_type: of a response message. rejected: reads one; see retry.Codec."""
    status = response.status
    if 300 <= status < 400:
        return PushResult(
            PushOutcome.REDIRECTED, f"status {status} to {_shown(response.headers.get('location', 'nowhere'))}"
        )
    if _is_too_large(response):
        return PushResult(PushOutcome.REJECTED, f"status {status}{_quoted(response.body)}", is_too_large=True)
    if status in _RETRYABLE_STATUSES:
        seconds = retry_after_seconds(response.headers.get("retry-after", ""), now or datetime.now(UTC))
        return PushResult(PushOutcome.UNAVAILABLE, f"status {status}{_quoted(response.body)}", 0, seconds)
    if not 200 <= status < 300:
        is_unsupported = status in _UNSUPPORTED_STATUSES
        return PushResult(
            PushOutcome.REJECTED, f"status {status}{_quoted(response.body)}", is_unsupported=is_unsupported
        )
    if not response.body:
        return PushResult(PushOutcome.DELIVERED)  # protobuf's empty message; several receivers send no JSON either
    actual_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if actual_type == json_body.CONTENT_TYPE:
        rejected = json_body.rejected  # some receivers answer every request in JSON
    elif actual_type not in ("", content_type):
        return PushResult(PushOutcome.NOT_OTLP, f"status {status} with {_shown(actual_type)} instead of {content_type}")
    try:
        count, message = rejected(response.body)
    except ValueError:
        return PushResult(
            PushOutcome.NOT_OTLP, f"status {status} with a body that is not an OTLP response{_quoted(response.body)}"
        )
    if count > 0:
        return PushResult(PushOutcome.PARTIAL, f"rejected: {count}: {_shown(message)}", count)
    return PushResult(PushOutcome.DELIVERED, _shown(message))


def from_failure(error: HttpFailure) -> PushResult:
    """The result of a request without a response."""
    if isinstance(error, DeadlineExceeded):
        return PushResult(PushOutcome.TIMED_OUT, str(error))
    return PushResult(PushOutcome.NOT_TRUSTED if isinstance(error, TlsFailed) else PushOutcome.NO_ANSWER, str(error))


def retry_after_seconds(header: str, now: datetime) -> float:
    """The header Retry-After, `120` or an HTTP date; 0 for anything else."""
    if header.isascii() and header.isdigit():
        return min(float(header), MAX_RETRY_AFTER_SECONDS)
    try:
        seconds = (parsedate_to_datetime(header) - now).total_seconds()
    except (OverflowError, TypeError, ValueError):
        return 0.0
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_SECONDS)


def _is_too_large(response: HttpResponse) -> bool:
    """By the status, or by the message of an error; not if the same request may be sent again later."""
    if response.status == _CONTENT_TOO_LARGE:
        return True
    if response.status < 400 or "retry-after" in response.headers:
        return False
    text = response.body.decode("utf-8", "replace").lower()
    return any(phrase in text for phrase in _TOO_LARGE)


def _shown(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text[:_MAX_CHARACTERS]).strip()


def _quoted(body: bytes) -> str:
    text = _shown(body.decode("utf-8", "replace"))
    return f": {text}" if text else ""
