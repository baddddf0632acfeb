"""Why pushes are delivered by our own code: what the sender of OpenTelemetry's exporter calls a success.

When one of these fails, the library has been mended, and exporter/output/otlp/post.py may be worth less than it costs.
"""

from __future__ import annotations

import pytest
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import MetricExportResult, MetricsData

from tests.support.receiver import Entry, html, partial, receiver, redirect


@pytest.mark.parametrize(
    "met_by",
    [redirect("http://127.0.0.1:9/elsewhere", 307), html(), partial(rejected=3)],
    ids=["redirect", "page", "partial"],
)
def test_library_takes_it_for_success(met_by: Entry) -> None:
    """Points are lost and nobody is told; ours counts each under its own outcome (tests/unit/output/otlp/test_verdict.py)."""
    with receiver([met_by]) as other:
        exporter = OTLPMetricExporter(endpoint=f"{other.url}/v1/metrics")
        result = exporter.export(MetricsData([]))
        exporter.shutdown()

    assert result is MetricExportResult.SUCCESS
