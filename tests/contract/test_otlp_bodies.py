"""What is pushed keeps the protocol, is the same in both encodings, and says exactly what a scrape of the same moment says."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from exporter import catalog
from exporter.catalog import OWN_METRICS
from exporter.model import Family
from exporter.output.negotiation import Format
from exporter.output.otlp import json_body, points, protobuf_body
from exporter.output.otlp.deltas import Deltas
from exporter.output.otlp.points import DataPoint, Form
from exporter.output.own_exposition import OwnExposition
from exporter.own_metrics.store import OwnMetrics
from tests.support import translation
from tests.support.exposition import of_openmetrics
from tests.support.golden import CASES, ORIGIN, exposition
from tests.support.otlp import Exemplar as ReceivedExemplar
from tests.support.otlp import Received, read_json, read_protobuf
from tests.support.records import STARTED_UNIX_NS

TIME_UNIX_NS = STARTED_UNIX_NS + 1_000 * 1_000_000_000
"""In every case, a thousand seconds after the start."""

CUMULATIVE = (Form(is_delta=False, with_explicit_buckets=False), Form(is_delta=False, with_explicit_buckets=True))
DELTA = (Form(is_delta=True, with_explicit_buckets=False), Form(is_delta=True, with_explicit_buckets=True))
EVERY_CASE = pytest.mark.parametrize("case", CASES)


def named(form: Form) -> str:
    """The name of a form in a test's name."""
    return f"{'delta' if form.is_delta else 'cumulative'}-{'explicit' if form.with_explicit_buckets else 'exponential'}"


EVERY_FORM = pytest.mark.parametrize("form", CUMULATIVE + DELTA, ids=named)
EVERY_CUMULATIVE_FORM = pytest.mark.parametrize("form", CUMULATIVE, ids=named)


def own_metrics() -> OwnMetrics:
    """Every metric of the exporter's own with two series, one of which is 0."""
    own = OwnMetrics()
    for number, metric in enumerate(catalog.OWN_METRICS):
        value = 1.0 if metric.kind is catalog.Kind.INFO else number + 0.5
        own.set(metric, value, *(f'a "{label}"\\' for label in metric.labels))
        if metric.labels and metric.kind is not catalog.Kind.INFO:
            own.set(metric, 0, *(f"another {label}" for label in metric.labels))
    return own


def points_of(case: str, form: Form, own: Iterable[Family] = ()) -> list[DataPoint]:
    """The points of a case. The first deltas are all there has been."""
    found = points.data_points(CASES[case](), own)
    return Deltas().collect(found, TIME_UNIX_NS) if form.is_delta else found


def received_json(wanted: list[DataPoint], form: Form) -> list[Received]:
    """What the strict reader finds in the JSON body."""
    (request,) = points.requests(wanted)
    return read_json(json_body.encode(request, TIME_UNIX_NS, ORIGIN, form))


def received_protobuf(wanted: list[DataPoint], form: Form) -> list[Received]:
    """What it finds in the binary one."""
    (request,) = points.requests(wanted)
    return read_protobuf(protobuf_body.encode(request, TIME_UNIX_NS, ORIGIN, form))


class TestEncodings:
    """JSON is written by hand; protobuf comes out of OpenTelemetry's library."""

    @EVERY_CASE
    @EVERY_FORM
    def test_both_say_the_same_of_a_workload(self, case: str, form: Form) -> None:
        """Point by point: resource, name, attributes, times, buckets, exemplars."""
        wanted = points_of(case, form)
        from_json = received_json(wanted, form)

        assert len(from_json) == len(wanted)
        assert from_json == received_protobuf(wanted, form)

    @EVERY_FORM
    def test_both_say_the_same_of_the_exporter(self, form: Form) -> None:
        """Its numbers are doubles that may be whole; whole ones are sent as integers in both."""
        own = own_metrics().families()
        wanted = points_of("training", form, own)

        assert received_json(wanted, form) == received_protobuf(wanted, form)

    @EVERY_CASE
    @EVERY_FORM
    def test_every_point_has_the_form_of_the_settings(self, case: str, form: Form) -> None:
        """Counters and histograms; a gauge has no temporality."""
        temporality = "delta" if form.is_delta else "cumulative"
        histogram = "histogram" if form.with_explicit_buckets else "exponential"
        found = {(point.kind, point.temporality) for point in received_json(points_of(case, form), form)}

        assert found == {("sum", temporality), (histogram, temporality), ("gauge", "")}

    @EVERY_CASE
    @EVERY_FORM
    def test_every_point_is_of_the_snapshot_s_moment_and_starts_with_the_exporter(self, case: str, form: Form) -> None:
        """The series store was opened at 0 s and the snapshot taken at 1,000 s."""
        found = received_json(points_of(case, form), form)

        assert {point.time_unix_ns for point in found} == {TIME_UNIX_NS}
        assert {point.start_unix_ns for point in found if point.kind != "gauge"} == {STARTED_UNIX_NS}


class TestAgainstTheScrape:
    """A push and a scrape have the same values under the same names and labels."""

    @EVERY_CASE
    @EVERY_FORM
    def test_push_equals_the_scrape_of_a_workload(self, case: str, form: Form) -> None:
        """Every counter, gauge, `_sum`, `_count` and `_bucket`, none missing on either side; a counter at 0 has no delta."""
        scraped = translation.of_scrape(of_openmetrics(exposition(CASES[case](), Format.OPENMETRICS)))
        if form.is_delta:
            scraped = {key: value for key, value in scraped.items() if value or not key[0].endswith("_total")}

        assert translation.of_points(received_json(points_of(case, form), form)) == scraped

    @EVERY_CUMULATIVE_FORM
    def test_push_equals_the_scrape_of_the_exporter(self, form: Form) -> None:
        """All but process_*, which prometheus-client adds to a scrape only."""
        own = own_metrics()
        scrape = of_openmetrics(OwnExposition(own).render(Format.OPENMETRICS).decode() + "# EOF\n")
        scraped = translation.of_scrape(scrape)
        wanted = points.data_points(CASES["training"](), own.families())

        own_names = {metric.otel_name for metric in OWN_METRICS}
        pushed = translation.of_points(point for point in received_json(wanted, form) if point.name in own_names)
        assert pushed == {key: value for key, value in scraped.items() if not key[0].startswith("process_")}

    @EVERY_CASE
    def test_exemplar_is_the_same_in_both(self, case: str) -> None:
        """Labels and duration; the scrape has its time to the millisecond."""
        lines = exposition(CASES[case](), Format.OPENMETRICS).splitlines()
        scraped = {line.partition(" # ")[2] for line in lines if " # {" in line}
        form = CUMULATIVE[0]

        exemplars = [one for point in received_json(points_of(case, form), form) for one in point.exemplars]
        assert scraped == {f"{{{_labels(one)}}} {one.value} {one.time_unix_ns / 1e9:.3f}" for one in exemplars}


def _labels(one: ReceivedExemplar) -> str:
    """The labels of an exemplar in a scrape: the thread of a call, or the ids of a chain."""
    if one.trace_id:
        return f'trace_id="{one.trace_id}",span_id="{one.span_id}"'
    return f'pid="{one.attributes["pid"]}",tid="{one.attributes["tid"]}"'
