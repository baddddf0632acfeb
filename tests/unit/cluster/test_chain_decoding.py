"""Records and spans of chains become rows: those that the exporter itself makes."""

from __future__ import annotations

from typing import Any

import pytest

from exporter.cluster import json_request, protobuf_request
from exporter.cluster.chain_decoding import chain_event_row, chain_span_row
from exporter.cluster.plain_records import PlainRecord, PlainSpan, PlainSpanEvent
from exporter.output.otlp import json_records, protobuf_records
from exporter.output.otlp.chain_records import ChainSpans, log_record
from exporter.output.otlp.points import Origin
from exporter.text.untrusted import Untrusted
from tests.support.cluster_rows import NOON
from tests.support.history import an_event, resolved

ORIGIN = Origin("gpu1", "gpu-stall-exporter")


def plain(**more: Any) -> PlainRecord:
    fields: dict[str, Any] = {"gpustall.chain.id": "ab", **{name.replace("__", "."): one for name, one in more.items()}}
    return PlainRecord({}, "gpustall.chain.opened", NOON, NOON, "", "", fields)


class TestFromTheExporter:
    @pytest.mark.parametrize(
        ("encoder", "decoder"), [(json_records, json_request), (protobuf_records, protobuf_request)]
    )
    def test_event_becomes_its_row(self, encoder: Any, decoder: Any) -> None:
        event = an_event()
        (record,) = decoder.log_records(encoder.encode_logs([log_record(event)], ORIGIN))
        row = chain_event_row(record)

        assert (row.chain_id, row.change, row.cause, row.severity) == (
            event.chain_id,
            "opened",
            event.cause.value,
            event.severity.name.lower(),
        )
        assert event.identity is not None
        assert (row.node, row.rank, row.pid) == (event.identity.node, event.identity.rank, event.tgid)
        assert (row.at_unix_ns, row.observed_unix_ns) == (event.began_unix_ns + event.duration_ns, event.at_unix_ns)
        assert (row.lost_share, row.remedy, row.commands) == (event.lost_share, event.remedy, event.commands)
        assert row.sentence == event.sentence

    @pytest.mark.parametrize(
        ("encoder", "decoder"), [(json_records, json_request), (protobuf_records, protobuf_request)]
    )
    def test_span_becomes_its_row_with_its_changes(self, encoder: Any, decoder: Any) -> None:
        spans = ChainSpans()
        spans.on_chain_event(an_event())
        span = spans.on_chain_event(resolved(an_event(), 60.0))
        assert span is not None
        (record,) = decoder.spans(encoder.encode_spans([span], ORIGIN))
        row = chain_span_row(record)

        assert (row.chain_id, row.cause) == (an_event().chain_id, an_event().cause.value)
        assert (row.began_unix_ns, row.ended_unix_ns) == (span.start_unix_ns, span.end_unix_ns)
        assert row.change_names == ("opened",)
        assert row.change_lost_shares == (an_event().lost_share,)


class TestBadRecords:
    def test_id_of_the_trace_is_the_chains(self) -> None:
        record = PlainRecord({}, "gpustall.chain.opened", NOON, 0, "0af7", "", {})

        assert chain_event_row(record).chain_id == "0af7"
        assert chain_event_row(record).observed_unix_ns == NOON

    @pytest.mark.parametrize(
        "more",
        [
            {"gpustall__chain__id": "not hex"},
            {"gpustall__chain__id": ["a"]},
            {"gpustall__chain__lost_share": "much"},
            {"gpustall__chain__lost_time": float("inf")},
            {"gpustall__chain__commands": "rm"},
            {"gpustall__chain__commands": ["x"] * 65},
            {"gpustall__chain__culprit": 7},
        ],
    )
    def test_bad_value_is_refused(self, more: dict[str, Any]) -> None:
        with pytest.raises(Untrusted):
            chain_event_row(plain(**more))

    @pytest.mark.parametrize("name", ["gpustall.chain.", "gpustall.chain.DROP TABLE", "other"])
    def test_event_of_another_form_is_refused(self, name: str) -> None:
        with pytest.raises(Untrusted):
            chain_event_row(plain()._replace(event_name=name))

    def test_span_with_too_many_changes_is_refused(self) -> None:
        events = [PlainSpanEvent("gpustall.chain.opened", NOON, {})] * 1025
        with pytest.raises(Untrusted):
            chain_span_row(PlainSpan({}, "ab", "", NOON, NOON, {}, events, ""))

    def test_long_text_is_cut(self) -> None:
        assert len(chain_event_row(plain(gpustall__chain__culprit="x" * 10_000)).culprit) == 128
