"""What becomes of the records of a request."""

from __future__ import annotations

from collections import Counter

import pytest

from exporter.cluster import protobuf_request
from exporter.cluster.decoding import Decoded, Sender, decode_logs, decode_spans, rejection_message
from exporter.cluster.plain_records import PlainSpan
from tests.support.cluster_rows import HOUR, NOON, chain_event, window
from tests.support.otlp_requests import protobuf_logs, window_record

ANY = Sender("fleet", lambda node, namespace: True)


def decoded(*records: dict[str, object], sender: Sender = ANY, now_unix_ns: int = NOON) -> Decoded:
    return decode_logs(protobuf_request.log_records(protobuf_logs(records)), sender, now_unix_ns)


class TestLogs:
    def test_rows_have_sender_and_arrival(self) -> None:
        found = decoded(window_record(NOON))

        assert found.batch == ("fleet", NOON, [window()], [], ())
        assert not found.rejected

    def test_malformed_record_costs_only_itself(self) -> None:
        found = decoded(window_record(NOON), window_record(NOON, **{"gpustall.steps": -1}))

        assert found.batch.windows == [window()]
        assert found.rejected == {"malformed": 1}
        assert found.example == "want a whole number from 0 to 9223372036854775807, not -1"

    def test_other_records_are_rejected_as_unknown(self) -> None:
        other = {"event_name": "k8s.event", "time_unix_ns": NOON, "attributes": {}}

        assert decoded(other, other, window_record(NOON)).rejected == {"unknown": 2}

    @pytest.mark.parametrize("off_hours", [-48, 48])
    def test_clock_that_is_days_off_is_rejected(self, off_hours: int) -> None:
        found = decoded(window_record(NOON), now_unix_ns=NOON + off_hours * HOUR)

        assert found.rejected == {"clock": 1}
        assert found.batch.windows == []

    @pytest.mark.parametrize("off_hours", [-23, 23])
    def test_clock_that_is_hours_off_is_stored_as_it_is(self, off_hours: int) -> None:
        assert decoded(window_record(NOON), now_unix_ns=NOON + off_hours * HOUR).batch.windows == [window()]

    def test_sender_of_one_node_cannot_send_records_of_another(self) -> None:
        of_gpu1 = Sender("gpu1", lambda node, namespace: node == "gpu1")
        found = decoded(window_record(NOON), window_record(NOON, node="gpu2"), sender=of_gpu1)

        assert [one.node for one in found.batch.windows] == ["gpu1"]
        assert found.rejected == {"scope": 1}


class TestSpans:
    def test_malformed_span_costs_only_itself(self) -> None:
        good = PlainSpan({}, "ab", "io", NOON, NOON, {}, [], "")
        found = decode_spans([good, good._replace(trace_id="")], ANY, NOON)

        assert [one.chain_id for one in found.batch.spans] == ["ab"]
        assert found.rejected == {"malformed": 1}


class TestMessage:
    def test_message_has_every_reason_and_an_example(self) -> None:
        assert rejection_message(Counter({"clock": 2, "malformed": 1}), "x is missing") == (
            "2 rejected: its time is more than a day from the time of the store;"
            " 1 rejected: a value is missing or not what it should be (x is missing)"
        )
        assert rejection_message(Counter(), "") == ""


class TestChainEvents:
    def test_events_of_chains_are_rows(self) -> None:
        record = {
            "event_name": "gpustall.chain.opened",
            "time_unix_ns": NOON,
            "attributes": {"gpustall.chain.id": chain_event().chain_id, "node": "gpu1"},
        }
        (event,) = decoded(record).batch.events

        assert (event.chain_id, event.change, event.node) == (chain_event().chain_id, "opened", "gpu1")
