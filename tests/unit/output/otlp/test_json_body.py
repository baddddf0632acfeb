"""json_body: OTLP/JSON, member by member, as the protocol writes it."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from exporter import __version__, catalog
from exporter.model import Exemplar, Histogram, Identity
from exporter.output.otlp import json_body
from exporter.output.otlp.points import DataPoint, Form, Origin
from tests.support.records import STARTED_UNIX_NS, TRAINER, histogram_of

TIME_UNIX_NS = STARTED_UNIX_NS + 60_000_000_000
TIMES = {"startTimeUnixNano": "1790000000000000000", "timeUnixNano": "1790000060000000000"}
CUMULATIVE = Form(is_delta=False, with_explicit_buckets=False)
EXPLICIT = Form(is_delta=False, with_explicit_buckets=True)
DELTA = Form(is_delta=True, with_explicit_buckets=False)
NOT_UTF_8 = os.fsdecode(b"a\xff")

Document = dict[str, Any]


def written(*points: DataPoint, form: Form = CUMULATIVE, origin: Origin | None = None) -> Document:
    """The document of a request."""
    body = json_body.encode(points, TIME_UNIX_NS, origin or Origin("gpu7", "gpu-stall-exporter"), form)
    document: Document = json.loads(body)
    return document


def metrics_of(*points: DataPoint, form: Form = CUMULATIVE) -> list[Document]:
    """The metrics of the only resource."""
    (resource,) = written(*points, form=form)["resourceMetrics"]
    ((metrics,),) = [[scope["metrics"] for scope in resource["scopeMetrics"]]]
    return list(metrics)


def sent(point: DataPoint, form: Form = CUMULATIVE) -> Document:
    """The only data point of the only metric, without its attributes."""
    (metric,) = metrics_of(point, form=form)
    (data,) = [value for value in metric.values() if isinstance(value, dict)]
    ((found),) = data["dataPoints"]
    return {key: value for key, value in found.items() if key != "attributes"}


def number(metric: catalog.Metric, value: float) -> DataPoint:
    """A point of the exporter's own, without labels."""
    return DataPoint(metric, None, (), value, STARTED_UNIX_NS)


def calls(value: int, operation: str = "cudaMalloc", identity: Identity = TRAINER) -> DataPoint:
    """A counter of a workload."""
    return DataPoint(catalog.cuda.OPERATIONS, identity, ("runtime", operation), value, STARTED_UNIX_NS)


def durations(counts: dict[int, int], sum_seconds: float = 0.0, exemplar: Exemplar | None = None) -> DataPoint:
    """A histogram of a workload."""
    value = Histogram(histogram_of(counts).counts, sum_seconds, exemplar)
    return DataPoint(catalog.nccl.OPERATION_DURATION, TRAINER, ("ncclSend", "0"), value, STARTED_UNIX_NS)


def text(key: str, value: str) -> Document:
    """An attribute."""
    return {"key": key, "value": {"stringValue": value}}


class TestRequest:
    """The document around the points."""

    def test_counter_is_a_monotonic_sum_in_its_resource(self) -> None:
        """The whole document."""
        assert written(calls(3)) == {
            "resourceMetrics": [
                {
                    "resource": {
                        "attributes": [
                            text("service.name", "gpu-stall-exporter"),
                            text("service.instance.id", "c459cb01-ac89-5d79-b89f-fe2feb5f9d41"),
                            text("host.name", "gpu7"),
                            text("container.id", "0123456789ab"),
                            text("gpustall.rank", "3"),
                        ]
                    },
                    "scopeMetrics": [
                        {
                            "scope": {"name": "gpu-stall-exporter", "version": __version__},
                            "metrics": [
                                {
                                    "name": "gpustall.cuda.operations",
                                    "description": "CUDA calls that returned, including driver calls made by a runtime call, "
                                    "which are not timed separately; where returns are not probed, calls that began.",
                                    "unit": "{operation}",
                                    "sum": {
                                        "aggregationTemporality": 2,
                                        "isMonotonic": True,
                                        "dataPoints": [
                                            {
                                                "attributes": [
                                                    text("node", "gpu7"),
                                                    text("rank", "3"),
                                                    text("container", "0123456789ab"),
                                                    text("namespace", ""),
                                                    text("pod", ""),
                                                    text("api", "runtime"),
                                                    text("operation", "cudaMalloc"),
                                                ],
                                                "startTimeUnixNano": "1790000000000000000",
                                                "timeUnixNano": "1790000060000000000",
                                                "asInt": "3",
                                            }
                                        ],
                                    },
                                }
                            ],
                        }
                    ],
                }
            ]
        }

    def test_request_without_points_is_a_request(self) -> None:
        """Receivers accept it; `check` sends it."""
        assert written() == {"resourceMetrics": []}

    def test_metric_has_all_its_points(self) -> None:
        """One metric, its help once."""
        (metric,) = metrics_of(calls(3), calls(4, "cudaFree"))

        assert [point["asInt"] for point in metric["sum"]["dataPoints"]] == ["3", "4"]

    def test_each_rank_is_a_resource(self) -> None:
        """The metric comes again in each."""
        document = written(calls(3), calls(4, identity=Identity(node="gpu7", rank="4")))

        ranks = [resource["resource"]["attributes"][-1] for resource in document["resourceMetrics"]]
        assert ranks == [text("gpustall.rank", "3"), text("gpustall.rank", "4")]

    def test_body_is_ascii(self) -> None:
        """Whatever the labels hold."""
        identity = Identity(node='größe "\\ 🙂')
        body = json_body.encode([calls(1, identity=identity)], TIME_UNIX_NS, Origin("ü", "é"), CUMULATIVE)

        assert body.isascii()
        assert (
            text("node", 'größe "\\ 🙂')
            in json.loads(body)["resourceMetrics"][0]["scopeMetrics"][0]["metrics"][0]["sum"]["dataPoints"][0][
                "attributes"
            ]
        )

    def test_bytes_that_are_no_utf_8_become_question_marks(self) -> None:
        """In labels and in the user's attributes: one lone surrogate would spoil the whole request."""
        point = DataPoint(catalog.own.MAP_ENTRIES, None, (NOT_UTF_8,), 1, STARTED_UNIX_NS)
        origin = Origin("gpu7", "gpu-stall-exporter", ((NOT_UTF_8, NOT_UTF_8),))
        ((resource),) = written(point, origin=origin)["resourceMetrics"]

        ((metric),) = resource["scopeMetrics"][0]["metrics"]
        assert metric["gauge"]["dataPoints"][0]["attributes"] == [text("map", "a?")]
        assert text("a?", "a?") in resource["resource"]["attributes"]

    def test_labels_of_one_metric_are_not_taken_for_another_s(self) -> None:
        """The cache is by names and values."""
        found = metrics_of(
            DataPoint(catalog.own.MAP_ENTRIES, None, ("x",), 1, STARTED_UNIX_NS),
            DataPoint(catalog.own.COLLECTOR_SUCCESS, None, ("x",), 1, STARTED_UNIX_NS),
        )

        attributes = [metric["gauge"]["dataPoints"][0]["attributes"] for metric in found]
        assert attributes == [[text("map", "x")], [text("collector", "x")]]


class TestNumbers:
    """Counters, gauges, infos."""

    def test_integer_is_a_string(self) -> None:
        """A number of JavaScript has fewer than 64 bits."""
        assert sent(number(catalog.own.TICKS, 2**63 - 1)) == {**TIMES, "asInt": "9223372036854775807"}

    def test_seconds_are_a_double_that_may_be_whole(self) -> None:
        """1.0 is a number of JSON."""
        assert sent(number(catalog.own.TICK_TIME, 1)) == {**TIMES, "asDouble": 1.0}

    def test_beyond_int64_it_is_a_double(self) -> None:
        """2^63."""
        assert sent(number(catalog.own.TICKS, 2**63)) == {**TIMES, "asDouble": 9223372036854775808.0}

    @pytest.mark.parametrize(
        ("value", "as_double"), [(float("nan"), "NaN"), (float("inf"), "Infinity"), (float("-inf"), "-Infinity")]
    )
    def test_what_json_has_no_number_for_is_a_string(self, value: float, as_double: str) -> None:
        """By the JSON mapping of protobuf."""
        assert sent(number(catalog.own.TICK_TIME, value)) == {**TIMES, "asDouble": as_double}

    def test_gauge_has_no_start(self) -> None:
        """Nor a temporality, nor isMonotonic."""
        (metric,) = metrics_of(number(catalog.own.TRACKED_PROCESSES, 5))

        assert metric["gauge"] == {
            "dataPoints": [{"attributes": [], "timeUnixNano": "1790000060000000000", "asInt": "5"}]
        }

    def test_info_is_a_gauge_of_1(self) -> None:
        """OpenTelemetry has no infos."""
        labels = ("0", "abc", "0", "2")
        info = DataPoint(catalog.nccl.COMMUNICATOR_INFO, TRAINER, labels, 1, STARTED_UNIX_NS)
        (metric,) = metrics_of(info)

        assert (metric["name"], metric["gauge"]["dataPoints"][0]["asInt"]) == ("gpustall.nccl.communicator.info", "1")

    @pytest.mark.parametrize(("form", "temporality"), [(CUMULATIVE, 2), (DELTA, 1)], ids=["cumulative", "delta"])
    def test_temporality_of_sums_and_histograms_is_the_one_wanted(self, form: Form, temporality: int) -> None:
        """1 for delta, 2 for cumulative."""
        counter, histogram = metrics_of(calls(1), durations({8: 1}), form=form)

        assert counter["sum"]["aggregationTemporality"] == temporality
        assert histogram["exponentialHistogram"]["aggregationTemporality"] == temporality


class TestExponentialHistograms:
    """338 slots at scale 3. Slot k holds (2^((k-1)/8), 2^(k/8)] units of 2^-30 s, bucket i (2^(i/8), 2^((i+1)/8)] seconds."""

    @pytest.mark.parametrize(
        ("slot", "offset"),
        [
            (0, -241),  # up to 2^-30 s: i + 1 = 8 * -30
            (1, -240),
            (88, -153),  # up to 2^-19 s: i + 1 = 8 * -19
            (240, -1),  # up to 1 s: i + 1 = 0
            (241, 0),  # from 1 s on
            (336, 95),  # up to 2^12 s: i + 1 = 8 * 12
            (337, 96),  # what is longer: the bucket above
        ],
    )
    def test_bucket_is_numbered_by_its_lower_edge(self, slot: int, offset: int) -> None:
        """In eighths of a power of 2 seconds."""
        found = sent(durations({slot: 5}, 1.25))

        assert found == {
            **TIMES,
            "count": "5",
            "sum": 1.25,
            "scale": 3,
            "positive": {"offset": offset, "bucketCounts": ["5"]},
        }

    def test_zeros_before_and_after_are_cut_and_those_between_are_not(self) -> None:
        """Slots 8 and 11."""
        found = sent(durations({8: 2, 11: 2**63}))

        assert found["positive"] == {"offset": -233, "bucketCounts": ["2", "0", "0", "9223372036854775808"]}
        assert found["count"] == "9223372036854775810"

    def test_every_slot_may_be_occupied(self) -> None:
        """From the first to the overflow."""
        found = sent(durations(dict.fromkeys(range(338), 1)))

        assert (found["positive"]["offset"], len(found["positive"]["bucketCounts"]), found["count"]) == (
            -241,
            338,
            "338",
        )

    def test_empty_one_has_no_buckets(self) -> None:
        """An empty message, not a bucket of nothing."""
        assert sent(durations({})) == {**TIMES, "count": "0", "sum": 0.0, "scale": 3, "positive": {}}


class TestExplicitHistograms:
    """The classic buckets of a scrape."""

    def test_counts_are_by_bucket_and_the_last_has_no_bound(self) -> None:
        """Slot 88 ends at 2^-19 s, 240 at 1 s, 337 is overflow."""
        found = sent(durations({88: 1, 89: 2, 240: 3, 241: 4, 337: 5}, 0.75), EXPLICIT)

        assert found == {
            **TIMES,
            "count": "15",
            "sum": 0.75,
            "bucketCounts": ["1", "2", "0", "0", "0", "0", "0", "3", "9"],
            "explicitBounds": [2**-19, 2**-16, 2**-13, 2**-10, 2**-7, 2**-5, 2**-3, 1.0],
        }

    def test_empty_one_has_all_its_buckets(self) -> None:
        """Zeros are counts here."""
        assert sent(durations({}), EXPLICIT)["bucketCounts"] == ["0"] * 9


class TestExemplars:
    """One call of those that were counted."""

    @pytest.mark.parametrize("form", [CUMULATIVE, EXPLICIT], ids=["exponential", "explicit"])
    def test_exemplar_has_labels_time_and_duration(self, form: Form) -> None:
        """The labels are filtered attributes: the series lacks them."""
        exemplar = Exemplar((("pid", "4026"), ("tid", "4031")), 0.25, STARTED_UNIX_NS + 5)

        assert sent(durations({8: 1}, 0.25, exemplar), form)["exemplars"] == [
            {
                "filteredAttributes": [text("pid", "4026"), text("tid", "4031")],
                "timeUnixNano": "1790000000000000005",
                "asDouble": 0.25,
            }
        ]

    def test_exemplar_without_labels_has_no_attributes(self) -> None:
        """The thread is in a pid namespace that the exporter cannot read."""
        exemplar = Exemplar((), 0.25, STARTED_UNIX_NS + 5)

        assert sent(durations({8: 1}, 0.25, exemplar))["exemplars"] == [
            {"filteredAttributes": [], "timeUnixNano": "1790000000000000005", "asDouble": 0.25}
        ]

    def test_exemplar_of_a_chain_has_its_ids_in_their_fields(self) -> None:
        """A receiver can link them to the trace."""
        labels = (("trace_id", "0af7651916cd43dd8448eb211c80319c"), ("span_id", "b7ad6b7169203331"))
        exemplar = Exemplar(labels, 0.25, STARTED_UNIX_NS + 5)
        point = DataPoint(catalog.sched.LOST, TRAINER, ("lock",), 1.5, STARTED_UNIX_NS, exemplar)

        assert sent(point)["exemplars"] == [
            {
                "filteredAttributes": [],
                "timeUnixNano": "1790000000000000005",
                "asDouble": 0.25,
                "traceId": "0af7651916cd43dd8448eb211c80319c",
                "spanId": "b7ad6b7169203331",
            }
        ]


class TestResponses:
    """The response messages of receivers."""

    @pytest.mark.parametrize(
        ("body", "expected"),
        [
            (b"{}", (0, "")),
            (b" {\n} ", (0, "")),
            (b'{"partialSuccess":{}}', (0, "")),
            (b'{"partialSuccess":null}', (0, "")),
            (b'{"partialSuccess":{"rejectedDataPoints":"7","errorMessage":"too old"}}', (7, "too old")),
            (b'{"partialSuccess":{"rejectedDataPoints":7,"errorMessage":"too old"}}', (7, "too old")),
            (b'{"partialSuccess":{"rejectedDataPoints":"0","errorMessage":"slow down"}}', (0, "slow down")),
            (b'{"partialSuccess":{"rejectedDataPoints":null,"errorMessage":null}}', (0, "")),
            (b'{"more":[1,{"a":2}]}', (0, "")),
        ],
    )
    def test_response_is_understood(self, body: bytes, expected: tuple[int, str]) -> None:
        """An int64 should be a string, and some receivers write a number; unknown members are ignored."""
        assert json_body.rejected(body) == expected

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"<html>",
            b"\xff\xfe",
            b"[]",
            b"7",
            b"null",
            b'"ok"',
            b'{"partialSuccess":[1]}',
            b'{"partialSuccess":"all"}',
            b'{"partialSuccess":{"rejectedDataPoints":"many"}}',
            b'{"partialSuccess":{"rejectedDataPoints":[1]}}',
            b'{"partialSuccess":{"rejectedDataPoints":1e999}}',
            b'{"partialSuccess":{"rejectedDataPoints":9223372036854775808}}',
            b'{"partialSuccess":{"rejectedDataPoints":"' + b"9" * 60_000 + b'"}}',
            b"[" * 60_000,
            b'{"a":' * 10_000,
        ],
        ids=lambda body: body[:55].decode(errors="replace"),
    )
    def test_body_that_is_not_a_response_is_a_value_error(self, body: bytes) -> None:
        """Whatever the receiver sends."""
        with pytest.raises(ValueError):  # noqa: PT011 - its text is of no use to anyone
            json_body.rejected(body)
