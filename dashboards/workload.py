"""Board Workload: how the ranks of a job spend their time. For owners of jobs, and on-call engineers."""

from __future__ import annotations

from dashboards.boards import (
    NEEDS_NATIVE,
    ON_NODE,
    WITH_QUANTILES,
    WORKLOAD,
    Board,
    Row,
    counted,
    lost_share,
    mean_of,
    named,
    or_zero,
    processes,
    quantile_of,
    workload_series,
)
from dashboards.budget import BURN_RATE, LOST_IN_A_MONTH, LOST_THRESHOLDS
from dashboards.panels import GPUS, THREADS, Query, bars, graph, stat

FEEDING = 'operation!~"other_gap|worker|idle|abandoned"'
"""Matcher for thread time of step threads, in their calls and between them."""

_LOST = workload_series("gpustall_lost_seconds_total")
_CULPRIT = workload_series("gpustall_culprit_seconds_total", 'culprit!=""')
_TIME = workload_series("gpustall_thread_time_seconds_total", FEEDING)
_PROCESSES = workload_series("gpustall_workload_info")
_RUNTIME = 'api="runtime"'
_ERRORS = workload_series("gpustall_cuda_operation_errors_total", _RUNTIME)
GPU_WAIT = 'state="gpu_wait"'


STEP = "gpustall_step_duration_seconds"
_NO_STEPS = "no steps found"


_NUMBERS = (
    stat("Ranks", "Processes selected by the variables.", f"count({_PROCESSES})", width=3),
    stat(
        "GPU time lost",
        "Share of time in which the GPU waited for the host. Colours from the budget of 5 % on, and from what pages within six"
        " hours and one hour.",
        lost_share(),
        "percentunit",
        width=3,
        decimals=1,
        thresholds=LOST_THRESHOLDS,
    ),
    BURN_RATE,
    LOST_IN_A_MONTH,
    stat(
        *("Step, mean", "From one training step to the next.", mean_of(workload_series, STEP), "s"),
        width=3,
        decimals=2,
        no_value=_NO_STEPS,
    ),
    stat(
        "Step, p99",
        "The 99th percentile: 1 % of the steps take longer.",
        quantile_of(0.99, workload_series, STEP),
        "s",
        width=3,
        decimals=2,
        no_value=NEEDS_NATIVE,
    ),
    stat(
        "Worst open chain",
        "Low, medium, high or critical: from 5, 10, 25 and 50 % of a rank's time.",
        or_zero(f"max({workload_series('gpustall_chain_severity')})", _PROCESSES),
        width=3,
        thresholds=((None, "green"), (2, "yellow"), (3, "orange"), (4, "red")),
        is_severity=True,
    ),
    stat(
        "GPU memory",
        "Allocated and not yet freed, of observed allocations.",
        f"sum({workload_series('gpustall_cuda_memory_live_bytes')})",
        "bytes",
        width=3,
    ),
)

_TIME_ROW = (
    graph(
        "Thread time, by state",
        "Time of the threads that feed the GPU, by state; the sum is the number of these threads. In gpu_wait a thread waits"
        " for the GPU; everything else is the host.",
        Query(f"sum by (state) (rate({_TIME}[$__rate_interval]))", "{{state}}"),
        unit=THREADS,
        is_stacked=True,
        height=11,
    ),
    graph(
        "GPU time lost, by cause",
        "As a number of GPUs.",
        Query(f"sum by (cause) (rate({_LOST}[$__rate_interval]))", "{{cause}}"),
        unit=GPUS,
        is_stacked=True,
        height=11,
    ),
    graph(
        "Thread time, by call",
        "Time of the same threads by the call they were in; gap is the time between two calls.",
        Query(f"sum by (operation) (rate({_TIME}[$__rate_interval]))", "{{operation}}"),
        unit=THREADS,
        is_stacked=True,
    ),
    bars(
        "Culprits",
        "Programs that held the CPU, by the GPUs that they cost on average over the time range.",
        Query(f"sort_desc(sum by (cause, culprit) (rate({_CULPRIT}[$__range])) > 0)", "{{cause}}: {{culprit}}"),
        GPUS,
        no_value="no program held the CPU",
    ),
)

_STEPS = (
    graph(
        "Step duration",
        f"Over the selected ranks.{WITH_QUANTILES}",
        Query(mean_of(workload_series, STEP), "mean"),
        Query(quantile_of(0.5, workload_series, STEP), "median"),
        Query(quantile_of(0.99, workload_series, STEP), "99th percentile"),
        unit="s",
        no_value=_NO_STEPS,
    ),
    graph(
        "Wake-up paths",
        "Sleeps of step threads between two calls, by what they slept on and what the waking thread did. Shows why the"
        " DataLoader is slow.",
        Query(
            f"sum by (blocked_on, state) (rate({workload_series('gpustall_wait_chain_seconds_total')}[$__rate_interval]))",
            "{{blocked_on}}: {{state}}",
        ),
        unit=THREADS,
        is_stacked=True,
    ),
)

_CALL = "gpustall_cuda_operation_duration_seconds"

_CUDA = (
    graph(
        "CUDA calls",
        "Runtime calls per second.",
        Query(
            f"sum by (operation) (rate({workload_series('gpustall_cuda_operations_total', _RUNTIME)}[$__rate_interval]))",
            "{{operation}}",
        ),
        unit="ops",
    ),
    graph(
        "Duration of CUDA calls",
        f"Host time from entry to return; for an asynchronous call the time to enqueue.{WITH_QUANTILES}",
        Query(mean_of(workload_series, _CALL, "operation", matchers=(_RUNTIME,)), "{{operation}}: mean"),
        Query(
            quantile_of(0.99, workload_series, _CALL, "operation", matchers=(_RUNTIME,)),
            "{{operation}}: 99th percentile",
        ),
        unit="s",
    ),
    graph(
        "Copies",
        "Requested bytes per second, by direction.",
        Query(
            f"sum by (direction) (rate({workload_series('gpustall_cuda_memcpy_bytes_total')}[$__rate_interval]))",
            "{{direction}}",
        ),
        unit="Bps",
    ),
    graph(
        "CUDA errors",
        "Calls that returned an error, within four scrapes; 2 is out of memory.",
        Query(f"sum by (operation, code) {counted(_ERRORS, '$__rate_interval')}", "{{operation}}: {{code}}"),
        no_value="no CUDA call returned an error",
    ),
    graph(
        "GPU memory, by rank",
        "Allocated and not yet freed.",
        Query(named(f"sum by ({WORKLOAD}) ({workload_series('gpustall_cuda_memory_live_bytes')})"), ON_NODE),
        unit="bytes",
    ),
    graph(
        "GPU memory, allocated and freed",
        "Bytes per second. If both are high and equal, memory is freed and allocated again in each step.",
        Query(
            f"sum(rate({workload_series('gpustall_cuda_memory_allocated_bytes_total')}[$__rate_interval]))", "allocated"
        ),
        Query(f"sum(rate({workload_series('gpustall_cuda_memory_freed_bytes_total')}[$__rate_interval]))", "freed"),
        unit="Bps",
    ),
)

_COPIES = 'blocking="true"'
_WAITING = workload_series("gpustall_thread_time_seconds_total", FEEDING, GPU_WAIT)
_STEP_TIME = (
    f"(sum(rate({workload_series('gpustall_step_duration_seconds_sum')}[$__rate_interval]))"
    f" or histogram_sum(sum(rate({workload_series('gpustall_step_duration_seconds')}[$__rate_interval]))))"
)
"""Seconds of steps per second: the number of ranks that make steps."""
_NO_COPIES = "no blocking copies"
_NO_GRAPHS = "no CUDA graphs"

_GPU_WORK = (
    graph(
        "Kernel launches",
        "Kernels per second submitted to the GPU, one by one or in graphs.",
        Query(
            f"sum by (source) (rate({workload_series('gpustall_kernel_launches_total')}[$__rate_interval]))",
            "{{source}}",
        ),
        unit="ops",
        is_stacked=True,
    ),
    graph(
        "Host-bound share of steps",
        "Share of a step in which no step thread waits for the GPU; two that wait at once count twice. Near 1 the GPU waits for"
        " the host: use fewer, larger launches, or graphs.",
        Query(
            f"clamp_min(1 - sum(rate({_WAITING}[$__rate_interval])) / {_STEP_TIME}, 0)",
            "host",
        ),
        unit="percentunit",
        no_value=_NO_STEPS,
    ),
    graph(
        "Kernel launches, by grid size",
        "At most so many blocks. A GPU runs some 130 blocks and more at a time: a smaller grid leaves part of it idle.",
        Query(
            f"sum by (blocks) (rate({workload_series('gpustall_kernel_launch_sizes_total')}[$__rate_interval]))",
            "{{blocks}}",
        ),
        unit="ops",
        is_stacked=True,
    ),
    graph(
        "Blocking copies: throughput",
        "Bytes per second of blocking copies, by direction and memory. Pageable memory is copied twice, and reaches a third of"
        " the throughput of pinned memory.",
        Query(
            f"sum by (direction, memory) (rate({workload_series('gpustall_memcpy_host_bytes_total', _COPIES)}[$__rate_interval]))"
            " / sum by (direction, memory)"
            f" (rate({workload_series('gpustall_memcpy_host_time_seconds_total', _COPIES)}[$__rate_interval]))",
            "{{direction}}, {{memory}}",
        ),
        unit="Bps",
        no_value=_NO_COPIES,
    ),
    graph(
        "Blocking copies: time",
        "As a number of threads that copy, mean of the ranks.",
        Query(
            "sum by (direction, memory)"
            f" (rate({workload_series('gpustall_memcpy_host_time_seconds_total', _COPIES)}[$__rate_interval]))"
            f" / scalar({processes()})",
            "{{direction}}, {{memory}}",
        ),
        unit=THREADS,
        no_value=_NO_COPIES,
    ),
    graph(
        "CUDA graphs",
        "Captures, instantiations and launches per second.",
        Query(
            f"sum by (result) (rate({workload_series('gpustall_graph_captures_total')}[$__rate_interval]))",
            "{{result}}",
        ),
        Query(
            f"sum(rate({workload_series('gpustall_graph_instantiations_total')}[$__rate_interval]))",
            "instantiated",
        ),
        Query(f"sum(rate({workload_series('gpustall_graph_launches_total')}[$__rate_interval]))", "launched"),
        unit="ops",
        width=6,
        no_value=_NO_GRAPHS,
    ),
    graph(
        "Open captures and unused graphs",
        "Stream captures that have not ended, and graphs that were never launched.",
        Query(f"sum({workload_series('gpustall_graph_open_captures')})", "open captures"),
        Query(f"sum({workload_series('gpustall_graph_never_launched')})", "never launched"),
        width=6,
        no_value=_NO_GRAPHS,
    ),
    graph(
        "Cold start",
        "Extra seconds of the first steps in such calls compared with steady ones, by rank.",
        Query(
            named(f"sum by ({WORKLOAD}, effect) ({workload_series('gpustall_cold_start_seconds')})"),
            f"{ON_NODE}: {{{{effect}}}}",
        ),
        unit="s",
        no_value=_NO_STEPS,
    ),
    graph(
        "Managed, pinned and peak memory",
        "Managed memory, which moves between host and GPU and may exceed its memory; pinned host memory; and the peak of"
        " allocated memory.",
        *(
            Query(
                named(f"sum by ({WORKLOAD}) ({workload_series(f'gpustall_cuda_memory_{kind}_bytes')})"),
                f"{ON_NODE}: {kind}",
            )
            for kind in ("peak", "managed", "pinned")
        ),
        unit="bytes",
    ),
)
"""Work for the GPU."""

_NO_SOCKETS = "no TCP connections of these ranks"

_SOCKETS = (
    graph(
        "TCP retransmits",
        "Share of segments that these ranks sent, by peer. Retransmits of what they receive are counted at the peer, and are not"
        " included.",
        Query(
            f"sum by (peer) (rate({workload_series('gpustall_network_socket_retransmits_total')}[$__rate_interval]))"
            f" / sum by (peer) (rate({workload_series('gpustall_network_socket_segments_total')}[$__rate_interval]))",
            "{{peer}}",
        ),
        unit="percentunit",
        limit=0.02,
        no_value=_NO_SOCKETS,
    ),
    graph(
        "Round trip",
        "Longest smoothed round-trip time of the sockets of these ranks.",
        Query(f"max by (peer) ({workload_series('gpustall_network_socket_round_trip_seconds')})", "{{peer}}"),
        unit="s",
        no_value=_NO_SOCKETS,
    ),
    graph(
        "Connections",
        "TCP connections of these ranks, by peer.",
        Query(f"sum by (peer) ({workload_series('gpustall_network_sockets')})", "{{peer}}"),
        no_value=_NO_SOCKETS,
    ),
    graph(
        "Smallest congestion window",
        "The smallest number of segments that a connection may have in flight, by peer.",
        Query(f"min by (peer) ({workload_series('gpustall_network_socket_congestion_window')})", "{{peer}}"),
        unit="suffix:segments",
        no_value=_NO_SOCKETS,
    ),
)

_NO_ENGINES = "no serving engines"
_ITERATIONS = "gpustall_engine_step_duration_seconds"
_ENGINE = workload_series("gpustall_engine_info")
_OF_ONE_WORKLOAD = "(instance, node, rank, container, namespace, pod)"
_ENGINE_OF = (
    f"on {_OF_ONE_WORKLOAD} group_left (engine)"
    f" ({_ENGINE} and on {_OF_ONE_WORKLOAD} count by {_OF_ONE_WORKLOAD} ({_ENGINE}) == 1)"
)
"""Join with the engine of workloads whose processes have the same one."""

_ITERATIONS_PER_SECOND = (
    f"(sum by (engine) (rate({workload_series(f'{_ITERATIONS}_count')}[$__rate_interval]))"
    f" or sum by (engine) (histogram_count(rate({workload_series(_ITERATIONS)}[$__rate_interval]))))"
)

_SERVING = (
    graph(
        "Iterations of engines",
        f"From one output to the next, prefill and decode alike, without idle time.{WITH_QUANTILES}",
        Query(mean_of(workload_series, _ITERATIONS, "engine"), "{{engine}}: mean"),
        Query(quantile_of(0.5, workload_series, _ITERATIONS, "engine"), "{{engine}}: median"),
        Query(quantile_of(0.99, workload_series, _ITERATIONS, "engine"), "{{engine}}: 99th percentile"),
        unit="s",
        no_value=_NO_ENGINES,
    ),
    graph(
        "Outlier iterations",
        "Share of iterations that took more than three times the median. A prefill among short decodes is one as well.",
        Query(
            f"sum by (engine) (rate({workload_series('gpustall_engine_outlier_steps_total')}[$__rate_interval]))"
            f" / {_ITERATIONS_PER_SECOND}",
            "{{engine}}",
        ),
        unit="percentunit",
        limit=0.05,
        no_value=_NO_ENGINES,
    ),
    graph(
        "Idle engines",
        "Share of time in which a process of an engine gave the GPU no work for more than a second: there are no requests, or the"
        " client is busy, like an agent in a tool call.",
        Query(
            f"clamp_max(sum by (engine) (rate({workload_series('gpustall_engine_idle_seconds_total')}[$__rate_interval]))"
            f" / count by (engine) ({workload_series('gpustall_engine_idle_seconds_total')}), 1)",
            "{{engine}}",
        ),
        unit="percentunit",
        no_value=_NO_ENGINES,
    ),
    graph(
        "GPU time lost, by engine",
        "As a number of GPUs. Includes waits for requests of less than a minute.",
        Query(
            f"sum by (engine, cause) (rate({_LOST}[$__rate_interval]) * {_ENGINE_OF})",
            "{{engine}}: {{cause}}",
        ),
        unit=GPUS,
        no_value=_NO_ENGINES,
        is_stacked=True,
    ),
)

BOARD = Board(
    "gpustall-workload",
    "GPU stalls / Workload",
    "How do these ranks spend their time?",
    (
        Row("Now", _NUMBERS),
        Row("Thread time and lost time", _TIME_ROW),
        Row("Steps", _STEPS),
        Row("Serving", _SERVING, is_collapsed=True),
        Row("Network", _SOCKETS, is_collapsed=True),
        Row("CUDA", _CUDA),
        Row("Kernels, copies, graphs", _GPU_WORK, is_collapsed=True),
    ),
)
