"""otlp.response: the result of a request, from its response or failure."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.http_client.errors import ConnectionRefused, DeadlineExceeded, HttpFailure, TlsFailed
from exporter.output.otlp import json_body, protobuf_body, response
from exporter.output.otlp.response import PushOutcome, PushResult, retry_after_seconds
from exporter.output.otlp.transport import HttpResponse

JSON, PROTOBUF = "application/json", "application/x-protobuf"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
THREE_REJECTED = b"\x0a\x0b\x08\x03\x12\x07too old"
"""ExportMetricsServiceResponse, by hand: field 1 of 11 bytes, in it field 1 = 3 and field 2 = 7 characters."""


def of_json(status: int, content_type: str = JSON, body: bytes = b"", **headers: str) -> PushResult:
    """The result of a response to a push in JSON. headers: names with underscores for dashes."""
    by_name = {name.replace("_", "-"): value for name, value in headers.items()}
    if content_type:
        by_name["content-type"] = content_type
    return response.from_response(HttpResponse(status, by_name, body), JSON, json_body.rejected, NOW)


def of_protobuf(status: int, content_type: str = PROTOBUF, body: bytes = b"") -> PushResult:
    """The result of a response to a push in protobuf."""
    answer = HttpResponse(status, {"content-type": content_type}, body)
    return response.from_response(answer, PROTOBUF, protobuf_body.rejected, NOW)


class TestDelivered:
    """Responses that mean delivery."""

    @pytest.mark.parametrize("status", [200, 201, 202, 204])
    @pytest.mark.parametrize(
        ("content_type", "body"),
        [
            (JSON, b"{}"),
            (JSON, b'{"partialSuccess":{}}'),
            ("Application/JSON; charset=utf-8", b"{}"),
            ("", b"{}"),
            (JSON, b""),
            ("text/html", b""),
            ("", b""),
        ],
    )
    def test_success_with_a_response_message_or_no_body_is_delivered(
        self, status: int, content_type: str, body: bytes
    ) -> None:
        """The specification requires a response message, but several receivers send none."""
        assert of_json(status, content_type, body) == PushResult(PushOutcome.DELIVERED)

    @pytest.mark.parametrize("body", [b"", b"\x0a\x00"], ids=["empty message", "empty partial success"])
    def test_empty_protobuf_message_is_delivered(self, body: bytes) -> None:
        """It has no bytes."""
        assert of_protobuf(200, PROTOBUF, body) == PushResult(PushOutcome.DELIVERED)

    def test_message_without_rejected_points_is_a_warning(self) -> None:
        """By the specification."""
        body = b'{"partialSuccess":{"rejectedDataPoints":"0","errorMessage":"use fewer series"}}'

        assert of_json(200, JSON, body) == PushResult(PushOutcome.DELIVERED, "use fewer series")

    def test_negative_count_rejects_nothing(self) -> None:
        """It is an int64."""
        body = b'{"partialSuccess":{"rejectedDataPoints":"-5"}}'

        assert of_json(200, JSON, body) == PushResult(PushOutcome.DELIVERED)


class TestPartial:
    """Partial success."""

    @pytest.mark.parametrize("count", [b'"3"', b"3"], ids=["string", "number"])
    def test_rejected_points_are_counted(self, count: bytes) -> None:
        """The receiver's message is kept for the log."""
        body = b'{"partialSuccess":{"rejectedDataPoints":' + count + b',"errorMessage":"too old"}}'

        assert of_json(200, JSON, body) == PushResult(PushOutcome.PARTIAL, "rejected: 3: too old", 3)

    def test_rejected_points_are_counted_in_protobuf(self) -> None:
        assert of_protobuf(200, PROTOBUF, THREE_REJECTED) == PushResult(PushOutcome.PARTIAL, "rejected: 3: too old", 3)


class TestNotOtlp:
    """A 200 that is not an OTLP response."""

    @pytest.mark.parametrize("status", [200, 202])
    @pytest.mark.parametrize(
        ("content_type", "body", "detail"),
        [
            ("text/html", b"<html>Sign in</html>", "with text/html instead of application/json"),
            ("text/html", b"{}", "with text/html instead of application/json"),
            ("text/plain; charset=utf-8", b"ok", "with text/plain instead of application/json"),
            (PROTOBUF, b"\x0a\x00", "with application/x-protobuf instead of application/json"),
            (JSON, b"{", "with a body that is not an OTLP response: {"),
            (JSON, b"[]", "with a body that is not an OTLP response: []"),
            (JSON, b"[" * 60_000, "with a body that is not an OTLP response: " + "[" * 200),
            (JSON, b'"ok"', 'with a body that is not an OTLP response: "ok"'),
            ("", b"OK", "with a body that is not an OTLP response: OK"),
        ],
        ids=["html", "html with json", "text", "protobuf", "broken", "list", "deep", "string", "no type"],
    )
    def test_success_of_another_service_is_not_otlp(
        self, status: int, content_type: str, body: bytes, detail: str
    ) -> None:
        """A proxy's page, a login form, a health check."""
        assert of_json(status, content_type, body) == PushResult(PushOutcome.NOT_OTLP, f"status {status} {detail}")

    @pytest.mark.parametrize(
        ("content_type", "body"),
        [(JSON, b"<html>"), ("text/html", b"<html>"), (PROTOBUF, b"<html>"), (PROTOBUF, b"\x0a\x03\x12\x01\xff")],
        ids=["html called json", "html", "html called protobuf", "no UTF-8"],
    )
    def test_body_that_is_not_protobuf_is_not_otlp(self, content_type: str, body: bytes) -> None:
        """The request was in protobuf."""
        assert of_protobuf(200, content_type, body).outcome is PushOutcome.NOT_OTLP

    def test_json_of_a_receiver_that_was_sent_protobuf_is_a_delivery(self) -> None:
        """Some answer everything in JSON; to send the same deltas again would count twice."""
        body = b'{"partialSuccess": {"rejectedDataPoints": "3", "errorMessage": "too old"}}'

        assert of_protobuf(200, JSON, b"{}") == PushResult(PushOutcome.DELIVERED)
        assert of_protobuf(200, JSON, body) == PushResult(PushOutcome.PARTIAL, "rejected: 3: too old", 3)


class TestRefused:
    """What must not be sent again."""

    @pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 307, 308])
    def test_redirect_is_not_followed_and_no_delivery(self, status: int) -> None:
        """The detail names the location; points and token may not be meant for that server."""
        assert of_json(status, "text/html", b"<html>", location="https://b/v1/metrics") == PushResult(
            PushOutcome.REDIRECTED, f"status {status} to https://b/v1/metrics"
        )

    def test_redirect_to_nowhere_is_one(self) -> None:
        """Without the header."""
        assert of_json(302) == PushResult(PushOutcome.REDIRECTED, "status 302 to nowhere")

    @pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 408, 413, 415, 422, 500, 501, 505, 599, 100, 999])
    def test_other_statuses_say_no(self, status: int) -> None:
        """500 too: the specification names four that may be retried."""
        assert of_json(status, "text/plain", b"no")[:2] == (PushOutcome.REJECTED, f"status {status}: no")

    @pytest.mark.parametrize(
        ("status", "is_absent"), [(404, True), (405, True), (501, True), (400, False), (500, False)]
    )
    def test_three_statuses_say_that_nothing_there_takes_it(self, status: int, is_absent: bool) -> None:
        """Such as logs that are sent to a receiver of metrics."""
        assert of_json(status).is_unsupported is is_absent

    @pytest.mark.parametrize(
        ("status", "body"),
        [
            (413, b""),
            (400, b"http: request body too large"),
            (400, b'{"code":3,"message":"http: Request Body Too Large"}'),
            (429, b'{"code":8,"message":"grpc: received message larger than max (5000000 vs. 4194304)"}'),
            (400, b"Error, decoded message length too large: found 5 bytes, the limit is: 4 bytes"),
            (400, b"its message size of 5 bytes is larger than the allowed limit of 4 bytes"),
            (500, b"\x08\x08\x12\x29grpc: received message larger than max (5 vs. 4)"),
            (503, b"413 Request Entity Too Large"),
        ],
    )
    def test_receivers_have_several_ways_to_say_too_large(self, status: int, body: bytes) -> None:
        """The same request would be refused again: it is rejected whatever the status, and may be split."""
        found = of_json(status, "", body)

        assert (found.outcome, found.is_too_large) == (PushOutcome.REJECTED, True)

    @pytest.mark.parametrize(
        ("status", "body"),
        [(400, b"no"), (429, b"too many requests"), (400, b"label value too long"), (200, b"payload too large")],
    )
    def test_other_answers_are_not_about_the_size(self, status: int, body: bytes) -> None:
        assert not of_json(status, "", body).is_too_large

    def test_receiver_that_wants_the_same_request_later_does_not_mean_its_size(self) -> None:
        """gRPC's RESOURCE_EXHAUSTED with RetryInfo becomes 429 with Retry-After: the specification has it sent again."""
        found = of_json(429, "", b"message larger than max quota", retry_after="5")

        assert (found.outcome, found.retry_after_seconds) == (PushOutcome.UNAVAILABLE, 5.0)

    def test_retry_after_of_a_refusal_is_nothing_to_go_by(self) -> None:
        """It is no reason to send the same again."""
        assert of_json(400, retry_after="5") == PushResult(PushOutcome.REJECTED, "status 400")


class TestUnavailable:
    """What may be sent again."""

    @pytest.mark.parametrize("status", [429, 502, 503, 504])
    def test_four_statuses_may_pass(self, status: int) -> None:
        """As the specification lists them."""
        found = of_json(status, "text/plain", b"busy")

        assert found == PushResult(PushOutcome.UNAVAILABLE, f"status {status}: busy")

    @pytest.mark.parametrize("status", [429, 502, 503, 504])
    def test_receiver_says_when(self, status: int) -> None:
        """Any of the four may."""
        assert of_json(status, retry_after="5").retry_after_seconds == 5.0

    @pytest.mark.parametrize(
        ("header", "seconds"),
        [
            ("0", 0.0),
            ("120", 120.0),
            ("3600", 3600.0),
            ("3601", 3600.0),
            ("9" * 400, 3600.0),
            ("Thu, 01 Jan 2026 00:02:00 GMT", 120.0),
            ("Thursday, 01-Jan-26 00:02:00 GMT", 120.0),
            ("Thu, 01 Jan 2026 01:02:00 +0100", 120.0),
            ("Fri, 02 Jan 2026 00:00:00 GMT", 3600.0),
            ("Fri, 31 Dec 9999 23:59:59 GMT", 3600.0),
            ("Wed, 31 Dec 2025 23:59:00 GMT", 0.0),
        ],
    )
    def test_seconds_and_dates_are_understood(self, header: str, seconds: float) -> None:
        """A date in the past means now; no receiver silences an exporter for more than an hour."""
        assert retry_after_seconds(header, NOW) == seconds

    @pytest.mark.parametrize(
        "header",
        [
            "",
            "soon",
            "-5",
            "1.5",
            "1e3",
            "٣",
            "120, 60",
            "Thu, 01 Jan 2026 00:02:00",
            "Thu, 01 Jan 99999 00:02:00 GMT",
            "Thu, 01 Jan 2026 00:02:00 +99999999999999999999",
        ],
    )
    def test_garbage_says_nothing(self, header: str) -> None:
        """The exporter's own back-off holds."""
        assert retry_after_seconds(header, NOW) == 0.0

    @given(st.text(max_size=40) | st.from_regex(r"\A[A-Z][a-z]{2}, \d+ [A-Z][a-z]{2} \d+ \d+:\d+:\d+ [+-]?\w*\Z"))
    def test_any_header_gives_a_bounded_time(self, header: str) -> None:
        """Any header gives a number."""
        assert 0.0 <= retry_after_seconds(header, NOW) <= 3600.0


class TestFailure:
    """Requests without a response."""

    @pytest.mark.parametrize(
        ("error", "outcome"),
        [
            (ConnectionRefused("connection refused"), PushOutcome.NO_ANSWER),
            (DeadlineExceeded("no complete response within 10 s"), PushOutcome.TIMED_OUT),
            (TlsFailed("self-signed certificate"), PushOutcome.NOT_TRUSTED),
        ],
    )
    def test_outcome_of_each_failure(self, error: HttpFailure, outcome: PushOutcome) -> None:
        """The detail is the message of the error."""
        assert response.from_failure(error) == PushResult(outcome, str(error))


class TestConsequences:
    """Properties of a result that decide about retries."""

    @pytest.mark.parametrize("outcome", PushOutcome)
    def test_accepted_points_are_not_sent_again(self, outcome: PushOutcome) -> None:
        """Also after a partial success: accepted points would count twice."""
        assert PushResult(outcome).is_accepted == (outcome in {"delivered", "partial"})

    @pytest.mark.parametrize("outcome", PushOutcome)
    def test_only_temporary_failures_are_retried(self, outcome: PushOutcome) -> None:
        """A rejection or an untrusted certificate will not change soon."""
        assert PushResult(outcome).is_retryable == (outcome in {"unavailable", "timed_out", "no_answer"})

    def test_outcomes_are_ordered_from_best_to_worst(self) -> None:
        """The outcome of a push is the worst of its requests."""
        assert [outcome.value for outcome in PushOutcome] == [
            "delivered",
            "partial",
            "rejected",
            "redirected",
            "not_otlp",
            "unavailable",
            "not_trusted",
            "timed_out",
            "no_answer",
            "failed",
        ]


class TestHostileResponses:
    """Text from a receiver is logged."""

    def test_long_body_is_cut(self) -> None:
        """To 200 characters."""
        assert of_json(400, "text/plain", b"x" * 65_536).detail == "status 400: " + "x" * 200

    def test_body_cannot_forge_a_log_line(self) -> None:
        """Line ends, terminal escapes, and bytes that are not UTF-8."""
        found = of_json(500, "text/plain", b"a\r\nlevel=error\x1b[2J\x00b\xff")

        assert found.detail == "status 500: a  level=error [2J b\ufffd"

    @pytest.mark.parametrize("body", [b"", b" \r\n\x00 "], ids=["none", "blank"])
    def test_blank_body_is_not_quoted(self, body: bytes) -> None:
        """No colon without text behind it."""
        assert of_json(404, "text/plain", body).detail == "status 404"

    def test_location_cannot_forge_a_line(self) -> None:
        """Or fill the log."""
        found = of_json(302, location="http://b/\n\x1b" + "x" * 500)

        assert found.detail == "status 302 to http://b/  " + "x" * 189

    def test_type_cannot_forge_a_line(self) -> None:
        """Or fill the log."""
        found = of_json(200, "text/\x1b" + "x" * 500, b"{}")

        assert found.detail == "status 200 with text/ " + "x" * 194 + " instead of application/json"

    def test_message_of_a_partial_success_cannot_forge_a_line(self) -> None:
        """A lone surrogate must not reach the log's encoder."""
        body = b'{"partialSuccess":{"rejectedDataPoints":1,"errorMessage":"a\\nb\\ud800' + b"x" * 500 + b'"}}'

        assert of_json(200, JSON, body).detail == "rejected: 1: a b " + "x" * 196
