"""The real Prometheus scrapes the exporter, and its queries return the calls that a program was started to make."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import NamedTuple

import pytest

import gpustall_standin as standin
from tests.support import held_calls
from tests.support.exporter_process import running
from tests.support.held_calls import fresh_rank
from tests.support.priority import before_others
from tests.support.prometheus_server import Prometheus, scraping
from tests.support.requirements import need_tracing
from tests.support.traced import eventually, only

pytestmark = pytest.mark.end_to_end
RANK = fresh_rank()
BUCKET_OF_5_MS = (0.0009765625, 0.0078125)  # 2**-10 s and 2**-7 s, neighbours among the classic edges


NATIVE = "--enable-feature=native-histograms"
# Evenly spread over the classic bucket of 2**-5 s to 2**-3 s, in which a quantile is interpolated linearly. The longest
# stay so far below its edge that a busy machine does not carry a twentieth of the calls across it.
SPREAD_MS = [32.8 + 3.2 * step for step in range(29)]
CLOSE = 0.0905  # as far as neighbouring edges of schema 3 are apart


class Scraped(NamedTuple):
    """native: another server, with native histograms on, so that it asks for protobuf.

    mean_seconds: of the 199 calls, as the program measured them around the probes.
    """

    server: Prometheus
    native: Prometheus
    mean_seconds: float


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    """Servers that have scraped, more than once, a program that made 199 calls of 5 ms and lives on."""
    need_tracing()
    orders = ("--sync=block", "cudaStreamSynchronize:199:5ms", "ncclAllReduce:23:4096")
    with running() as exporter, ExitStack() as stack:
        with before_others():
            calls = stack.enter_context(held_calls.held_calls(*orders, rank=RANK))
        for name in ("libcuda.so.1", "libcudart.so.12", "libnccl.so.2"):
            path = standin.build_dir() / name
            eventually(lambda path=path: f"attached to {path}" in exporter.logs, f"{path} is probed")
        server = stack.enter_context(
            scraping(exporter, tmp_path_factory.mktemp("classic"), "--enable-feature=exemplar-storage")
        )
        native = stack.enter_context(scraping(exporter, tmp_path_factory.mktemp("native"), NATIVE))
        server.awaited("up == 1")
        truth = calls.make()["calls"]["runtime"]["cudaStreamSynchronize"]
        for one in (server, native):
            one.awaited(f'gpustall_cuda_operations_total{{rank="{RANK}",operation="cudaStreamSynchronize"}} == 199')
        yield Scraped(server, native, truth["sum_ns"] / truth["count"] / 1e9)


@pytest.fixture(scope="module")
def prometheus(scraped: Scraped) -> Prometheus:
    """Its server."""
    return scraped.server


@dataclass(frozen=True)
class Spread:
    """A program whose calls took SPREAD_MS each, scraped by two servers."""

    rank: str
    classic: Prometheus
    native: Prometheus

    def labels(self) -> str:
        """Label matchers of its calls."""
        return f'{{rank="{self.rank}",operation="cudaStreamSynchronize"}}'

    def quantiles_seconds(self, quantile: float) -> tuple[float, float]:
        """By the classic buckets, by the native histogram."""
        name = "gpustall_cuda_operation_duration_seconds"
        both = ((self.classic, f"{name}_bucket"), (self.native, name))
        classic, native = (
            only(server.awaited(f"histogram_quantile({quantile}, {of}{self.labels()})"))["value"][1]
            for server, of in both
        )
        return float(classic), float(native)


@pytest.fixture(scope="module")
def spread(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spread]:
    """Both servers have scraped it after its last call."""
    need_tracing()
    rank = fresh_rank()
    orders = [f"cudaStreamSynchronize:3:{int(ms * 1000)}us" for ms in SPREAD_MS]
    with running() as exporter, ExitStack() as stack:
        with before_others():
            calls = stack.enter_context(held_calls.held_calls("--sync=block", *orders, "sleep:1:600s", rank=rank))
        path = standin.build_dir() / "libcudart.so.12"
        eventually(lambda: f"attached to {path}" in exporter.logs, f"{path} is probed")
        folders = [tmp_path_factory.mktemp(name) for name in ("classic", "native")]
        with scraping(exporter, folders[0]) as classic, scraping(exporter, folders[1], NATIVE) as native:
            calls.begin()
            found = Spread(rank, classic, native)
            for server in (classic, native):
                server.awaited(f"gpustall_cuda_operations_total{found.labels()} == {3 * len(SPREAD_MS)}")
            yield found


class TestNativeHistograms:
    """Two servers scrape one exporter, one of them with native histograms on, so that it asks for protobuf."""

    @pytest.mark.acceptance
    @pytest.mark.parametrize("quantile", [0.25, 0.5, 0.75, 0.95])
    def test_native_and_classic_quantiles_are_close_to_the_truth(self, spread: Spread, quantile: float) -> None:
        """29 lengths from 32.8 to 122.4 ms, three calls each; a quantile is off by no more than a bucket is wide."""
        truth_seconds = (SPREAD_MS[0] + quantile * (SPREAD_MS[-1] - SPREAD_MS[0])) / 1000
        classic, native = spread.quantiles_seconds(quantile)

        assert classic == pytest.approx(truth_seconds, rel=CLOSE)
        assert native == pytest.approx(truth_seconds, rel=CLOSE)


class TestPrometheus:
    """As Debian packages it, with honor_labels."""

    def test_series_arrive_with_their_labels(self, prometheus: Prometheus) -> None:
        """The node and the rank are those that were served."""
        query = f'gpustall_cuda_operations_total{{rank="{RANK}",operation="cudaStreamSynchronize"}}'
        series = only(prometheus.awaited(query))

        assert series["metric"]["node"] == socket.gethostname()
        assert series["metric"]["api"] == "runtime"
        assert series["value"][1] == "199"

    def test_native_histogram_is_stored_as_one_series(self, scraped: Scraped) -> None:
        """With its count, and with the buckets of its schema instead of `le`."""
        of = f'{{rank="{RANK}",operation="cudaStreamSynchronize"}}'
        series = only(scraped.native.awaited(f"gpustall_cuda_operation_duration_seconds{of}"))

        assert series["histogram"][1]["count"] == "199"
        assert len(series["histogram"][1]["buckets"]) > 0

    def test_labels_that_are_empty_keep_those_of_the_target_away(self, prometheus: Prometheus) -> None:
        """The exporter's own namespace and pod, labels of the target, are not written to the job's series."""
        query = f'gpustall_nccl_operation_duration_seconds_count{{rank="{RANK}",namespace="",pod="",container=""}}'
        found = {series["metric"]["operation"]: series["value"][1] for series in prometheus.awaited(query)}

        assert found["ncclAllReduce"] == "23"

    @pytest.mark.acceptance
    def test_median_is_in_the_bucket_of_the_length_that_was_ordered(self, prometheus: Prometheus) -> None:
        """199 waits of 5 ms: p50 by histogram_quantile."""
        query = (
            "histogram_quantile(0.5, sum by (le) (gpustall_cuda_operation_duration_seconds_bucket"
            f'{{rank="{RANK}",operation="cudaStreamSynchronize"}}))'
        )
        median = float(only(prometheus.awaited(query))["value"][1])

        assert BUCKET_OF_5_MS[0] <= median <= BUCKET_OF_5_MS[1]

    def test_mean_is_that_of_the_program(self, scraped: Scraped) -> None:
        """Sum by count: less than the program measured around its calls."""
        of = f'{{rank="{RANK}",operation="cudaStreamSynchronize"}}'
        metric = "gpustall_cuda_operation_duration_seconds"
        mean = float(only(scraped.server.awaited(f"{metric}_sum{of} / {metric}_count{of}"))["value"][1])

        assert 0 < mean <= scraped.mean_seconds

    def test_own_metrics_get_the_labels_of_the_target(self, prometheus: Prometheus) -> None:
        """They are about the exporter, so its pod is theirs."""
        series = only(prometheus.awaited("gpustall_exporter_build_info"))

        assert (series["metric"]["namespace"], series["metric"]["pod"]) == ("monitoring", "exporter-0")

    def test_metrics_have_types_and_help(self, prometheus: Prometheus) -> None:
        """In Prometheus's metadata."""
        metadata = eventually(
            lambda: prometheus.get("/api/v1/metadata", metric="gpustall_cuda_operation_duration_seconds"), "metadata"
        )

        kind = only(metadata["gpustall_cuda_operation_duration_seconds"])

        assert kind["type"] == "histogram"
        assert kind["help"].startswith("Host time of CUDA calls in seconds, from entry to return")

    def test_exemplar_is_stored(self, prometheus: Prometheus) -> None:
        """The slowest call of its window, with its process and its thread."""
        query = f'gpustall_cuda_operation_duration_seconds_bucket{{rank="{RANK}",operation="cudaStreamSynchronize"}}'
        exemplar = eventually(lambda: prometheus.exemplars(query), "an exemplar")[0]
        assert set(exemplar["labels"]) == {"pid", "tid"}
        assert float(exemplar["value"]) > 0
