"""What does an answer mean? Tells a delivery from everything that only looks like one, and when to try again. Pure.

Source: the OTLP specification, OTLP/HTTP response: success is a 200 with a response message, four statuses may be retried,
all others must not be, a partial success must not be either.
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

MAX_RETRY_AFTER_SECONDS = 3600.0  # no receiver silences an exporter for longer by one word
_SHOWN_CHARACTERS = 200
_RETRYABLE_STATUSES = {429, 502, 503, 504}
_ABSENT_STATUSES = {404, 405, 501}


class PushOutcome(enum.StrEnum):
    """How a push ended, the best first."""

    DELIVERED = "delivered"
    PARTIAL = "partial"  # taken, but for what the receiver counts
    REJECTED = "rejected"  # a status that says no
    REDIRECTED = "redirected"  # elsewhere; not followed
    NOT_OTLP = "not_otlp"  # a 200 of something else: a proxy's page, a login form
    UNAVAILABLE = "unavailable"  # not now: 429, 502, 503, 504
    NOT_TRUSTED = "not_trusted"  # TLS
    TIMED_OUT = "timed_out"
    NO_ANSWER = "no_answer"  # no connection, or it broke
    FAILED = "failed"  # a defect of ours


class PushResult(NamedTuple):
    """What came of one request. detail: for the log. rejected: points, log records or spans.

    retry_after_seconds: what the receiver asked for, else 0. is_absent: it has nothing at this address that takes them.
    """

    outcome: PushOutcome
    detail: str = ""
    rejected: int = 0
    retry_after_seconds: float = 0.0
    is_absent: bool = False

    @property
    def rank(self) -> int:
        """The larger the worse."""
        return list(PushOutcome).index(self.outcome)

    @property
    def is_taken(self) -> bool:
        """Whether sending the same again would count twice."""
        return self.outcome in (PushOutcome.DELIVERED, PushOutcome.PARTIAL)

    @property
    def may_pass(self) -> bool:
        """Whether the same request may succeed in a moment."""
        return self.outcome in (PushOutcome.UNAVAILABLE, PushOutcome.TIMED_OUT, PushOutcome.NO_ANSWER)


def of_answer(
    answer: HttpResponse, content_type: str, rejected: Callable[[bytes], tuple[int, str]], now: datetime | None = None
) -> PushResult:
    """content_type: of a response message. rejected: reads one, raising ValueError when it is none."""
    status = answer.status
    if 300 <= status < 400:
        return PushResult(
            PushOutcome.REDIRECTED, f"status {status} to {_shown(answer.headers.get('location', 'nowhere'))}"
        )
    if status in _RETRYABLE_STATUSES:
        seconds = retry_after_seconds(answer.headers.get("retry-after", ""), now or datetime.now(UTC))
        return PushResult(PushOutcome.UNAVAILABLE, f"status {status}{_quoted(answer.body)}", 0, seconds)
    if not 200 <= status < 300:
        is_absent = status in _ABSENT_STATUSES
        return PushResult(PushOutcome.REJECTED, f"status {status}{_quoted(answer.body)}", is_absent=is_absent)
    if not answer.body:
        return PushResult(
            PushOutcome.DELIVERED
        )  # in protobuf the empty message; several receivers send none in JSON either
    answered_type = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if answered_type == json_body.CONTENT_TYPE:
        rejected = json_body.rejected  # some answer everything in JSON
    elif answered_type not in ("", content_type):
        return PushResult(
            PushOutcome.NOT_OTLP, f"status {status} with {_shown(answered_type)} instead of {content_type}"
        )
    try:
        count, message = rejected(answer.body)
    except ValueError:
        return PushResult(
            PushOutcome.NOT_OTLP, f"status {status} with a body that is no response of OTLP{_quoted(answer.body)}"
        )
    if count > 0:
        return PushResult(PushOutcome.PARTIAL, f"rejected: {count}: {_shown(message)}", count)
    return PushResult(PushOutcome.DELIVERED, _shown(message))


def of_no_answer(error: HttpFailure) -> PushResult:
    """A request without an answer."""
    if isinstance(error, DeadlineExceeded):
        return PushResult(PushOutcome.TIMED_OUT, str(error))
    return PushResult(PushOutcome.NOT_TRUSTED if isinstance(error, TlsFailed) else PushOutcome.NO_ANSWER, str(error))


def retry_after_seconds(header: str, now: datetime) -> float:
    """`120`, or a date of HTTP; 0 for anything else."""
    if header.isascii() and header.isdigit():
        return min(float(header), MAX_RETRY_AFTER_SECONDS)
    try:
        seconds = (parsedate_to_datetime(header) - now).total_seconds()
    except (OverflowError, TypeError, ValueError):
        return 0.0
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_SECONDS)


def _shown(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text[:_SHOWN_CHARACTERS]).strip()


def _quoted(body: bytes) -> str:
    text = _shown(body.decode("utf-8", "replace"))
    return f": {text}" if text else ""
