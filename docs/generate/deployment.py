"""Files of alerts/, dashboards/ and deploy/ that are made from others: rules, boards, and what Datadog needs."""

from __future__ import annotations

from pathlib import Path

from docs.generate.addresses import addressed
from exporter.catalog import OWN_METRICS, WORKLOAD_METRICS, Kind
from exporter.rules import cost
from exporter.rules.kubernetes import prometheus_rule

ALERTS = Path(__file__).parents[2] / "alerts"


def rules_for_kubernetes() -> str:
    """alerts/prometheusrule.yaml: all rule files but that of GPU prices, which differ from site to site."""
    names = sorted(path.name for path in ALERTS.glob("*.rules.yaml") if path.name != "rates.rules.yaml")
    comment = "# Made by `make golden` from the rule files beside this; edit those instead."
    return prometheus_rule("gpu-stall-exporter", comment, (addressed(f"alerts/{name}") for name in names))


def rules_of_prices() -> str:
    """alerts/rates.rules.yaml: the rules that `gpu-stall-exporter rates` makes from alerts/rates.toml."""
    path = ALERTS / "rates.toml"
    return cost.rules(cost.read(path), path.name)


def datadog_mapping() -> str:
    """deploy/datadog/openmetrics.d/conf.yaml: for Datadog's OpenMetrics check, which takes counters without `_total`."""
    lines = [
        "# Made by `make golden`. For the Datadog Agent: conf.d/openmetrics.d/conf.yaml. Names are the same as over OTLP.",
        "# Every metric here is a custom metric, by which Datadog bills: leave out what you do not use.",
        "init_config: {}",
        "instances:",
        "  - openmetrics_endpoint: http://127.0.0.1:10478/metrics",
        "    namespace: gpustall",
        "    histogram_buckets_as_distributions: true # quantiles by Datadog, from the ten edges of the text format",
        "    max_returned_metrics: 20000",
        "    metrics:",
    ]
    for metric in (*WORKLOAD_METRICS, *OWN_METRICS):
        if metric.kind is not Kind.INFO:
            lines.append(f"      - {metric.name.removesuffix('_total')}: {metric.otel_name.removeprefix('gpustall.')}")
    return "\n".join(lines) + "\n"
