"""The tests' own reading of OTLP: a document that keeps all rules is read in full, and one that breaks any of them is refused.

A test that leans on a lenient reader proves nothing, so every rule is broken here once.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from tests.support import otlp
from tests.support.otlp import Exemplar, HistogramValue, NotOtlp, Received
from tests.support.otlp_example import (
    ADDED,
    EXEMPLAR,
    EXPLICIT,
    EXPONENTIAL,
    GAUGE,
    SUM,
    Document,
    at,
    body,
    drop,
    put,
    valid,
)
from tests.support.otlp_mutants import BODIES, MUTANTS, Mutant
from tests.support.otlp_schema import below

POINTS = 6  # of the valid document: 2 gauges, 1 sum, 1 histogram of each kind; 1 sum of the other resource
LEAST_MUTANTS = 45


def refusal(sent: bytes, read: Callable[[bytes], object] = otlp.read_json) -> str:
    """The path that the refusal names; "accepted" for none."""
    try:
        read(sent)
    except NotOtlp as refused:
        return refused.path
    return "accepted"


def objects(value: Any, path: str = "") -> Iterator[tuple[str, Document]]:
    """Every object in a document, with its path."""
    if isinstance(value, dict):
        yield path, value
        for key, item in value.items():
            yield from objects(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from objects(item, f"{path}[{index}]")


def keys() -> list[tuple[str, str]]:
    """(path of an object, key in it) of the valid document."""
    return [(path, key) for path, found in objects(valid()) for key in found]


def swept(path: str, key: str, change: Callable[[Document, str], object]) -> str:
    """The path that is refused in the valid document when one key of one object is changed."""
    document = valid()
    change(at(document, path), key)
    return refusal(body(document))


def snake(key: str) -> str:
    """asInt -> as_int."""
    return re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", key)


class TestAccepted:
    """A document that keeps the rules."""

    def test_every_point_is_read_with_its_resource_and_scope(self) -> None:
        """In the order of the document; an integer keeps its last digit, and an attribute its type."""
        resource = {
            "service.instance.id": "node-1",
            "a.bool": True,
            "an.int": -9223372036854775808,
            "a.double": 0.5,
            "a.list": ["x", 1],
            "a.map": {"inner": "y"},
            "some.bytes": b"\x00\xff",
        }
        first, _, added, *_ = points = otlp.read_json(body(valid()))

        assert [point.name for point in points] == [
            "a.gauge",
            "a.gauge",
            "a.sum",
            "a.histogram",
            "an.exponential",
            "a.sum",
        ]
        assert first == Received(
            resource=resource,
            scope="the.scope",
            name="a.gauge",
            unit="By",
            description="Has ümlauts.",
            kind="gauge",
            temporality="",
            is_monotonic=False,
            attributes={},
            start_unix_ns=0,
            time_unix_ns=1_760_000_015_000_000_001,
            value=1.5,
            exemplars=(),
        )
        assert added == Received(
            resource=resource,
            scope="the.scope",
            name="a.sum",
            unit="{call}",
            description="",
            kind="sum",
            temporality="cumulative",
            is_monotonic=True,
            attributes={"which": ""},
            start_unix_ns=1_760_000_000_000_000_000,
            time_unix_ns=1_760_000_015_000_000_001,
            value=9223372036854775807,
            exemplars=(),
        )

    def test_attributes_keep_their_types(self) -> None:
        """True is not 1, and 0.5 no text."""
        attributes = otlp.read_json(body(valid()))[0].resource

        assert [type(value) for value in attributes.values()] == [str, bool, int, float, list, dict, bytes]

    def test_not_a_number_is_a_value_of_a_gauge(self) -> None:
        """Written as text, read as a float."""
        value = otlp.read_json(body(valid()))[1].value

        assert isinstance(value, float)
        assert math.isnan(value)

    def test_second_resource_has_its_own_points(self) -> None:
        """A sum that may fall may be below 0, and what is not written is not true."""
        last = otlp.read_json(body(valid()))[-1]

        assert last.resource == {"service.instance.id": "node-2"}
        assert (last.value, last.is_monotonic) == (-2.5, False)

    def test_explicit_buckets_are_read_by_their_upper_bounds(self) -> None:
        """The last one has none, so infinity; the exemplar's ids are as they were sent."""
        point = otlp.read_json(body(valid()))[3]

        assert (point.kind, point.temporality) == ("histogram", "delta")
        assert point.value == HistogramValue(6, 7.25, None, 0, {0.5: 1, 1.0: 2, 2.0: 0, math.inf: 3})
        assert point.exemplars == (
            Exemplar(
                1_760_000_015_000_000_000,
                0.75,
                "0af7651916cd43dd8448eb211c80319c",
                "b7ad6b7169203331",
                {"chain": "storage"},
            ),
        )

    def test_exponential_buckets_are_read_by_index(self) -> None:
        """Offset -1 is the index of the first count; index 1 has none and is left out."""
        point = otlp.read_json(body(valid()))[4]

        assert (point.kind, point.temporality) == ("exponential", "cumulative")
        assert point.value == HistogramValue(11, 9.75, 3, 1, {-1: 2, 0: 3, 2: 5})

    def test_histogram_without_buckets_has_count_and_sum(self) -> None:
        """The data model allows it."""
        document = valid()
        for change in (drop(f"{EXPLICIT}.bucketCounts"), drop(f"{EXPLICIT}.explicitBounds")):
            change(document)

        assert otlp.read_json(body(document))[3].value == HistogramValue(6, 7.25, None, 0, {})

    @pytest.mark.parametrize("text", [b'"Infinity"', b'"-Infinity"', b"1e3", b"-0", b"12"])
    def test_double_is_a_number_or_a_word(self, text: bytes) -> None:
        """As the JSON mapping of proto3 writes it."""
        read = otlp.read_json(body(valid()).replace(b"1.5", text, 1))

        assert read[0].value == float(text.strip(b'"'))

    def test_other_parser_accepts_it_too(self) -> None:
        """google.protobuf's, strict about names and ranges."""
        assert sum(1 for path, _ in objects(valid()) if re.search(r"dataPoints\[\d+\]$", path)) == POINTS
        assert len(protobuf().resource_metrics) == 2


def protobuf(document: Document | None = None) -> ExportMetricsServiceRequest:
    """The same request as a message, made by google.protobuf, to which an id is bytes in base64."""
    document = document or valid()
    for key in ("traceId", "spanId"):
        put(f"{EXEMPLAR}.{key}", base64.b64encode(bytes.fromhex(at(document, f"{EXEMPLAR}.{key}"))).decode())(document)
    request = ExportMetricsServiceRequest()
    json_format.ParseDict(document, request)
    return request


class TestProtobuf:
    """The binary form of the same request."""

    def test_it_reads_the_same_as_json(self) -> None:
        """Every field of every point, NaN included."""
        in_json, in_protobuf = otlp.read_json(body(valid())), otlp.read_protobuf(protobuf().SerializeToString())

        assert [repr(point) for point in in_protobuf] == [repr(point) for point in in_json]
        assert in_protobuf[2:] == in_json[2:]

    @pytest.mark.parametrize(
        ("extra", "path"),
        [
            (b"\x7a\x01x", "body"),
            (b"\x0a\x03\x7a\x01x", "resourceMetrics[2]"),
            (b"\x0a\x05\x0a\x03\x7a\x01x", "resourceMetrics[2].resource"),
            (b"\x0a\x00", "resourceMetrics[2].resource"),
            (b"\x0a\x7f", "body"),
        ],
        ids=[
            "field 15 of the request",
            "field 15 of metrics",
            "field 15 of a resource",
            "no resource",
            "the end is missing",
        ],
    )
    def test_bytes_that_are_no_request_are_refused(self, extra: bytes, path: str) -> None:
        """A field that the .proto files lack has no name, so its message is named."""
        assert refusal(protobuf().SerializeToString() + extra, otlp.read_protobuf) == path

    @pytest.mark.parametrize(
        ("change", "path"),
        [
            (lambda request: _metric(request, 1).sum.ClearField("aggregation_temporality"), f"{SUM}.aggregationTemporality"),
            (lambda request: setattr(_metric(request, 1).sum, "aggregation_temporality", 7), f"{SUM}.aggregationTemporality"),
            (lambda request: setattr(_metric(request, 1).sum.data_points[0], "as_int", -1), f"{ADDED}.asInt"),
            (lambda request: _metric(request, 1).sum.data_points[0].ClearField("as_int"), ADDED),
            (lambda request: setattr(_metric(request, 2).histogram.data_points[0], "count", 7), f"{EXPLICIT}.count"),
            (lambda request: setattr(_exemplar(request), "trace_id", b"\1" * 15), f"{EXEMPLAR}.traceId"),
            (lambda request: setattr(_exemplar(request), "span_id", bytes(8)), f"{EXEMPLAR}.spanId"),
            (lambda request: request.ClearField("resource_metrics"), "resourceMetrics"),
        ],
        ids=[
            "a temporality is specified",
            "a temporality is defined",
            "a sum that only grows is not below 0",
            "a point has a value",
            "counts add up",
            "a trace id has 16 bytes",
            "a span id is not all 0",
            "a request is not empty",
        ],
    )  # fmt: skip
    def test_rules_are_the_same(self, change: Callable[[ExportMetricsServiceRequest], object], path: str) -> None:
        """With the names that JSON has."""
        request = protobuf()
        change(request)

        assert refusal(request.SerializeToString(), otlp.read_protobuf) == path


def _metric(request: ExportMetricsServiceRequest, index: int) -> Any:
    return request.resource_metrics[0].scope_metrics[0].metrics[index]


def _exemplar(request: ExportMetricsServiceRequest) -> Any:
    return _metric(request, 2).histogram.data_points[0].exemplars[0]


class TestMutants:
    """A document that breaks one rule."""

    @pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.rule)
    def test_broken_rule_is_refused_where_it_is_broken(self, mutant: Mutant) -> None:
        """The path is what a person then reads."""
        document = valid()
        mutant.change(document)

        assert refusal(body(document)) == mutant.at

    @pytest.mark.parametrize(("path", "change"), BODIES.values(), ids=BODIES)
    def test_bytes_that_break_a_rule_are_refused(self, path: str, change: Callable[[bytes], bytes]) -> None:
        """What a parser would hide."""
        written = body(valid())

        assert change(written) != written
        assert refusal(change(written)) == path

    def test_rules_are_many_and_each_is_broken_once(self) -> None:
        """A name that stands twice would hide a mutant."""
        rules = [mutant.rule for mutant in MUTANTS] + list(BODIES)

        assert len(rules) == len(set(rules))
        assert len(rules) >= LEAST_MUTANTS

    def test_message_begins_with_the_path(self) -> None:
        """Then comes the reason."""
        document = valid()
        put(f"{ADDED}.asInt", 12)(document)

        with pytest.raises(NotOtlp, match=rf"^{re.escape(ADDED)}\.asInt: 12 is no integer in a string$"):
            otlp.read_json(body(document))


class TestSweep:
    """Each key of the document in turn."""

    def test_null_is_refused_everywhere(self) -> None:
        """Proto3's mapping would read it as the default."""
        found = {below(path, key): swept(path, key, lambda item, k: item.update({k: None})) for path, key in keys()}

        assert found == {path: path for path in found}

    def test_snake_case_is_refused_everywhere(self) -> None:
        """The name in the .proto file is no key, although most receivers read it."""
        found = {
            below(path, snake(key)): swept(path, key, lambda item, k: item.update({snake(k): item.pop(k)}))
            for path, key in keys()
            if snake(key) != key
        }

        assert len(found) > 50
        assert found == {path: path for path in found}

    def test_unknown_key_is_refused_everywhere(self) -> None:
        """A receiver would ignore it and lose its value."""
        found = {
            below(path, "unknown"): swept(path, "unknown", lambda item, k: item.update({k: 1}))
            for path, _ in objects(valid())
        }

        assert len(found) > 40
        assert found == {path: path for path in found}

    def test_64_bits_as_a_number_are_refused_everywhere(self) -> None:
        """A receiver in JavaScript would round them."""
        long_keys = {"intValue", "asInt", "startTimeUnixNano", "timeUnixNano", "count", "zeroCount"}
        found = {
            below(path, key): swept(path, key, lambda item, k: item.update({k: int(item[k])}))
            for path, key in keys()
            if key in long_keys
        }

        assert {path.rpartition(".")[2] for path in found} == long_keys
        assert found == {path: path for path in found}


class TestFileExporter:
    """Documents of a Collector's file exporter."""

    def test_its_ways_of_writing_are_read(self) -> None:
        """64 bits as numbers, Go's infinity, ids in capitals or empty, and empty objects."""
        document = valid()
        for change in (
            put(f"{GAUGE}.asDouble", "+Inf"),
            put(f"{ADDED}.asInt", 9223372036854775807),
            put(f"{EXPLICIT}.bucketCounts", [1, 2, 0, 3]),
            put(f"{EXEMPLAR}.traceId", "0AF7651916CD43DD8448EB211C80319C"),
            put(f"{EXEMPLAR}.spanId", ""),
            put(f"{EXPONENTIAL}.negative", {}),
        ):
            change(document)
        first, _, added, explicit, *_ = otlp.read_document(document)

        assert (first.value, added.value) == (math.inf, 9223372036854775807)
        assert explicit.value == HistogramValue(6, 7.25, None, 0, {0.5: 1, 1.0: 2, 2.0: 0, math.inf: 3})
        assert [(found.trace_id, found.span_id) for found in explicit.exemplars] == [
            ("0af7651916cd43dd8448eb211c80319c", "")
        ]

    def test_document_of_a_sender_reads_the_same(self) -> None:
        """The lenient reading changes nothing."""
        assert otlp.read_document(valid())[2:] == otlp.read_json(body(valid()))[2:]

    @pytest.mark.parametrize(
        ("path", "value"),
        [
            (f"{EXPLICIT}.count", 7),
            (f"{ADDED}.asInt", -1),
            (f"{ADDED}.asInt", 1.0),
            (f"{SUM}.aggregationTemporality", 0),
            (f"{EXEMPLAR}.traceId", None),
        ],
    )
    def test_rules_are_the_same(self, path: str, value: Any) -> None:
        """Only the way of writing is free."""
        document = valid()
        put(path, value)(document)

        assert refusal(body(document), lambda sent: otlp.read_document(json.loads(sent))) == path


class TestCumulative:
    """Counts at a classic bucket's edge, from a histogram."""

    @pytest.mark.parametrize(
        ("le_seconds", "count"),
        [(0.25, 1), (0.5, 1 + 2), (1.0, 1 + 2 + 3 + 5), (2.0, 1 + 2 + 3 + 5 + 7), (math.inf, 19)],
    )
    def test_exponential_edge_is_inclusive(self, le_seconds: float, count: int) -> None:
        """At scale 3, index 7 ends at 2**(8/8) and index -1 at 2**0; index -9 ends at 2**-1, and index -8 begins there."""
        value = HistogramValue(19, 1.0, 3, 1, {-9: 2, -8: 3, -1: 5, 7: 7, 8: 1})

        assert value.cumulative(le_seconds) == count

    def test_explicit_bound_is_inclusive(self) -> None:
        """1 at most 0.5, and 2 more at most 1."""
        assert HistogramValue(6, 7.25, None, 0, {0.5: 1, 1.0: 2, math.inf: 3}).cumulative(1.0) == 3

    @pytest.mark.parametrize(("scale", "le_seconds"), [(3, 0.75), (-1, 2.0), (None, 0.75)])
    def test_what_is_no_edge_is_refused(self, scale: int | None, le_seconds: float) -> None:
        """There would be no exact answer."""
        with pytest.raises(AssertionError, match="is no"):
            HistogramValue(1, 1.0, scale, 0, {1.0: 1}).cumulative(le_seconds)
