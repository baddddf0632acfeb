"""Prometheus 3 receives over OTLP what it also scrapes: a query has the same result for both, so boards and rules fit both."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from exporter.catalog import METRICS, WORKLOAD_METRICS, Kind, Metric
from tests.conformance import partners
from tests.conformance.job import WAITS, Job, at_rest
from tests.conformance.partners import Prometheus
from tests.conformance.series import GOES_ON, SILENT
from tests.support.traced import eventually, only

pytestmark = pytest.mark.conformance
PATIENCE_SECONDS = 60
STILL = [metric for metric in WORKLOAD_METRICS if metric not in GOES_ON]
DURATION = "gpustall_cuda_operation_duration_seconds"
OF_THE_WAY = ("__name__", "job", "instance")
"""The labels that do not identify a series; the name is compared apart."""


WAITS_OF = f'{DURATION}{{OF,operation="cudaDeviceSynchronize"}}'
QUERIES = {
    "counter": 'gpustall_cuda_operations_total{OF,operation="cudaStreamSynchronize"}',
    "bytes": 'gpustall_cuda_memcpy_bytes_total{OF,direction="h2d"}',
    "gauge": "gpustall_cuda_memory_live_bytes{OF}",
    "info": "gpustall_workload_info{OF}",
    "count": f"histogram_count({WAITS_OF})",
    "sum": f"histogram_sum({WAITS_OF})",
    "median": f"histogram_quantile(0.5, {WAITS_OF})",
    "p99 of all": f"histogram_quantile(0.99, sum by (node, rank) ({DURATION}{{OF}}))",
}
"""OF: who, and by which way."""


@dataclass(frozen=True)
class Both:
    """A job at rest whose exporter is scraped by the server it pushes to."""

    job: Job
    server: Prometheus

    def of(self, *, scraped: bool) -> str:
        """Label matchers: of the job, having come by one way."""
        return f'job{"=" if scraped else "!="}"scraped",rank="{self.job.rank}"'

    def vector(self, selector: str) -> dict[Any, Any]:
        """Labels, without those of the way -> value."""
        found = {}
        for series in self.server.query(selector):
            labels = frozenset(item for item in series["metric"].items() if item[0] not in OF_THE_WAY)
            key = series["metric"].get("__name__", ""), labels
            assert key not in found, f"two of {key}"
            found[key] = _histogram(series["histogram"][1]) if "histogram" in series else float(series["value"][1])
        return found

    def exemplars(self, selector: str) -> set[Any]:
        """(seconds, when, labels) of every exemplar."""
        data = self.server.get(
            "/api/v1/query_exemplars",
            query=selector,
            start=str(self.job.rested_unix_ns / 1e9 - 600),
            end=str(time.time()),
        )
        found = [exemplar for series in data or () for exemplar in series["exemplars"]]
        return {(one["value"], one["timestamp"], frozenset(one["labels"].items())) for one in found}


def _histogram(told: dict[str, Any]) -> dict[Any, float]:
    """A flat form that can be compared with a tolerance. Edges have all their digits."""
    buckets = {(lower, upper): float(count) for _, lower, upper, count in told["buckets"]}
    return {"count": float(told["count"]), "sum": float(told["sum"]), **buckets}


@pytest.fixture(scope="module", params=["http/json", "http/protobuf"])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """In either encoding, after a scrape and a push since the job rests."""
    with (
        partners.prometheus(tmp_path_factory.mktemp("prometheus")) as server,
        at_rest(
            f"--otlp.endpoint={server.otlp_endpoint}", f"--otlp.protocol={request.param}", "--otlp.interval=1s"
        ) as job,
    ):
        server.scrape(job.exporter)
        found = Both(job, server)
        for scraped in (True, False):
            sample = f"gpustall_cuda_memory_live_bytes{{{found.of(scraped=scraped)}}}"
            server.awaited(f"timestamp({sample}) > {job.rested_unix_ns / 1e9 + 1}")
        yield found


class TestBothWays:
    """Pushed and scraped."""

    @pytest.mark.parametrize("query", QUERIES)
    def test_query_gives_the_same(self, both: Both, query: str) -> None:
        """A number, and one only."""
        scraped = only(both.vector(QUERIES[query].replace("OF", both.of(scraped=True))).values())
        pushed = only(both.vector(QUERIES[query].replace("OF", both.of(scraped=False))).values())

        assert pushed == pytest.approx(scraped, rel=1e-12, abs=0)

    def test_calls_are_those_that_were_made(self, both: Both) -> None:
        """So that two empty results do not count as equal."""
        query = f'histogram_count({DURATION}{{{both.of(scraped=False)},operation="cudaDeviceSynchronize"}})'

        assert list(both.vector(query).values()) == [WAITS]

    @pytest.mark.parametrize("metric", STILL, ids=lambda metric: metric.name)
    def test_every_series_of_the_job_is_the_same(self, both: Both, metric: Metric) -> None:
        """Name, labels, value; of a histogram every native bucket."""
        scraped = both.vector(f"{metric.name}{{{both.of(scraped=True)}}}")
        pushed = both.vector(f"{metric.name}{{{both.of(scraped=False)}}}")

        assert scraped != {} or metric in SILENT
        assert pushed.keys() == scraped.keys()
        for key, value in scraped.items():
            assert pushed[key] == pytest.approx(value, rel=1e-12, abs=0), key

    def test_exemplar_of_a_call_is_the_same(self, both: Both) -> None:
        """Duration, end and labels of one call."""

        def ways() -> tuple[set[Any], set[Any]]:
            scraped, pushed = (
                both.exemplars(WAITS_OF.replace("OF", both.of(scraped=is_scraped))) for is_scraped in (True, False)
            )
            return scraped, pushed

        eventually(lambda: set.intersection(*ways()), f"an exemplar in common: {ways()}", PATIENCE_SECONDS)

    def test_own_series_have_the_same_names_and_labels(self, both: Both) -> None:
        """Their numbers go on."""
        names = {metric.name for metric in METRICS}

        def ways() -> tuple[set[Any], set[Any]]:
            scraped, pushed = (
                both.vector(f'{{__name__=~"gpustall_exporter_.*",job{sign}"scraped"}}') for sign in ("=", "!=")
            )
            return {key for key in scraped if key[0] in names}, set(pushed)

        first = set.symmetric_difference(*ways())
        eventually(
            lambda: ways()[0] and ways()[0] == ways()[1], f"the same series, other than {first}", PATIENCE_SECONDS
        )

    def test_no_sample_was_refused(self, both: Both) -> None:
        """In a push or a scrape, by the server's log."""
        refused = [line for line in both.server.server.logs.splitlines() if " level=INFO " not in line]

        assert refused == []

    def test_type_is_that_of_the_catalogue(self, both: Both) -> None:
        """In the server's metadata, from a push or a scrape."""
        kinds = {Kind.COUNTER: "counter", Kind.GAUGE: "gauge", Kind.INFO: "gauge", Kind.HISTOGRAM: "histogram"}
        metadata = both.server.get("/api/v1/metadata")

        assert {
            metric.name: [entry["type"] for entry in metadata[metric.name]]
            for metric in WORKLOAD_METRICS
            if (metric not in SILENT or metric.name in metadata)
            and {entry["type"] for entry in metadata[metric.name]} != {kinds[metric.kind]}
        } == {}
