"""docs/metrics.md, from the catalogue, the list of operations and the bucket edges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from docs.generate.labels import CODES, COMMON_LABEL_MEANINGS, LABEL_MEANINGS, LOSS_MEANINGS, THROTTLING_MEANINGS
from docs.generate.markdown import GENERATED, code, table
from exporter import units
from exporter.catalog import CLUSTER_METRICS, COMMON_LABELS, METRICS_OF_COLLECTOR, OWN_METRICS, Metric, workload
from exporter.gpu.throttle_reasons import REASONS
from exporter.kernel.abi import Api
from exporter.kernel.operations import OPERATIONS

UNITS = {"s": "seconds", "By": "bytes", "": ""}
SUBJECTS = {
    "cuda": "CUDA calls",
    "nccl": "NCCL",
    "sched": "Thread time, lost time and steps",
    "chains": "Causal chains",
    "engine": "Serving engines",
    "block": "Disks",
    "memory": "Host memory",
    "cpu": "CPU quota, steal and interrupts",
    "process": "Processes",
    "network": "Network",
    "device": "GPUs",
    "allocator": "GPU memory of processes",
    "graph": "CUDA graphs",
    "launch": "Kernel launches",
    "memcpy": "Copies",
}
"""Heading for the metrics of each collector."""


def unit(metric: Metric) -> str:
    """seconds, bytes, or what an annotation names: `{call}` -> call."""
    return UNITS.get(metric.unit) or metric.unit.strip("{}")


def metrics_page() -> str:
    """docs/metrics.md."""
    return "\n\n".join((*_introduction(), *_metrics(), *_labels(), *_histograms())) + "\n"


def _introduction() -> Iterator[str]:
    yield "# Metrics"
    yield GENERATED
    yield (
        "For everyone who writes a query, an alert or a board: every metric of `/metrics`, its unit, its labels and their values."
        " This page is made from `exporter/catalog/`. OpenTelemetry name and unit translate to the Prometheus name by the"
        " standard rule. [The README](../README.md#queries) has queries to start with."
    )
    yield "## Common labels"
    yield (
        "Every metric about a traced process has these five labels. They are always written, also if empty; a value that is not"
        " known for certain stays empty. Each has at most 128 characters."
    )
    yield table(("label", "meaning"), ((f"`{name}`", COMMON_LABEL_MEANINGS[name]) for name in COMMON_LABELS))


def _metrics() -> Iterator[str]:
    yield "## Metrics of traced processes"
    yield "With the common labels. A collector that is switched off, as with `--no-collector.cuda`, has no metrics."
    for collector, metrics in METRICS_OF_COLLECTOR.items():
        yield f"### {SUBJECTS[collector]}"
        yield f"Collector `{collector}`."
        yield _metric_table(metrics)
    yield "### Workloads"
    yield "Present for every traced process, whatever the collectors are."
    yield _metric_table((workload.INFO, *workload.COST_METRICS))
    yield "## Metrics of the exporter and its machine"
    yield (
        "Without the common labels. `--web.disable-exporter-metrics` leaves them out, and with them the `process_*` metrics"
        " of the exporter's own process, which the Prometheus client library provides."
    )
    yield _metric_table(OWN_METRICS)
    yield "## Metrics of the cluster store"
    yield "Of [`gpu-stall-exporter cluster`](cluster.md), which has no others but the `process_*` metrics."
    yield _metric_table(CLUSTER_METRICS)


def _labels() -> Iterator[str]:
    yield "## Labels"
    yield table(("label", "meaning"), ((f"`{name}`", text) for name, text in LABEL_MEANINGS.items()))
    yield "### `operation`"
    yield "These functions are probed where a library exports them; a missing one is not a failure."
    for api, title in ((Api.RUNTIME, "libcudart"), (Api.DRIVER, "libcuda"), (Api.NCCL, "libnccl, libtorch_cuda")):
        yield f"- {title}: {code(operation.name for operation in OPERATIONS if operation.api is api)}"
    yield "### `code`"
    yield "Frequent codes. The libraries' headers have them all."
    yield table(("code", "CUDA runtime and driver", "NCCL"), CODES)
    yield "### `reason` of throttling"
    yield (
        "For `gpustall_device_throttled_seconds_total`. Several reasons can apply at a time. A busy GPU is at its power limit"
        " most of the time, and `power` means no more than that."
    )
    yield table(("reason", "what throttles the clocks"), ((f"`{one}`", THROTTLING_MEANINGS[one]) for one in REASONS))
    yield "### `reason` of dropped records"
    yield (
        "For `gpustall_exporter_losses_total`. Two more reasons come from elsewhere: `recursion`, runs of a program that the"
        " kernel skipped because the program was running on that CPU already, and `ring_full`, events of new mappings that did"
        " not fit."
    )
    yield table(("reason", "what happened"), ((f"`{r.name.lower()}`", LOSS_MEANINGS[r]) for r in LOSS_MEANINGS))


def _histograms() -> Iterator[str]:
    yield "## Buckets"
    yield (
        "The kernel counts durations in exponential buckets, eight to each doubling. `/metrics` shows a subset of their edges,"
        " so every cumulative count is exact. The edges are powers of two, in seconds:"
    )
    edges = zip(units.CLASSIC_EXPONENTS, units.CLASSIC_EDGES_SECONDS, strict=True)
    yield table(("`le`", "", "rounded"), ((f"`{edge!r}`", f"2^{e} s", _rounded(edge)) for e, edge in edges))
    yield "A duration above the last edge counts in `+Inf` only. `_count` is the sum of the buckets that were read."
    yield (
        "All 338 buckets are exported as a native histogram, where Prometheus requests one, and over OTLP as an exponential"
        " histogram: schema or scale 3, so that neighbouring edges are 9.05 % apart, from 2^-30 s to 2^12 s (4,096 s). A longer"
        " duration counts in the bucket above that, because these histograms have no `+Inf`."
    )
    yield "## Exemplars"
    yield (
        "A histogram has one call as exemplar, in OpenMetrics, in protobuf and over OTLP: the slowest of the last 8.6 s that had"
        " calls, with the labels `pid` and `tid` as the exporter sees them, its duration, and the time at which it returned. An"
        " exemplar older than a minute is left out."
    )
    yield (
        "A series of `gpustall_lost_seconds_total` has as exemplar the causal chain, open or recent, in which the time was lost:"
        " the labels `trace_id` and `span_id`, the seconds lost to this cause since the chain began, and the time until which"
        " they were counted. [chains.md](chains.md) says what a chain is, [push.md](push.md) where its span comes from."
    )


def _metric_table(metrics: Iterable[Metric]) -> str:
    head = ("metric", "type", "unit", "labels", "meaning", "OpenTelemetry name and unit")
    return table(head, map(_metric_row, metrics))


def _metric_row(metric: Metric) -> tuple[str, ...]:
    other = f"`{metric.otel_name}`" + (f", `{metric.unit}`" if metric.unit else "")
    return f"`{metric.name}`", metric.kind.value, unit(metric), code(metric.labels), metric.help, other


def _rounded(edge: float) -> str:
    for factor, name in ((1e6, "µs"), (1e3, "ms")):
        if edge * factor < 1000:
            return f"{edge * factor:.3g} {name}"
    return f"{edge:.3g} s"
