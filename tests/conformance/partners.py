"""Programs that receive the exporter's data: an OpenTelemetry Collector and Prometheus 3, built from source."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import build
from tests.support import prometheus_server
from tests.support.exporter_process import Exporter
from tests.support.server_process import Server, listening

COLLECTOR = """\
receivers:
  otlp:
    protocols:
      http:
        endpoint: 127.0.0.1:0
exporters:
  file:
    path: received.jsonl
    flush_interval: 50ms
  file/logs:
    path: logs.jsonl
    flush_interval: 50ms
  file/traces:
    path: traces.jsonl
    flush_interval: 50ms
service:
  telemetry:
    metrics:
      level: none
  pipelines:
    metrics:
      receivers: [otlp]
      exporters: [file]
    logs:
      receivers: [otlp]
      exporters: [file/logs]
    traces:
      receivers: [otlp]
      exporters: [file/traces]
"""
ENDPOINT = "endpoint: 127.0.0.1:0"
ANNOUNCEMENT = r'Starting HTTP server[^\n]*"endpoint": "([^"]+)".*Everything is ready'
PROMETHEUS = """\
global:
  scrape_interval: 1s
scrape_configs:
  - job_name: scraped
    honor_labels: true
    scrape_native_histograms: true
    always_scrape_classic_histograms: true
    file_sd_configs:
      - files: [targets.json]
"""
PROMETHEUS_FLAGS = ("--web.enable-otlp-receiver", "--enable-feature=exemplar-storage")


@dataclass(frozen=True)
class Collector:
    """A running Collector. folder: with a file for each signal, in it one export request a line, in OTLP/JSON."""

    server: Server
    folder: Path

    @property
    def endpoint(self) -> str:
        """For `--otlp.endpoint`."""
        return f"http://{self.server.address}"

    def received(self, file: str = "received.jsonl") -> list[dict[str, Any]]:
        """The export requests so far, in order; of metrics by default, or of `logs.jsonl` or `traces.jsonl`."""
        lines = (self.folder / file).read_text(encoding="utf-8").splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]


@dataclass(frozen=True)
class Prometheus(prometheus_server.Prometheus):
    """A running Prometheus 3 with an OTLP receiver. targets_file: its scrape targets."""

    targets_file: Path

    @property
    def otlp_endpoint(self) -> str:
        """For `--otlp.endpoint`."""
        return f"{self.url}/api/v1/otlp"

    def scrape(self, exporter: Exporter) -> None:
        """Make this address the only scrape target: an exporter that pushes to this server starts after it."""
        target = exporter.url.removeprefix("http://").removesuffix("/metrics")
        whole = self.targets_file.with_suffix(".new")
        whole.write_text(json.dumps([{"targets": [target]}]))
        whole.rename(self.targets_file)


def need_partner(name: str) -> Path:
    """The program of a partner."""
    found = build.program(name)
    if not found.exists():
        pytest.skip(f"{name} is not built: make conformance")
    return found


@contextmanager
def collector(folder: Path, **http: object) -> Iterator[Collector]:
    """A Collector that receives OTLP over HTTP on a free port of the loopback interface. http: settings of that receiver."""
    settings = "".join(f"\n        {name}: {json.dumps(value)}" for name, value in http.items())
    (folder / "collector.yml").write_text(COLLECTOR.replace(ENDPOINT, f"{ENDPOINT}{settings}"))
    with listening([need_partner("collector"), "--config=collector.yml"], ANNOUNCEMENT, folder) as server:
        yield Collector(server, folder)


@contextmanager
def prometheus(folder: Path) -> Iterator[Prometheus]:
    """A Prometheus 3 with OTLP receiver, native histograms and exemplars; it scrapes its targets every second."""
    with prometheus_server.serving(need_partner("prometheus"), PROMETHEUS, folder, *PROMETHEUS_FLAGS) as server:
        yield Prometheus(server.server, folder / "targets.json")
