"""The tests' own reading of OTLP logs and traces: what keeps all rules is read in full, what breaks any of them is refused."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support import otlp_records
from tests.support.otlp import NotOtlp
from tests.support.otlp_example import START_NS, TIME_NS, Document, again, at, body, drop, put
from tests.support.otlp_mutants import Mutant, becomes, gone
from tests.support.otlp_record_example import LOG, SPAN, SPAN_ID, TRACE_ID, valid_logs, valid_spans
from tests.support.otlp_records import ReceivedEvent, ReceivedLog, ReceivedSpan

RESOURCE = {"service.instance.id": "node-1"}

MUTANTS_OF_LOGS = (
    Mutant("a request is an object with resources", "resourceLogs", lambda document: document.clear()),
    becomes("a request is not empty", "resourceLogs", []),
    gone("records have their resource", "resourceLogs[0].resource"),
    gone("records have their scope", "resourceLogs[0].scopeLogs[0].scope"),
    becomes("a scope has records", "resourceLogs[0].scopeLogs[0].logRecords", []),
    Mutant("a resource stands once", "resourceLogs[2].resource.attributes", again("resourceLogs")),
    Mutant("a scope stands once", "resourceLogs[0].scopeLogs[1].scope", again("resourceLogs[0].scopeLogs")),
    becomes(
        "service.instance.id is missing",
        "resourceLogs[0].resource.attributes",
        [{"key": "a", "value": {"intValue": "1"}}],
    ),
    gone("a record has a time", f"{LOG}.timeUnixNano"),
    gone("a record has a time of its observation", f"{LOG}.observedTimeUnixNano"),
    becomes("a time is not 0", f"{LOG}.timeUnixNano", "0"),
    becomes("a time is text", f"{LOG}.timeUnixNano", START_NS),
    becomes("nothing is observed before it happens", f"{LOG}.timeUnixNano", str(TIME_NS + 1)),
    gone("a record has a severity", f"{LOG}.severityNumber"),
    becomes("a severity is specified", f"{LOG}.severityNumber", 0),
    becomes("a severity is defined", f"{LOG}.severityNumber", 25),
    becomes("a severity is no name", f"{LOG}.severityNumber", "SEVERITY_NUMBER_ERROR"),
    gone("a severity has a text", f"{LOG}.severityText"),
    gone("a record has a body", f"{LOG}.body"),
    becomes("a body is a value", f"{LOG}.body", "text"),
    becomes("a body is text", f"{LOG}.body", {"intValue": "1"}),
    gone("a record has a trace", f"{LOG}.traceId"),
    gone("a record has a span", f"{LOG}.spanId"),
    becomes("a trace id is lowercase", f"{LOG}.traceId", TRACE_ID.upper()),
    becomes("a trace id is no base64", f"{LOG}.traceId", "CvdlGRbNQ92ESOshHIAxnA=="),
    becomes("a span id is not all 0", f"{LOG}.spanId", "0" * 16),
    gone("a record has the name of its event", f"{LOG}.eventName"),
    becomes("an event's name has no capital", f"{LOG}.eventName", "An.event"),
    becomes("flags are no text", f"{LOG}.flags", "1"),
    Mutant("a key stands once", f"{LOG}.attributes[2].key", again(f"{LOG}.attributes")),
    becomes("a key is a name", f"{LOG}.attributes[0].key", "Which one"),
    becomes("a list is not empty of values", f"{LOG}.attributes[1].value.arrayValue.values[0]", {}),
    becomes("there is no other field", f"{LOG}.severity", 17),
)
MUTANTS_OF_SPANS = (
    becomes("a request is not empty", "resourceSpans", []),
    gone("spans have their resource", "resourceSpans[0].resource"),
    becomes("a scope has spans", "resourceSpans[0].scopeSpans[0].spans", []),
    Mutant("a resource stands once", "resourceSpans[2].resource.attributes", again("resourceSpans")),
    Mutant(
        "a span stands once",
        "resourceSpans[1].scopeSpans[0].spans[0].spanId",
        put("resourceSpans[1].scopeSpans[0].spans[0].spanId", SPAN_ID),
    ),
    gone("a span has a trace", f"{SPAN}.traceId"),
    gone("a span has an id", f"{SPAN}.spanId"),
    becomes("a trace id has 32 digits", f"{SPAN}.traceId", SPAN_ID),
    becomes("a span id is not all 0", f"{SPAN}.spanId", "0" * 16),
    becomes("a span has no parent here", f"{SPAN}.parentSpanId", SPAN_ID),
    becomes("an empty parent is none", f"{SPAN}.parentSpanId", ""),
    becomes("a span has no links here", f"{SPAN}.links", [{"traceId": TRACE_ID, "spanId": SPAN_ID}]),
    gone("a span has a name", f"{SPAN}.name"),
    gone("a span has a kind", f"{SPAN}.kind"),
    becomes("a kind is specified", f"{SPAN}.kind", 0),
    becomes("a kind is no name", f"{SPAN}.kind", "SPAN_KIND_INTERNAL"),
    gone("a span has a start", f"{SPAN}.startTimeUnixNano"),
    gone("a span has an end", f"{SPAN}.endTimeUnixNano"),
    becomes("a span does not end before it starts", f"{SPAN}.endTimeUnixNano", str(START_NS - 1)),
    becomes("a status is no name", f"{SPAN}.status.code", "STATUS_CODE_ERROR"),
    becomes("a status is defined", f"{SPAN}.status.code", 3),
    Mutant("only an error has a message", f"{SPAN}.status.message", put(f"{SPAN}.status.code", 1)),
    gone("an event has a time", f"{SPAN}.events[0].timeUnixNano"),
    gone("an event has a name", f"{SPAN}.events[0].name"),
    becomes("an event's name has no capital", f"{SPAN}.events[0].name", "An.event"),
    becomes("an event is not before its span", f"{SPAN}.events[0].timeUnixNano", str(START_NS - 1)),
    becomes("an event is not after its span", f"{SPAN}.events[0].timeUnixNano", str(TIME_NS + 1)),
    becomes("a key of an event is a name", f"{SPAN}.events[0].attributes[0].key", "How"),
    becomes("64 bits are text", f"{SPAN}.attributes[0].value.intValue", 7),
    becomes("there is no other field", f"{SPAN}.duration", 1),
)
KINDS: tuple[tuple[Callable[[], Document], Callable[[bytes], object], tuple[Mutant, ...]], ...] = (
    (valid_logs, otlp_records.read_logs_json, MUTANTS_OF_LOGS),
    (valid_spans, otlp_records.read_spans_json, MUTANTS_OF_SPANS),
)
EVERY_KIND = pytest.mark.parametrize(("valid", "read"), [kind[:2] for kind in KINDS], ids=["logs", "spans"])


def refusal(sent: bytes, read: Callable[[bytes], object]) -> str:
    """The path that the refusal names; "accepted" for none."""
    try:
        read(sent)
    except NotOtlp as refused:
        return refused.path
    return "accepted"


def protobuf(request: Message, document: Document) -> bytes:
    """The same request in binary, made by google.protobuf, to which an id is bytes in base64."""
    for item in _objects(document):
        for key in ("traceId", "spanId"):
            if key in item:
                item[key] = base64.b64encode(bytes.fromhex(item[key])).decode()
    return json_format.ParseDict(document, request).SerializeToString()


def _objects(value: Any) -> Iterator[Document]:
    if isinstance(value, dict):
        yield value
        for item in value.values():
            yield from _objects(item)
    elif isinstance(value, list):
        for item in value:
            yield from _objects(item)


class TestAccepted:
    """A document that keeps the rules."""

    def test_log_record_is_read_in_full(self) -> None:
        """And so is one with nothing but what it must have."""
        first, second = otlp_records.read_logs_json(body(valid_logs()))

        assert first == ReceivedLog(
            resource=RESOURCE,
            scope="the.scope",
            time_unix_ns=START_NS,
            observed_unix_ns=TIME_NS,
            severity=(17, "ERROR"),
            body="Has ümlauts.",
            event_name="an.event",
            attributes={"which": "first", "a.list": ["x"]},
            trace_id=TRACE_ID,
            span_id=SPAN_ID,
        )
        assert (second.body, second.attributes, second.severity) == ("", {}, (9, "INFO"))

    def test_window_belongs_to_no_trace(self) -> None:
        """It is refused with one, and read without."""
        document = valid_logs()
        put(f"{LOG}.eventName", "gpustall.window")(document)
        with_trace = refusal(body(document), otlp_records.read_logs_json)
        for key in ("traceId", "spanId"):
            drop(f"{LOG}.{key}")(document)
        window, _ = otlp_records.read_logs_json(body(document))

        assert with_trace == f"{LOG}.traceId"
        assert (window.event_name, window.trace_id) == ("gpustall.window", "")

    def test_span_is_read_in_full(self) -> None:
        """A status that is empty is none."""
        first, second = otlp_records.read_spans_json(body(valid_spans()))

        assert first == ReceivedSpan(
            resource=RESOURCE,
            scope="the.scope",
            trace_id=TRACE_ID,
            span_id=SPAN_ID,
            name="a_span",
            kind=1,
            start_unix_ns=START_NS,
            end_unix_ns=TIME_NS,
            attributes={"an.int": 7},
            events=(ReceivedEvent(START_NS + 1, "an.event", {"how": "bad"}),),
            status=(2, "What was wrong."),
        )
        assert (second.events, second.status) == ((), (0, ""))

    def test_binary_form_reads_the_same(self) -> None:
        """Logs and spans."""
        logs = protobuf(ExportLogsServiceRequest(), valid_logs())
        spans = protobuf(ExportTraceServiceRequest(), valid_spans())

        assert otlp_records.read_logs_protobuf(logs) == otlp_records.read_logs_json(body(valid_logs()))
        assert otlp_records.read_spans_protobuf(spans) == otlp_records.read_spans_json(body(valid_spans()))

    def test_collector_s_way_of_writing_is_read(self) -> None:
        """64 bits as numbers, and a parent that is empty."""
        document = valid_spans()
        put(f"{SPAN}.startTimeUnixNano", START_NS)(document)
        put(f"{SPAN}.parentSpanId", "")(document)

        assert otlp_records.read_spans_document(document) == otlp_records.read_spans_json(body(valid_spans()))
        assert otlp_records.read_logs_document(valid_logs()) == otlp_records.read_logs_json(body(valid_logs()))


class TestRefused:
    """A document that breaks one rule."""

    @pytest.mark.parametrize("mutant", MUTANTS_OF_LOGS, ids=lambda mutant: mutant.rule)
    def test_logs_that_break_a_rule_are_refused_where_it_is_broken(self, mutant: Mutant) -> None:
        """The path is what a person then reads."""
        document = valid_logs()
        mutant.change(document)

        assert refusal(body(document), otlp_records.read_logs_json) == mutant.at

    @pytest.mark.parametrize("mutant", MUTANTS_OF_SPANS, ids=lambda mutant: mutant.rule)
    def test_spans_that_break_a_rule_are_refused_where_it_is_broken(self, mutant: Mutant) -> None:
        document = valid_spans()
        mutant.change(document)

        assert refusal(body(document), otlp_records.read_spans_json) == mutant.at

    @pytest.mark.parametrize(
        ("request_", "valid", "read"),
        [
            (ExportLogsServiceRequest, valid_logs, otlp_records.read_logs_protobuf),
            (ExportTraceServiceRequest, valid_spans, otlp_records.read_spans_protobuf),
        ],
        ids=["logs", "spans"],
    )
    def test_unknown_field_is_refused(
        self, request_: type[Message], valid: Callable[[], Document], read: Callable[[bytes], object]
    ) -> None:
        """Number 15 of the request, in binary; and what is cut off."""
        sent = protobuf(request_(), valid())

        assert refusal(sent + b"\x7a\x01x", read) == "body"
        assert refusal(sent[:-1], read) == "body"

    @EVERY_KIND
    def test_key_that_stands_twice_is_refused(
        self, valid: Callable[[], Document], read: Callable[[bytes], object]
    ) -> None:
        """A parser would hide it."""
        sent = body(valid())
        key = next(iter(valid()))

        assert refusal(b'{"' + key.encode() + b'": [], ' + sent[1:], read) == key

    def test_rules_are_many_and_each_is_broken_once(self) -> None:
        """A name that stands twice would hide a mutant."""
        for _, _, mutants in KINDS:
            rules = [mutant.rule for mutant in mutants]

            assert len(rules) == len(set(rules))
            assert len(rules) >= 30

    def test_what_is_at_the_path_of_the_examples_is_there(self) -> None:
        """For the tests above change it."""
        assert at(valid_logs(), f"{LOG}.traceId") == at(valid_spans(), f"{SPAN}.traceId") == TRACE_ID
        drop(f"{SPAN}.events[0]")(document := valid_spans())
        assert at(document, f"{SPAN}.events") == []
