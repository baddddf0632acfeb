"""Requests in protobuf: what is read, and what is refused."""

from __future__ import annotations

import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse

from exporter.cluster import protobuf_request
from exporter.cluster.plain_records import TooManyRecords
from exporter.text.untrusted import Untrusted
from tests.support.cluster_rows import NOON
from tests.support.otlp_requests import protobuf_logs, window_attributes, window_record


class TestRequests:
    def test_record_is_read(self) -> None:
        (record,) = protobuf_request.log_records(protobuf_logs([window_record(NOON)]))

        assert (record.event_name, record.time_unix_ns) == ("gpustall.window", NOON + 10**10)
        assert record.resource == {"host.name": "gpu1"}
        assert record.attributes == window_attributes(NOON)

    def test_empty_request_has_no_records(self) -> None:
        assert list(protobuf_request.log_records(b"")) == []
        assert list(protobuf_request.spans(b"")) == []

    @pytest.mark.parametrize("raw", [b"hello", b"\xff" * 100, protobuf_logs([window_record(NOON)])[:-1]])
    def test_other_bytes_are_refused(self, raw: bytes) -> None:
        with pytest.raises(Untrusted, match="not an OTLP request in protobuf"):
            list(protobuf_request.log_records(raw))

    def test_too_many_records_are_refused(self) -> None:
        record = {"event_name": "x", "time_unix_ns": 1, "attributes": {}}
        with pytest.raises(TooManyRecords):
            list(protobuf_request.log_records(protobuf_logs([record] * 4097)))

    def test_too_many_values_are_refused(self) -> None:
        with pytest.raises(Untrusted, match="more than 4096 values"):
            list(protobuf_request.log_records(protobuf_logs([window_record(NOON, x=[[1]] * 2100)])))

    def test_deep_values_are_refused(self) -> None:
        nested: list[object] = []
        for _ in range(9):
            nested = [nested]
        with pytest.raises(Untrusted, match="more than 8 levels"):
            list(protobuf_request.log_records(protobuf_logs([window_record(NOON, x=nested)])))


class TestAnswers:
    def test_full_success_is_the_empty_message(self) -> None:
        assert protobuf_request.accepted(0, "") == b""

    def test_partial_success_has_number_and_message(self) -> None:
        partial = ExportLogsServiceResponse.FromString(protobuf_request.accepted(2, "why")).partial_success

        assert (partial.rejected_log_records, partial.error_message) == (2, "why")

    def test_status_says_when_to_try_again(self) -> None:
        status = Status.FromString(protobuf_request.refused(14, "full", 1.5))
        retry = RetryInfo()
        assert status.details[0].Unpack(retry)

        assert (status.code, status.message) == (14, "full")
        assert (retry.retry_delay.seconds, retry.retry_delay.nanos) == (1, 500_000_000)
        assert not Status.FromString(protobuf_request.refused(3, "bad", 0)).details
