"""Why opentelemetry-exporter-otlp-proto-http is a dependency whose sender is not used: it reports lost points as a success.

If one of these tests fails, the library has changed: see whether exporter/output/otlp/retry.py can use its sender. Until then
only the encoder that it depends on is imported, opentelemetry-exporter-otlp-proto-common.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import MetricExportResult, MetricsData

from tests.support.receiver import Entry, html, partial, receiver, redirect

PACKAGE = Path(__file__).parents[2] / "exporter"


@pytest.mark.parametrize(
    "response",
    [redirect("http://127.0.0.1:9/elsewhere", 307), html(), partial(rejected=3)],
    ids=["redirect", "page", "partial"],
)
def test_sender_of_the_library_reports_success_for_lost_points(response: Entry) -> None:
    """The exporter counts each under an outcome of its own (tests/unit/output/otlp/test_response.py)."""
    with receiver([response]) as found:
        exporter = OTLPMetricExporter(endpoint=f"{found.url}/v1/metrics")
        result = exporter.export(MetricsData([]))
        exporter.shutdown()

    assert result is MetricExportResult.SUCCESS


def test_only_the_encoder_is_imported() -> None:
    imported = {
        node.module
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("opentelemetry.exporter")
    }

    assert imported == {"opentelemetry.exporter.otlp.proto.common.metrics_encoder"}
