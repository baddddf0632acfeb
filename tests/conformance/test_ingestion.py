"""deploy/: the configurations that we ship, run by the programs that they are for."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import venv
from pathlib import Path

import pytest

from exporter.catalog import METRICS, Kind
from tests.conformance.partners import ANNOUNCEMENT, need_partner
from tests.support.exporter_process import running
from tests.support.held_calls import fresh_rank, held_calls
from tests.support.receiver import receiver
from tests.support.requirements import ROOT, need_tracing
from tests.support.server_process import listening
from tests.support.traced import eventually

COLLECTOR = ROOT / "deploy" / "opentelemetry-collector" / "config.yaml"
DATADOG = ROOT / "deploy" / "datadog" / "openmetrics.d" / "conf.yaml"
SCRAPE = ROOT / "tests" / "conformance" / "datadog" / "scrape.py"
REQUIREMENTS = SCRAPE.with_name("requirements.txt")
PATIENCE_SECONDS = 60


@pytest.fixture(scope="module")
def datadog() -> Path:
    """An interpreter that has Datadog's check; made once."""
    wanted = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:12]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "gpu-stall-exporter" / "conformance" / f"datadog-{wanted}"
    interpreter, is_whole = folder / "bin" / "python", folder / "whole"
    if not is_whole.exists():
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=True)
        install = [interpreter, "-m", "pip", "install", "-q", "--disable-pip-version-check", "-r", REQUIREMENTS]
        done = subprocess.run(install, capture_output=True, text=True, timeout=280, check=False)
        if done.returncode:
            pytest.skip(f"Datadog's check cannot be installed: {done.stderr[-300:]}")
        is_whole.touch()
    return interpreter


class TestDatadog:
    """openmetrics.d/conf.yaml."""

    def test_its_check_takes_every_metric_by_its_name(self, datadog: Path) -> None:
        """Counters get `.count` from it; histograms become distributions; infos are left out."""
        need_tracing()
        with (
            running() as exporter,
            held_calls("cudaMalloc:3:1048576", "ncclAllReduce:23:4096", rank=fresh_rank()) as calls,
        ):
            eventually(lambda: "attached to" in exporter.logs, "libraries are probed")
            calls.make()
            eventually(lambda: exporter.scrape().total("gpustall_cuda_operations_total"), "calls are counted")
            done = subprocess.run(
                [datadog, SCRAPE, DATADOG, exporter.url], capture_output=True, text=True, timeout=60, check=True
            )
            found = json.loads(done.stdout.splitlines()[-1])
            scraped = {sample.name for sample in exporter.scrape().samples}

        expected = {
            metric.otel_name + (".count" if metric.kind is Kind.COUNTER else ""): metric
            for metric in METRICS
            if metric.kind is not Kind.INFO and {metric.name, f"{metric.name}_count"} & scraped
        }
        assert set(found) == set(expected)
        assert {name for name, kind in found.items() if kind == "distribution"} == {
            name for name, metric in expected.items() if metric.kind is Kind.HISTOGRAM
        }


class TestOpenTelemetryCollector:
    """config.yaml."""

    def test_it_is_valid(self) -> None:
        """By the Collector itself."""
        done = subprocess.run(
            [need_partner("collector"), "validate", f"--config={COLLECTOR}"],
            env={**os.environ, "OTLP_URL": "http://127.0.0.1:4319"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

        assert done.returncode == 0, done.stderr

    def test_it_hands_on_what_the_exporter_pushes(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """To the address in OTLP_URL; only the port that it listens on is another one here."""
        need_tracing()
        text = COLLECTOR.read_text(encoding="utf-8").replace("127.0.0.1:4318", "127.0.0.1:0")
        (tmp_path / "config.yaml").write_text(f"{text}  telemetry: {{metrics: {{level: none}}}}\n", encoding="utf-8")
        with receiver() as backend:
            monkeypatch.setenv("OTLP_URL", backend.url)
            with (
                listening([need_partner("collector"), "--config=config.yaml"], ANNOUNCEMENT, tmp_path) as server,
                running(f"--otlp.endpoint=http://{server.address}", "--otlp.interval=1s"),
            ):
                paths = eventually(
                    lambda: {request.path for request in backend.requests}, "it is handed on", PATIENCE_SECONDS
                )

        assert "/v1/metrics" in paths
