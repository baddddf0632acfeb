"""An OpenTelemetry Collector receives pushed metrics: the same values as a scrape, under the catalogue's names."""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trustme

from exporter.catalog import METRICS, OWN_METRICS, WORKLOAD_METRICS, Kind, own
from exporter.output.otlp.metric_exporter import probe
from exporter.output.otlp.response import PushOutcome
from tests.conformance import partners, series
from tests.conformance.job import Job, at_rest
from tests.conformance.partners import Collector
from tests.conformance.series import Series, latest
from tests.support.exposition import COMMON_LABELS, Scrape
from tests.support.otlp import HistogramValue, Received, read_document
from tests.support.pushing import FIRST_OWN_POINTS, delivering, snapshot, target
from tests.support.traced import eventually, only

pytestmark = pytest.mark.conformance
PATIENCE_SECONDS = 60
OWN_NAMES = {metric.name for metric in OWN_METRICS}
OPERATIONS = "gpustall.cuda.operations"
LIVE = "gpustall.cuda.memory.live"  # a gauge: also pushed when it has not changed
FORM_OF = {
    Kind.COUNTER: ("sum", "cumulative", True),
    Kind.GAUGE: ("gauge", "", False),
    Kind.INFO: ("gauge", "", False),
    Kind.HISTOGRAM: ("exponential", "cumulative", False),
}
"""Kind in the catalogue -> kind, temporality and whether it is monotonic, in OTLP."""

EVERY_KIND = pytest.mark.parametrize("kind", list(Kind))


@dataclass(frozen=True)
class Pushed:
    """A job at rest whose exporter pushes to a Collector, after a push that holds it whole."""

    job: Job
    collector: Collector

    def all_points(self) -> list[Received]:
        """Every point so far; every request has been checked by the rules of tests/support/otlp.py."""
        return [point for request in self.collector.received() for point in read_document(request)]

    def points(self) -> list[Received]:
        """One point for each series, pushed since the job came to rest."""
        return latest(point for point in self.all_points() if point.time_unix_ns > self.job.rested_unix_ns)

    def workload(self) -> list[Received]:
        """The points of the job."""
        return [point for point in self.points() if point.attributes.get("rank") == self.job.rank]

    def scrape(self) -> Scrape:
        """The metrics now."""
        return self.job.exporter.scrape()


@contextmanager
def pushing(folder: Path, *flags: str) -> Iterator[Pushed]:
    """A job at rest, after its second push: all requests of the first have arrived."""
    with (
        partners.collector(folder) as collector,
        at_rest(f"--otlp.endpoint={collector.endpoint}", "--otlp.interval=1s", *flags) as job,
    ):
        found = Pushed(job, collector)

        def pushed_twice() -> bool:
            times = {
                point.time_unix_ns
                for point in found.all_points()
                if point.name == LIVE and point.attributes["rank"] == job.rank
            }
            return sum(time_ns > job.rested_unix_ns for time_ns in times) >= 2

        eventually(pushed_twice, f"two pushes; {job.exporter.logs}", PATIENCE_SECONDS)
        yield found


@pytest.fixture(scope="module", params=["http/json", "http/protobuf"])
def pushed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pushed]:
    """In either encoding."""
    with pushing(tmp_path_factory.mktemp("collector"), f"--otlp.protocol={request.param}") as found:
        yield found


class TestNumbers:
    """A job at rest has the same values in a push and a scrape."""

    @EVERY_KIND
    def test_series_of_the_job_are_those_of_a_scrape(self, pushed: Pushed, kind: Kind) -> None:
        """Names, labels, numbers; of a histogram the sum, the count and every classic bucket.

        An exact integer differs by less than the tolerance up to 10**11; only sums of seconds need it.
        """
        scraped: Series = series.of_scrape(pushed.scrape(), kind, rank=pushed.job.rank)

        assert scraped != {}
        assert series.of_points(pushed.workload(), kind) == pytest.approx(scraped, rel=1e-12, abs=0)

    def test_calls_are_those_that_were_made(self, pushed: Pushed) -> None:
        """So that two empty results do not count as equal: 199 waits, 22 copies of 4 KiB, one error each."""
        found = {
            (point.name, point.attributes.get("operation") or point.attributes.get("direction")): point.value
            for point in pushed.workload()
            if point.attributes.get("api") != "driver"
        }

        assert found[OPERATIONS, "cudaStreamSynchronize"] == 199
        assert found["gpustall.cuda.memcpy", "h2d"] == 22 * 4096
        assert found["gpustall.cuda.operation.errors", "cudaMemcpyAsync"] == 1
        assert found["gpustall.nccl.operation.errors", "ncclAllReduce"] == 1

    def test_own_series_are_those_of_a_scrape(self, pushed: Pushed) -> None:
        """Names and labels: what they count goes on, so the numbers differ."""

        def differing() -> set[Any]:
            scrape, points = pushed.scrape(), pushed.points()
            found = set()
            for kind in (Kind.COUNTER, Kind.GAUGE, Kind.INFO):
                own = {key for key in series.of_scrape(scrape, kind) if key[0] in OWN_NAMES}
                sent = {key for key in series.of_points(points, kind) if key[0] in OWN_NAMES}
                assert own != set()
                found |= own ^ sent
            return found

        eventually(lambda: not differing(), f"the same series: {differing()}", PATIENCE_SECONDS)

    def test_exponential_buckets_are_the_native_ones_of_a_scrape(self, pushed: Pushed, tmp_path: Path) -> None:
        """Bucket for bucket of a scrape in protobuf, stored by Prometheus, which numbers a bucket by its upper edge."""
        sent: dict[Any, dict[float, int]] = {}
        for point in pushed.workload():
            if isinstance(point.value, HistogramValue) and "operation" in point.attributes:
                key = point.attributes.get("api", "nccl"), point.attributes["operation"]
                sent[key] = {index + 1: count for index, count in point.value.buckets.items()}
        with partners.prometheus(tmp_path) as server:
            server.scrape(pushed.job.exporter)
            histograms = f'{{__name__=~"gpustall_.*_operation_duration_seconds",rank="{pushed.job.rank}"}}'
            stored = {
                (one["metric"].get("api", "nccl"), one["metric"]["operation"]): {
                    round(math.log2(float(upper)) * 8): int(count)
                    for _, _, upper, count in one["histogram"][1]["buckets"]
                }
                for one in server.awaited(histograms)
            }

        assert stored == sent


class TestForm:
    """What a metric is called, and what it is."""

    def test_every_name_is_in_the_catalogue(self, pushed: Pushed) -> None:
        """And every workload metric is pushed: the job gives each a series."""
        names = {point.name for point in pushed.points()}

        assert names - {metric.otel_name for metric in METRICS} == set()
        assert {metric.otel_name for metric in WORKLOAD_METRICS if metric not in series.SILENT} - names == set()

    def test_unit_and_description_are_those_of_the_catalogue(self, pushed: Pushed) -> None:
        """For each name, and no unit for an info."""
        wanted = {metric.otel_name: (metric.unit, metric.help) for metric in METRICS}

        assert {
            p.name: (p.unit, p.description) for p in pushed.points() if wanted[p.name] != (p.unit, p.description)
        } == {}
        assert {p.unit for p in pushed.points() if p.name == "gpustall.workload.info"} == {""}

    def test_kind_and_temporality_follow_from_the_type(self, pushed: Pushed) -> None:
        """A counter is a monotonic cumulative sum, an info is a gauge."""
        wanted = {metric.otel_name: FORM_OF[metric.kind] for metric in METRICS}
        found = {(point.name, (point.kind, point.temporality, point.is_monotonic)) for point in pushed.points()}

        assert found - set(wanted.items()) == set()

    def test_info_is_one(self, pushed: Pushed) -> None:
        """Its content is in the labels."""
        infos = {metric.otel_name for metric in METRICS if metric.kind is Kind.INFO}

        assert {point.value for point in pushed.points() if point.name in infos} == {1}

    def test_labels_are_those_of_the_catalogue(self, pushed: Pushed) -> None:
        """The job's with the five common ones, the exporter's own without; an empty one is sent empty."""
        wanted = {metric.otel_name: COMMON_LABELS | set(metric.labels) for metric in WORKLOAD_METRICS}
        wanted |= {metric.otel_name: set(metric.labels) for metric in OWN_METRICS}

        assert [point for point in pushed.points() if set(point.attributes) != wanted[point.name]] == []
        assert {point.attributes["namespace"] for point in pushed.workload()} == {""}

    def test_histograms_have_scale_three(self, pushed: Pushed) -> None:
        """And 200 ms lie in bucket -19, from 2**(-19/8) s to 2**(-18/8) s."""
        histograms = {
            point.attributes["operation"]: point.value
            for point in pushed.workload()
            if isinstance(point.value, HistogramValue) and "operation" in point.attributes
        }

        assert {value.scale for value in histograms.values()} == {3}
        assert max(histograms["cudaDeviceSynchronize"].buckets.items(), key=lambda item: item[1])[0] == -19


class TestTime:
    """Start and time of points."""

    def test_start_stays_where_it_is(self, pushed: Pushed) -> None:
        """For cumulative points: another start would mean a reset."""
        starts: dict[Any, set[int]] = {}
        for point in pushed.all_points():
            if point.temporality == "cumulative":
                starts.setdefault((point.name, frozenset(point.attributes.items())), set()).add(point.start_unix_ns)

        assert {key: found for key, found in starts.items() if len(found) > 1} == {}

    def test_start_is_before_the_calls(self, pushed: Pushed) -> None:
        """Else their rate would be too high."""
        assert {p.name for p in pushed.workload() if p.start_unix_ns > pushed.job.rested_unix_ns} == set()


class TestResources:
    """The resources of points."""

    def test_every_resource_has_a_service(self, pushed: Pushed) -> None:
        """With an instance id of its own, by which a receiver identifies a stream."""
        resources = {tuple(sorted(point.resource.items(), key=repr)) for point in pushed.points()}
        instances = {dict(resource)["service.instance.id"] for resource in resources}

        assert len(instances) == len(resources) >= 2
        assert all(dict(resource)["service.name"] for resource in resources)

    def test_own_metrics_have_a_resource_to_themselves(self, pushed: Pushed) -> None:
        """One resource, without metrics of a job."""
        own = {metric.otel_name for metric in OWN_METRICS}
        instances = {point.resource["service.instance.id"] for point in pushed.points() if point.name in own}

        assert {p.name for p in pushed.points() if p.resource["service.instance.id"] == only(instances)} <= own


class TestOtherForms:
    """Flags that change the form."""

    @pytest.mark.parametrize("protocol", ["http/json", "http/protobuf"])
    def test_explicit_histograms_have_the_classic_buckets(self, tmp_path: Path, protocol: str) -> None:
        """Each as the scrape has it; uncompressed this time."""
        flags = (f"--otlp.protocol={protocol}", "--otlp.histograms=explicit", "--otlp.compression=none")
        with pushing(tmp_path, *flags) as pushed:
            scraped = series.of_scrape(pushed.scrape(), Kind.HISTOGRAM, rank=pushed.job.rank)
            points = pushed.workload()

        assert {point.kind for point in points if isinstance(point.value, HistogramValue)} == {"histogram"}
        assert series.of_points(points, Kind.HISTOGRAM) == pytest.approx(scraped, rel=1e-12, abs=0)

    @pytest.mark.parametrize("protocol", ["http/json", "http/protobuf"])
    def test_deltas_add_up_to_the_scrape(self, tmp_path: Path, protocol: str) -> None:
        """Counters and histograms, over every push; nothing is pushed twice."""
        with pushing(tmp_path, f"--otlp.protocol={protocol}", "--otlp.temporality=delta") as pushed:
            scrape, points = pushed.scrape(), pushed.all_points()
        job = [point for point in points if point.attributes.get("rank") == pushed.job.rank]

        assert {point.temporality for point in job if point.kind != "gauge"} == {"delta"}
        for kind in (Kind.COUNTER, Kind.HISTOGRAM):
            scraped = series.of_scrape(scrape, kind, rank=pushed.job.rank)
            added: Counter[Any] = Counter()
            for point in job:
                added.update(series.of_points([point], kind))
            # A delta of nothing is not sent.
            moved = {key: value for key, value in scraped.items() if value}
            assert {key: value for key, value in added.items() if value} == pytest.approx(moved, rel=1e-12, abs=0)


class TestLimit:
    """A Collector whose requests are limited to 40 KiB, the smallest of which does not suffice for a push."""

    @pytest.mark.parametrize("compression", ["gzip", "none"])
    @pytest.mark.parametrize("protocol", ["http/json", "http/protobuf"])
    def test_push_that_is_too_large_is_split_and_every_point_arrives_once(
        self, tmp_path: Path, protocol: str, compression: str
    ) -> None:
        """2,500 points of different values; the limit is of what is unpacked as well."""
        with partners.collector(tmp_path, max_request_body_size=40 << 10) as collector:
            to = target(f"{collector.endpoint}/v1/metrics", protocol=protocol, compression=compression, interval="60s")
            with delivering(to, lambda: snapshot(*range(2500))) as push:
                push.awaited("delivered")
                attempts = push.value(own.PUSH_ATTEMPTS)
                accepted, rejected = push.value(own.PUSHED_POINTS), push.value(own.REJECTED_POINTS)

                def values() -> list[Any]:
                    received = (point for request in collector.received() for point in read_document(request))
                    return sorted(point.value for point in received if point.name == OPERATIONS)

                eventually(lambda: len(values()) >= 2500, "the Collector has written them")

                assert values() == list(range(2500))
                assert (accepted, rejected) == (2500 + FIRST_OWN_POINTS, 0)
                assert attempts > 3  # 1,000 points at a time would be three

    def test_client_certificate_that_has_expired_is_named(self, tmp_path: Path) -> None:
        """Go's TLS sends the alert after the handshake, and closes."""
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
        authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "server.pem"))
        expired = authority.issue_cert("node", not_after=datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC))
        expired.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "client.pem"))
        server = str(tmp_path / "server.pem")
        tls = {"cert_file": server, "key_file": server, "client_ca_file": str(tmp_path / "ca.pem")}
        with partners.collector(tmp_path, tls=tls) as collector:
            files = {"ca_file": tmp_path / "ca.pem", "client_certificate_file": tmp_path / "client.pem"}
            url = collector.endpoint.replace("http:", "https:")
            result = probe(target(f"{url}/v1/metrics", **files))

        assert (result.outcome, result.detail) == (
            PushOutcome.NOT_TRUSTED,
            "TLS handshake failed: the server refuses the client certificate: it has expired",
        )
