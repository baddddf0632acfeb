"""Requests in json: what is read, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from exporter.cluster import json_request
from exporter.cluster.plain_records import TooManyRecords
from exporter.text.untrusted import Untrusted
from tests.support.cluster_rows import NOON
from tests.support.otlp_requests import json_logs, window_attributes, window_record


def request(record: dict[str, Any]) -> bytes:
    return json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}).encode()


class TestRequests:
    def test_record_is_read(self) -> None:
        (record,) = json_request.log_records(json_logs([window_record(NOON)]))

        assert (record.event_name, record.time_unix_ns) == ("gpustall.window", NOON + 10**10)
        assert record.resource == {"host.name": "gpu1"}
        assert record.attributes == window_attributes(NOON)

    @pytest.mark.parametrize(("written", "number"), [("7", 7), (7, 7), ("-7", -7), (str(2**63 - 1), 2**63 - 1)])
    def test_whole_numbers_are_strings_or_numbers(self, written: Any, number: int) -> None:
        (record,) = json_request.log_records(request({"attributes": [{"key": "x", "value": {"intValue": written}}]}))

        assert record.attributes == {"x": number}

    def test_value_without_content_is_none(self) -> None:
        (record,) = json_request.log_records(request({"attributes": [{"key": "x", "value": {}}]}))

        assert record.attributes == {"x": None}

    @pytest.mark.parametrize(
        "raw",
        [
            b"",
            b"hello",
            b"[]",
            b'{"resourceLogs": 7}',
            b'{"resourceLogs": [7]}',
            b'{"resourceLogs": [{"scopeLogs": [{"logRecords": [7]}]}]}',
            b"[" * 100_000,
            request({"timeUnixNano": "x"}),
            request({"timeUnixNano": "9" * 5000}),
            request({"eventName": 7}),
            request({"attributes": [{"key": "x", "value": {"doubleValue": "NaN"}}]}),
            request({"attributes": [{"key": "x", "value": {"boolValue": 7}}]}),
            request({"attributes": [{"key": "x", "value": {"arrayValue": []}}]}),
        ],
    )
    def test_other_documents_are_refused(self, raw: bytes) -> None:
        with pytest.raises(Untrusted):
            list(json_request.log_records(raw))

    def test_too_many_records_are_refused(self) -> None:
        raw = json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [{}] * 4097}]}]}).encode()
        with pytest.raises(TooManyRecords):
            list(json_request.log_records(raw))

    def test_span_is_read(self) -> None:
        span = {
            "traceId": "AB",
            "name": "io",
            "startTimeUnixNano": "1",
            "endTimeUnixNano": "2",
            "events": [{"name": "gpustall.chain.opened", "timeUnixNano": 1}],
            "status": {"message": "slow"},
        }
        raw = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()
        (found,) = json_request.spans(raw)

        assert found == ({}, "ab", "io", 1, 2, {}, [("gpustall.chain.opened", 1, {})], "slow")


class TestAnswers:
    def test_answers_are_those_of_the_protocol(self) -> None:
        assert json.loads(json_request.accepted(0, "", name="rejectedSpans")) == {}
        assert json.loads(json_request.accepted(2, "why", name="rejectedSpans")) == {
            "partialSuccess": {"rejectedSpans": "2", "errorMessage": "why"}
        }
        assert json.loads(json_request.refused(3, "bad")) == {"code": 3, "message": "bad"}
