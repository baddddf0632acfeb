"""Prometheus 3 scrapes the exporter, protobuf negotiated: native histograms beside the classic ones, and exemplars."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.conformance import partners
from tests.conformance.job import WAIT_SECONDS, WAITS, Job, at_rest
from tests.conformance.partners import Prometheus
from tests.support.traced import eventually, only

pytestmark = pytest.mark.conformance
DURATION = "gpustall_cuda_operation_duration_seconds"
GROWTH = 2 ** (1 / 8)
"""From edge to edge of schema 3: a quantile is wrong by at most 9.05 %."""

CLASSIC_BUCKET_OF_A_WAIT = (0.125, 1.0)


@dataclass(frozen=True)
class Scraped:
    """A job at rest whose exporter is scraped."""

    job: Job
    server: Prometheus

    def waits(self, suffix: str = "") -> str:
        """The selector of the long waits."""
        return f'{DURATION}{suffix}{{rank="{self.job.rank}",operation="cudaDeviceSynchronize"}}'

    def number(self, expression: str) -> float:
        """The one value of a query."""
        return float(only(self.server.awaited(expression))["value"][1])


def _key(series: dict[str, Any]) -> str:
    return f"{series['metric']['api']} {series['metric']['operation']}"


def _at(edges: Iterable[float], native: dict[str, Any]) -> dict[float, float]:
    """Cumulative counts of a native histogram. An edge has been through decimal digits, so it is met halfway to the next."""
    buckets = [(float(upper), float(count)) for _, _, upper, count in native["buckets"]]
    return {edge: sum(count for upper, count in buckets if upper < edge * GROWTH**0.5) for edge in edges}


def _exemplars(scraped: Scraped) -> list[tuple[dict[str, str], dict[str, Any]]]:
    """(labels of the series, exemplar) of the long waits."""
    data = scraped.server.get(
        "/api/v1/query_exemplars",
        query=scraped.waits(),
        start=str(scraped.job.rested_unix_ns / 1e9 - 600),
        end=str(time.time()),
    )
    return [(series["seriesLabels"], exemplar) for series in data or () for exemplar in series["exemplars"]]


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    """After a scrape that has every call."""
    with partners.prometheus(tmp_path_factory.mktemp("prometheus")) as server, at_rest() as job:
        server.scrape(job.exporter)
        sample = f'gpustall_cuda_memory_live_bytes{{rank="{job.rank}"}}'
        server.awaited(f"timestamp({sample}) > {job.rested_unix_ns / 1e9 + 1}")
        yield Scraped(job, server)


class TestNativeHistogram:
    """As Prometheus has stored it."""

    def test_buckets_are_those_of_schema_three(self, scraped: Scraped) -> None:
        """Each is as wide as a factor of 2**(1/8), upper edges at whole powers of it; 11 waits of 200 ms, most in one."""
        told = only(scraped.server.awaited(scraped.waits()))["histogram"][1]
        edges = [(float(lower), float(upper), float(count)) for _, lower, upper, count in told["buckets"]]

        assert told["count"] == str(WAITS)
        assert [upper / lower for lower, upper, _ in edges] == pytest.approx([GROWTH] * len(edges))
        assert max(edges, key=lambda edge: edge[2])[:2] == pytest.approx((2 ** (-19 / 8), 2 ** (-18 / 8)))

    def test_count_and_sum_are_those_of_the_classic_histogram(self, scraped: Scraped) -> None:
        """Both are of one scrape."""
        native = scraped.waits()

        assert scraped.number(f"histogram_count({native})") == scraped.number(scraped.waits("_count")) == WAITS
        assert scraped.number(f"histogram_sum({native})") == scraped.number(scraped.waits("_sum"))

    def test_every_classic_bucket_is_a_sum_of_native_ones(self, scraped: Scraped) -> None:
        """For all series of the job: each classic edge is an edge of schema 3."""
        found: dict[str, dict[float, float]] = {}
        for line in scraped.server.awaited(f'{DURATION}_bucket{{rank="{scraped.job.rank}"}}'):
            key = _key(line)
            found.setdefault(key, {})[float(line["metric"]["le"])] = float(line["value"][1])
        native = {
            _key(s): s["histogram"][1] for s in scraped.server.awaited(f'{DURATION}{{rank="{scraped.job.rank}"}}')
        }

        assert len(found) > 5
        assert found == {key: _at(classic, native[key]) for key, classic in found.items()}

    def test_median_is_the_length_of_the_calls(self, scraped: Scraped) -> None:
        """Within the width of a native bucket; a classic one is 8 times as wide."""
        native = scraped.number(f"histogram_quantile(0.5, {scraped.waits()})")
        classic = scraped.number(f"histogram_quantile(0.5, {scraped.waits('_bucket')})")

        assert WAIT_SECONDS / GROWTH <= native <= WAIT_SECONDS * GROWTH
        assert CLASSIC_BUCKET_OF_A_WAIT[0] <= classic <= CLASSIC_BUCKET_OF_A_WAIT[1]
        assert CLASSIC_BUCKET_OF_A_WAIT[0] <= native <= CLASSIC_BUCKET_OF_A_WAIT[1]

    def test_buckets_are_those_of_the_text_format(self, scraped: Scraped) -> None:
        """A scrape in protobuf, stored by Prometheus, equals a scrape in text."""
        text = {
            (sample.labels["operation"], sample.labels["api"], float(sample.labels["le"])): sample.value
            for sample in scraped.job.exporter.scrape().matching(f"{DURATION}_bucket", rank=scraped.job.rank)
        }
        stored = {
            (line["metric"]["operation"], line["metric"]["api"], float(line["metric"]["le"])): float(line["value"][1])
            for line in scraped.server.awaited(f'{DURATION}_bucket{{rank="{scraped.job.rank}"}}')
        }

        assert stored == text


class TestExemplars:
    """Exemplars of histograms."""

    def test_exemplar_is_a_call_that_was_made(self, scraped: Scraped) -> None:
        """One of the long waits, made before the job came to rest."""
        labels, exemplar = eventually(lambda: _exemplars(scraped), "an exemplar of a long wait", 30)[0]

        assert float(exemplar["value"]) >= WAIT_SECONDS / GROWTH
        assert labels["rank"] == scraped.job.rank
        assert exemplar["labels"] != {}
        assert 0 < exemplar["timestamp"] <= scraped.job.rested_unix_ns / 1e9
