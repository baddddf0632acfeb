"""The real Prometheus scrapes the exporter, and its queries give back what a program was told to do."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from exporter import standin
from tests.support import held_calls
from tests.support.exporter_process import Exporter, running
from tests.support.held_calls import fresh_rank
from tests.support.prometheus_server import Prometheus, serving
from tests.support.requirements import need_command, need_tracing
from tests.support.traced import eventually, only

pytestmark = pytest.mark.end_to_end
CONFIGURATION = """\
global:
  scrape_interval: 1s
scrape_configs:
  - job_name: gpustall
    honor_labels: true
    static_configs:
      - targets: ["{target}"]
        labels: {{namespace: monitoring, pod: exporter-0}}
"""
RANK = fresh_rank()
BUCKET_OF_5_MS = (0.001953125, 0.0078125)  # 2**-9 s and 2**-7 s, neighbours among the classic edges


@contextmanager
def scraping(exporter: Exporter, folder: Path) -> Iterator[Prometheus]:
    """A server that scrapes an exporter every second."""
    target = exporter.url.removeprefix("http://").removesuffix("/metrics")
    binary = need_command("prometheus", "prometheus")
    with serving(binary, CONFIGURATION.format(target=target), folder) as server:
        yield server


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A server that has scraped, more than once, a program that made 199 calls of 5 ms and lives on."""
    need_tracing()
    orders = ("--sync=block", "cudaStreamSynchronize:199:5ms", "ncclAllReduce:23:4096", "sleep:1:600s")
    with running() as exporter, held_calls.held_calls(*orders, rank=RANK) as calls:
        for name in ("libcuda.so.1", "libcudart.so.12", "libnccl.so.2"):
            path = standin.build_dir() / name
            eventually(lambda path=path: f"attached to {path}" in exporter.logs, f"{path} is probed")
        with scraping(exporter, tmp_path_factory.mktemp("prometheus")) as server:
            server.awaited("up == 1")
            calls.begin()
            server.awaited(f'gpustall_cuda_operations_total{{rank="{RANK}",operation="cudaStreamSynchronize"}} == 199')
            yield server


class TestPrometheus:
    """As Debian packages it, with honor_labels."""

    def test_series_arrive_with_their_labels(self, prometheus: Prometheus) -> None:
        """The node and the rank are those that were served."""
        query = f'gpustall_cuda_operations_total{{rank="{RANK}",operation="cudaStreamSynchronize"}}'
        series = only(prometheus.awaited(query))

        assert series["metric"]["node"] == socket.gethostname()
        assert series["metric"]["api"] == "runtime"
        assert series["value"][1] == "199"

    def test_labels_that_are_empty_keep_those_of_the_target_away(self, prometheus: Prometheus) -> None:
        """The exporter's own namespace and pod, labels of the target, are not written to the job's series."""
        query = f'gpustall_nccl_operation_duration_seconds_count{{rank="{RANK}",namespace="",pod="",container=""}}'
        found = {series["metric"]["operation"]: series["value"][1] for series in prometheus.awaited(query)}

        assert found["ncclAllReduce"] == "23"

    def test_median_is_in_the_bucket_of_the_length_that_was_ordered(self, prometheus: Prometheus) -> None:
        """199 waits of 5 ms: p50 by histogram_quantile."""
        query = (
            "histogram_quantile(0.5, sum by (le) (gpustall_cuda_operation_duration_seconds_bucket"
            f'{{rank="{RANK}",operation="cudaStreamSynchronize"}}))'
        )
        median = float(only(prometheus.awaited(query))["value"][1])

        assert BUCKET_OF_5_MS[0] <= median <= BUCKET_OF_5_MS[1]

    def test_mean_is_the_length_that_was_ordered(self, prometheus: Prometheus) -> None:
        """Sum by count: 5 ms, and what a sleep on a busy machine adds."""
        of = f'{{rank="{RANK}",operation="cudaStreamSynchronize"}}'
        metric = "gpustall_cuda_operation_duration_seconds"
        mean = float(only(prometheus.awaited(f"{metric}_sum{of} / {metric}_count{of}"))["value"][1])

        assert 0.004 < mean < 0.010

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
        assert kind["help"].startswith("Host time from entry into to return from a CUDA call")
