"""Where does the time of these ranks go? For whoever owns the job, and whoever was paged for it."""

from __future__ import annotations

from dashboards.boards import Board, Row, of_places, of_workloads, or_none, or_zero
from dashboards.panels import Query, bars, graph, stat

FEEDING = 'operation!~"other_gap|worker|idle|abandoned"'
"""Thread time of the threads that launch and synchronise: in their calls, and between them."""

_LOST = of_workloads("gpustall_lost_seconds_total")
_CULPRIT = of_workloads("gpustall_culprit_seconds_total", 'culprit!=""')
_TIME = of_workloads("gpustall_thread_time_seconds_total", FEEDING)
_PROCESSES = of_workloads("gpustall_workload_info")
_RUNTIME = 'api="runtime"'
GPU_WAIT = 'state="gpu_wait"'


"""What is known of a node and not of a rank."""


def of_steps(quantile: float) -> str:
    """Of the duration of steps, whichever kind of histogram Prometheus has of it."""
    return quantile_of(quantile, "gpustall_step_duration_seconds")


def quantile_of(quantile: float, metric: str, *by: str, matchers: tuple[str, ...] = ()) -> str:
    """Of a classic histogram, or of a native one where it has no buckets with `le`."""
    classic, native = of_workloads(f"{metric}_bucket", *matchers), of_workloads(metric, *matchers)
    grouped = f" by ({', '.join(by)})" if by else ""
    return (
        f"histogram_quantile({quantile}, sum by ({', '.join(('le', *by))}) (rate({classic}[$__rate_interval])))"
        f" or histogram_quantile({quantile}, sum{grouped} (rate({native}[$__rate_interval])))"
    )


_NUMBERS = (
    stat("Ranks", "Processes that are chosen above.", f"count({_PROCESSES})"),
    stat(
        "GPU time lost",
        "Part of the time in which the host made the GPU wait.",
        f"sum(rate({_LOST}[$__rate_interval])) / count({_PROCESSES})",
        "percentunit",
        decimals=1,
        thresholds=((None, "green"), (0.05, "yellow"), (0.25, "orange"), (0.5, "red")),
    ),
    stat("Step, median", "From one training step to the next.", of_steps(0.5), "s", decimals=2),
    stat("Step, 99th percentile", "Of a hundred steps one takes longer.", of_steps(0.99), "s", decimals=2),
    stat(
        "Worst open chain",
        "1 low, 2 medium, 3 high, 4 critical.",
        or_zero(f"max({of_workloads('gpustall_chain_severity')})", _PROCESSES),
        thresholds=((None, "green"), (2, "yellow"), (3, "orange"), (4, "red")),
    ),
    stat(
        "GPU memory",
        "Allocated and not yet freed, of the allocations that the exporter saw.",
        f"sum({of_workloads('gpustall_cuda_memory_live_bytes')})",
        "bytes",
    ),
)

_WHERE = (
    graph(
        "Where the time goes",
        "Every second of the threads that feed the GPU, by what they did; the parts add up to the number of these threads."
        " gpu_wait is the GPU at work, or a thread that waits for it; everything else is the host.",
        Query(f"sum by (state) (rate({_TIME}[$__rate_interval]))", "{{state}}"),
        is_stacked=True,
        height=11,
    ),
    graph(
        "GPU time lost, by cause",
        "Of that, what made the GPU wait, as a number of GPUs.",
        Query(f"sum by (cause) (rate({_LOST}[$__rate_interval]))", "{{cause}}"),
        is_stacked=True,
        height=11,
    ),
    graph(
        "In which calls",
        "The same threads by the call they were in; gap is the time between two calls.",
        Query(f"sum by (operation) (rate({_TIME}[$__rate_interval]))", "{{operation}}"),
        is_stacked=True,
    ),
    bars(
        "Culprits",
        "Who took it: programs that held the CPU instead, over the range of time that is shown.",
        Query(f"sort_desc(sum by (cause, culprit) (rate({_CULPRIT}[$__range])) > 0)", "{{cause}}: {{culprit}}"),
        "short",
    ),
)

_STEPS = (
    graph(
        "Step duration",
        "Quantiles over the ranks that are chosen.",
        Query(of_steps(0.5), "median"),
        Query(of_steps(0.99), "99th percentile"),
        unit="s",
    ),
    graph(
        "What the feeding thread slept for",
        "Between two calls, until another thread or process of the job woke it: what that one did meanwhile. The DataLoader's own"
        " reason is here.",
        Query(
            f"sum by (blocked_on, state) (rate({of_workloads('gpustall_wait_chain_seconds_total')}[$__rate_interval]))",
            "{{blocked_on}}: {{state}}",
        ),
        is_stacked=True,
    ),
)

_CUDA = (
    graph(
        "CUDA calls",
        "Calls of the runtime in a second.",
        Query(
            f"sum by (operation) (rate({of_workloads('gpustall_cuda_operations_total', _RUNTIME)}[$__rate_interval]))",
            "{{operation}}",
        ),
        unit="ops",
    ),
    graph(
        "CUDA calls, 99th percentile",
        "Host time from entry to return; an asynchronous call only enqueues.",
        Query(
            quantile_of(0.99, "gpustall_cuda_operation_duration_seconds", "operation", matchers=(_RUNTIME,)),
            "{{operation}}",
        ),
        unit="s",
    ),
    graph(
        "Copies",
        "Bytes asked for in a second, by direction.",
        Query(
            f"sum by (direction) (rate({of_workloads('gpustall_cuda_memcpy_bytes_total')}[$__rate_interval]))",
            "{{direction}}",
        ),
        unit="Bps",
    ),
    graph(
        "CUDA errors",
        "Calls that returned an error; 2 is out of memory.",
        Query(
            "sum by (operation, code)"
            f" (rate({of_workloads('gpustall_cuda_operation_errors_total', _RUNTIME)}[$__rate_interval]))",
            "{{operation}}: {{code}}",
        ),
        unit="ops",
    ),
    graph(
        "GPU memory",
        "Allocated and not yet freed, by rank.",
        Query(f"sum by (rank) ({of_workloads('gpustall_cuda_memory_live_bytes')})", "rank {{rank}}"),
        unit="bytes",
    ),
    graph(
        "GPU memory, allocated and freed",
        "Bytes in a second. As much of both, and a lot of it: an allocator that returns what it needs again in the next step.",
        Query(
            f"sum(rate({of_workloads('gpustall_cuda_memory_allocated_bytes_total')}[$__rate_interval]))", "allocated"
        ),
        Query(f"sum(rate({of_workloads('gpustall_cuda_memory_freed_bytes_total')}[$__rate_interval]))", "freed"),
        unit="Bps",
    ),
)

_COPIES = 'blocking="true"'
_STEP_TIME = (
    f"(sum(rate({of_workloads('gpustall_step_duration_seconds_sum')}[$__rate_interval]))"
    f" or histogram_sum(sum(rate({of_workloads('gpustall_step_duration_seconds')}[$__rate_interval]))))"
)
"""Seconds of steps in a second: as many as there are ranks that make steps."""

_GIVEN = (
    graph(
        "Kernels",
        "Given to the GPU in a second, one by one or in graphs.",
        Query(
            f"sum by (source) (rate({of_workloads('gpustall_kernel_launches_total')}[$__rate_interval]))", "{{source}}"
        ),
        unit="ops",
        is_stacked=True,
    ),
    graph(
        "Steps that the host sets the pace of",
        "Part of a step in which no thread that feeds the GPU waits for it. Near 1 the GPU waits for the host: launch less,"
        " larger or in graphs.",
        Query(
            f"1 - sum(rate({of_workloads('gpustall_thread_time_seconds_total', FEEDING, GPU_WAIT)}[$__rate_interval]))"
            f" / {_STEP_TIME}",
            "host",
        ),
        unit="percentunit",
    ),
    graph(
        "Kernels by the size of their grid",
        "At most so many blocks. A GPU has some 130 places for blocks and more: a smaller grid leaves part of it idle.",
        Query(
            f"sum by (blocks) (rate({of_workloads('gpustall_kernel_launch_sizes_total')}[$__rate_interval]))",
            "{{blocks}}",
        ),
        unit="ops",
        is_stacked=True,
    ),
    graph(
        "Copies that are waited for: how fast",
        "Bytes in a second of such calls, by direction and memory. Pageable memory is copied twice, and reaches a third of what"
        " pinned memory does.",
        Query(
            f"sum by (direction, memory) (rate({of_workloads('gpustall_memcpy_host_bytes_total', _COPIES)}[$__rate_interval]))"
            " / sum by (direction, memory)"
            f" (rate({of_workloads('gpustall_memcpy_host_time_seconds_total', _COPIES)}[$__rate_interval]))",
            "{{direction}}, {{memory}}",
        ),
        unit="Bps",
    ),
    graph(
        "Copies that are waited for: how long",
        "Part of the time of a rank that is spent in them.",
        Query(
            "sum by (direction, memory)"
            f" (rate({of_workloads('gpustall_memcpy_host_time_seconds_total', _COPIES)}[$__rate_interval]))"
            f" / scalar(count({_PROCESSES}))",
            "{{direction}}, {{memory}}",
        ),
        unit="percentunit",
    ),
    graph(
        "Graphs",
        "Captures, instantiations and launches in a second; and how many are open, or were made and never launched.",
        Query(
            f"sum by (result) (rate({of_workloads('gpustall_graph_captures_total')}[$__rate_interval]))",
            "{{result}} a second",
        ),
        Query(f"sum(rate({of_workloads('gpustall_graph_instantiations_total')}[$__rate_interval]))", "made a second"),
        Query(f"sum(rate({of_workloads('gpustall_graph_launches_total')}[$__rate_interval]))", "launched a second"),
        Query(f"sum({of_workloads('gpustall_graph_open_captures')})", "open captures"),
        Query(f"sum({of_workloads('gpustall_graph_never_launched')})", "never launched"),
        unit="short",
    ),
    graph(
        "Cold start",
        "Seconds that the first steps spent in such calls beyond as many steady ones; by rank.",
        Query(f"sum by (rank, effect) ({of_workloads('gpustall_cold_start_seconds')})", "rank {{rank}}: {{effect}}"),
        unit="s",
    ),
    graph(
        "Memory that is not simply the GPU's",
        "Managed memory, which moves between host and GPU and may be more than that has; pinned memory of the host; and the most"
        " that was allocated at a time.",
        Query(f"sum by (rank) ({of_workloads('gpustall_cuda_memory_peak_bytes')})", "rank {{rank}}: most"),
        Query(f"sum by (rank) ({of_workloads('gpustall_cuda_memory_managed_bytes')})", "rank {{rank}}: managed"),
        Query(f"sum by (rank) ({of_workloads('gpustall_cuda_memory_pinned_bytes')})", "rank {{rank}}: pinned"),
        unit="bytes",
    ),
)
"""What the GPU is given to do."""

_BY_CONTAINER = "sum by (node, container)"
_OF_CONTAINER = "{{container}} on {{node}}"

_CONTAINERS = (
    graph(
        "Memory freed before it is given",
        "Seconds in a second that tasks of a container spend in direct reclaim, traced or not.",
        Query(
            or_none(
                f"{_BY_CONTAINER} (rate({of_workloads('gpustall_memory_reclaim_duration_seconds_sum')}[$__rate_interval]))"
                f" or histogram_sum({_BY_CONTAINER}"
                f" (rate({of_workloads('gpustall_memory_reclaim_duration_seconds')}[$__rate_interval])))",
                _PROCESSES,
                *("node", "container"),
            ),
            _OF_CONTAINER,
        ),
        unit="s",
    ),
    graph(
        "Memory",
        "What the containers have, page cache included, and may have; and what of the ranks is swapped out.",
        Query(f"{_BY_CONTAINER} ({of_workloads('gpustall_memory_used_bytes')})", f"{_OF_CONTAINER}: has"),
        Query(f"{_BY_CONTAINER} ({of_workloads('gpustall_memory_limit_bytes')})", f"{_OF_CONTAINER}: may have"),
        Query(
            or_none(f"{_BY_CONTAINER} ({of_workloads('gpustall_memory_swap_bytes')})", _PROCESSES, "node", "container"),
            f"{_OF_CONTAINER}: swapped out",
        ),
        unit="bytes",
    ),
    graph(
        "Major faults and OOM kills",
        "In a second: pages that had to be read, and processes that the kernel ended for want of memory.",
        Query(
            f"{_BY_CONTAINER} (rate({of_workloads('gpustall_memory_major_faults_total')}[$__rate_interval]))",
            f"{_OF_CONTAINER}: faults",
        ),
        Query(
            f"{_BY_CONTAINER} (rate({of_workloads('gpustall_memory_oom_kills_total')}[$__rate_interval]))",
            f"{_OF_CONTAINER}: kills",
        ),
        unit="ops",
    ),
    graph(
        "CPUs taken away",
        "As a number of CPUs: by the containers' own quota, by the hypervisor, by interrupts.",
        Query(
            f"{_BY_CONTAINER} (rate({of_workloads('gpustall_cpu_quota_throttled_seconds_total')}[$__rate_interval]))",
            f"{_OF_CONTAINER}: quota",
        ),
        Query(
            f"sum by (node) (rate({of_workloads('gpustall_cpu_steal_seconds_total')}[$__rate_interval]))",
            "{{node}}: hypervisor",
        ),
        Query(
            f"sum by (rank) (rate({of_workloads('gpustall_interrupted_seconds_total')}[$__rate_interval]))",
            "rank {{rank}}: interrupts",
        ),
        Query(
            f"sum by (node) (rate({of_workloads('gpustall_cpu_irq_seconds_total')}[$__rate_interval]))"
            f" + sum by (node) (rate({of_workloads('gpustall_cpu_softirq_seconds_total')}[$__rate_interval]))",
            "{{node}}: interrupts",
        ),
    ),
)
"""Of containers and machines: nothing where a rank is chosen."""

_SOCKETS = (
    graph(
        "TCP segments sent again",
        "Of the sockets of these ranks, as a part of what they sent, by who is at the other end. What they receive is sent again"
        " by the others, and is not here.",
        Query(
            f"sum by (peer) (rate({of_workloads('gpustall_network_socket_retransmits_total')}[$__rate_interval]))"
            f" / sum by (peer) (rate({of_workloads('gpustall_network_socket_segments_total')}[$__rate_interval]))",
            "{{peer}}",
        ),
        unit="percentunit",
    ),
    graph(
        "Round trip",
        "The longest one of the sockets of these ranks, as TCP smooths it.",
        Query(f"max by (peer) ({of_workloads('gpustall_network_socket_round_trip_seconds')})", "{{peer}}"),
        unit="s",
    ),
    graph(
        "Connections and the smallest congestion window",
        "Connections by who is at the other end; and how many segments the slowest of them may have on their way.",
        Query(f"sum by (peer) ({of_workloads('gpustall_network_sockets')})", "{{peer}}: connections"),
        Query(f"min by (peer) ({of_workloads('gpustall_network_socket_congestion_window')})", "{{peer}}: window"),
        unit="short",
    ),
    graph(
        "Containers that send again",
        "TCP segments in a second that the sockets of a container sent again, traced or not; a handshake is a peer"
        " that does not answer.",
        Query(
            or_none(
                f"sum by (container, kind) (rate({of_places('gpustall_network_retransmits_total')}[$__rate_interval])) > 0",
                _PROCESSES,
                *("container", "kind"),
            ),
            "{{container}}: {{kind}}",
        ),
        unit="pps",
    ),
    graph(
        "Interfaces that drop",
        "Packets in a second that interfaces and the queues before them dropped, or that had errors.",
        *(
            Query(
                or_none(
                    "sum by (node, interface, direction)"
                    f" (rate({of_places(f'gpustall_network_{what}_total')}[$__rate_interval])) > 0",
                    _PROCESSES,
                    *("node", "interface", "direction"),
                ),
                f"{{{{node}}}} {{{{interface}}}} {{{{direction}}}}: {said}",
            )
            for what, said in (("interface_drops", "dropped"), ("queue_drops", "queue"), ("interface_errors", "errors"))
        ),
        unit="pps",
        width=24,
    ),
)

_ITERATIONS = "gpustall_engine_step_duration_seconds"
_ENGINE = of_workloads("gpustall_engine_info")
_OF_ONE_WORKLOAD = "(instance, node, rank, container, namespace, pod)"
_ENGINE_OF = (
    f"on {_OF_ONE_WORKLOAD} group_left (engine)"
    f" ({_ENGINE} and on {_OF_ONE_WORKLOAD} count by {_OF_ONE_WORKLOAD} ({_ENGINE}) == 1)"
)
"""Of a workload whose processes have one and the same."""

_ITERATIONS_PER_SECOND = (
    f"(sum by (engine) (rate({of_workloads(f'{_ITERATIONS}_count')}[$__rate_interval]))"
    f" or sum by (engine) (histogram_count(rate({of_workloads(_ITERATIONS)}[$__rate_interval]))))"
)

_SERVING = (
    graph(
        "Iterations of engines",
        "From one output to the next, prefill and decode alike, without idleness.",
        Query(quantile_of(0.5, _ITERATIONS, "engine"), "{{engine}}: median"),
        Query(quantile_of(0.99, _ITERATIONS, "engine"), "{{engine}}: 99th percentile"),
        unit="s",
    ),
    graph(
        "Outliers",
        "Iterations that took more than three times as long as usual, as a part of all. A prefill among short decodes is one as"
        " well.",
        Query(
            f"sum by (engine) (rate({of_workloads('gpustall_engine_outlier_steps_total')}[$__rate_interval]))"
            f" / {_ITERATIONS_PER_SECOND}",
            "{{engine}}",
        ),
        unit="percentunit",
    ),
    graph(
        "Engines without anything to do",
        "Part of the time in which a process of an engine gave the GPU no work for more than a second: nobody asks, or whoever"
        " does is busy with something else, as an agent in a tool call.",
        Query(
            f"sum by (engine) (rate({of_workloads('gpustall_engine_idle_seconds_total')}[$__rate_interval]))"
            f" / count by (engine) ({of_workloads('gpustall_engine_idle_seconds_total')})",
            "{{engine}}",
        ),
        unit="percentunit",
    ),
    graph(
        "What engines and frameworks lose",
        "GPU time lost by the host's fault, as a number of GPUs. Waiting for requests for less than a minute is in it.",
        Query(
            f"sum by (engine, cause) (rate({_LOST}[$__rate_interval]) * {_ENGINE_OF})",
            "{{engine}}: {{cause}}",
        ),
        is_stacked=True,
    ),
)

BOARD = Board(
    "gpustall-workload",
    "GPU stalls / Workload",
    "Where does the time of these ranks go?",
    (
        Row("Now", _NUMBERS),
        Row("Where the time goes", _WHERE),
        Row("Steps", _STEPS),
        Row("Serving", _SERVING, is_collapsed=True),
        Row("Network", _SOCKETS, is_collapsed=True),
        Row("CUDA", _CUDA),
        Row("Kernels, copies, graphs", _GIVEN, is_collapsed=True),
        Row("Containers", _CONTAINERS, is_collapsed=True),
    ),
)
