"""Synthetic series of a fleet with faults of known sizes, with classic histograms, as promtool reads them.

A job of four ranks on the nodes a and b, a serving engine on a, GPUs and disks of a, exporters on four nodes. All is normal until
minute 30. From then on every step takes 2.6 times as long, and each other figure has changed as well, up to minute 100.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from exporter import units

BEFORE_MINUTES, DURING_MINUTES = 30, 70
STEP_BEFORE, STEP_DURING = 0.010, 0.026
"""Seconds: a slowdown of 2.6, between two neighbouring edges of the classic buckets."""

Labels = Mapping[str, str]
Series = dict[str, str]


def _named(metric: str, labels: Labels) -> str:
    pairs = ", ".join(f'{name}="{value}"' for name, value in labels.items() if value)
    return f"{metric}{{{pairs}}}"


def level(before: float, during: float) -> str:
    """Samples of a gauge."""
    return f"{before:g}x{BEFORE_MINUTES} {during:g}x{DURING_MINUTES - 1}"


def rising(before: float, during: float) -> str:
    """Samples of a counter, from its rates per second."""
    a_minute, later = 60 * before, 60 * during
    first = BEFORE_MINUTES * a_minute + later
    return f"0+{a_minute:.12g}x{BEFORE_MINUTES} {first:.12g}+{later:.12g}x{DURING_MINUTES - 1}"


def one_a_minute() -> str:
    """Samples of a counter of events, one a minute since the fault."""
    return rising(0, 1 / 60)


def on(where: str, /, **more: str) -> Labels:
    """Labels of the exporter of a node."""
    return {"job": "gpu-stall-exporter", "instance": f"{where}:10478", **more}


def of_node(**more: str) -> Labels:
    return on("a", node="a", **more)


def of_container(**more: str) -> Labels:
    return of_node(namespace="ml", container="job_4711", **more)


def rank(number: int, **more: str) -> Labels:
    """Labels of a rank: 0 and 1 are on node a, 2 and 3 on b."""
    node = "ab"[number // 2]
    return on(node, node=node, namespace="ml", container="job_4711", rank=str(number), **more)


def engine(**more: str) -> Labels:
    return of_node(container="vllm", **more)


def _histogram(metric: str, labels: Labels, seconds: tuple[float, float], calls: tuple[float, float]) -> Series:
    """Calls per second of these durations, before and during the fault, in classic buckets."""
    found = {
        _named(f"{metric}_sum", labels): rising(seconds[0] * calls[0], seconds[1] * calls[1]),
        _named(f"{metric}_count", labels): rising(*calls),
    }
    for edge in (*units.CLASSIC_EDGES_SECONDS, math.inf):
        below = [count if duration <= edge else 0.0 for duration, count in zip(seconds, calls, strict=True)]
        found[_named(f"{metric}_bucket", {**labels, "le": "+Inf" if edge == math.inf else repr(edge)})] = rising(*below)
    return found


def _of_ranks() -> Iterator[tuple[str, Labels, str]]:
    for one in range(4):
        yield "workload_info", rank(one, pid=str(10 + one), slurm_job_id="4711"), level(1, 1)
        yield "lost_seconds_total", rank(one, cause="cpu_contention"), rising(0.02, 0.6)
        yield "culprit_seconds_total", rank(one, cause="cpu_contention", culprit="rsync"), rising(0.02, 0.6)
        waits = rank(one, operation="cudaStreamSynchronize", state="gpu_wait")
        yield "thread_time_seconds_total", waits, rising(0.9, 0.35)
        yield "thread_time_seconds_total", rank(one, operation="gap", state="runnable"), rising(0.02, 0.6)
        launches = rank(one, api="runtime", operation="cudaLaunchKernel")
        yield "cuda_operations_total", launches, rising(10 / STEP_BEFORE, 10 / STEP_DURING)
        member = rank(one, communicator="1", hash="c0ffee", communicator_rank=str(one), nranks="4")
        yield "nccl_communicator_info", member, level(1, 1)
        lag = (0.0002, 0.0052) if one == 2 else (0.0, 0.0)
        yield "nccl_arrival_lag_seconds_total", rank(one), rising(lag[0] / STEP_BEFORE, lag[1] / STEP_DURING)
        yield "nccl_enqueued_total", rank(one), rising(1 / STEP_BEFORE, 1 / STEP_DURING)
        stuck = 0.01 if one == 3 else 0.0
        yield "nccl_completed_total", rank(one), rising(1 / STEP_BEFORE, 1 / STEP_DURING - stuck)
        yield "exporter_overhead_ratio", rank(one), level(0.002, 0.03 if one == 0 else 0.002)
    yield "lost_seconds_total", rank(0, cause="other"), rising(0.01, 0.01)
    yield "wait_chain_seconds_total", rank(0, blocked_on="pipe", state="disk"), rising(0.01, 0.5)
    yield "network_socket_segments_total", rank(0, peer="other"), rising(1000, 1000)
    yield "network_socket_retransmits_total", rank(0, peer="other"), rising(1, 50)
    yield "network_socket_round_trip_seconds", rank(0, peer="other"), level(0.0002, 0.005)
    yield "network_sockets", rank(0, peer="other"), level(8, 4)
    yield "network_socket_congestion_window", rank(0, peer="other"), level(10, 2)
    yield "cuda_memcpy_bytes_total", rank(0, direction="h2d"), rising(1e9, 4e8)
    yield "cuda_operation_errors_total", rank(0, api="runtime", operation="cudaMalloc", code="2"), one_a_minute()
    yield "cuda_memory_live_bytes", rank(0), level(1e10, 3e10)
    yield "cuda_memory_allocated_bytes_total", rank(0), rising(1e6, 1e9)
    yield "cuda_memory_freed_bytes_total", rank(0), rising(1e6, 9e8)
    yield "cuda_memory_peak_bytes", rank(0), level(1.2e10, 4e10)
    yield "cuda_memory_managed_bytes", rank(0), level(1e9, 9e10)
    yield "cuda_memory_pinned_bytes", rank(0), level(2e9, 1e9)
    yield "kernel_launches_total", rank(0, source="single"), rising(1000, 385)
    yield "kernel_launch_sizes_total", rank(0, blocks="128"), rising(500, 1500)
    copies = {"blocking": "true", "direction": "h2d", "memory": "pageable"}
    yield "memcpy_host_bytes_total", rank(0, **copies), rising(1.2e9, 2e9)
    yield "memcpy_host_time_seconds_total", rank(0, **copies), rising(0.1, 0.5)
    yield "graph_captures_total", rank(0, result="ended"), rising(0.1, 2)
    yield "graph_instantiations_total", rank(0), rising(0.1, 3)
    yield "graph_launches_total", rank(0), rising(100, 40)
    yield "graph_open_captures", rank(0), level(0, 3)
    yield "graph_never_launched", rank(0), level(0, 50)
    yield "cold_start_seconds", rank(0, effect="gap"), level(2, 20)
    yield "nccl_operation_bytes_total", rank(0, operation="all_reduce", communicator="1"), rising(1e9, 3.85e8)
    yield "memory_swap_bytes", rank(0), level(1e6, 5e9)
    yield "block_wait_seconds_total", rank(0, device="nvme0n1"), rising(0.05, 0.4)
    yield "process_exits_total", rank(0, member="worker", outcome="signal", code="9"), one_a_minute()
    yield "process_forks_total", rank(0, kind="thread"), rising(0.1, 50)
    yield "device_process_memory_bytes", rank(0, gpu="0"), level(2e10, 6e10)
    yield "exporter_sampled_processes", rank(0), level(0, 2)


def _of_chains() -> Iterator[tuple[str, Labels, str]]:
    for number, cause, severity in ((2, "cpu_contention", 4), (1, "own_code", 2), (3, "nccl_hang", 4)):
        yield "chain_active", rank(number, cause=cause, effect="gap"), level(0, 1)
        yield "chain_severity", rank(number, cause=cause, effect="gap"), level(0, severity)
    known = rank(2, cause="cpu_contention", chain_id="6f95", culprit="rsync")
    yield "chain_info", known, f"_x{BEFORE_MINUTES + 1} 1x{DURING_MINUTES - 1}"
    of_chain = rank(2, cause="cpu_contention", chain_id="6f95")
    yield "chain_lost_ratio", of_chain, f"_x{BEFORE_MINUTES + 1} 0.6x{DURING_MINUTES - 1}"
    yield "chain_worst_lost_ratio", of_chain, f"_x{BEFORE_MINUTES + 1} 0.7x{DURING_MINUTES - 1}"
    opened = rank(2, cause="cpu_contention", effect="gap", severity="high")
    yield "chains_total", opened, one_a_minute()
    yield "chain_escalations_total", opened, one_a_minute()


def _of_the_engine() -> Iterator[tuple[str, Labels, str]]:
    yield "workload_info", engine(pid="20"), level(1, 1)
    yield "engine_info", engine(engine="vllm"), level(1, 1)
    yield "lost_seconds_total", engine(cause="block_io"), rising(0.05, 0.4)
    yield "culprit_seconds_total", engine(cause="block_io", culprit="tar"), rising(0.05, 0.4)
    yield "cuda_operations_total", engine(api="runtime", operation="cudaMemcpyAsync"), rising(100, 0)
    yield "engine_outlier_steps_total", engine(engine="vllm"), rising(0.5, 4.8)
    yield "engine_idle_seconds_total", engine(engine="vllm"), rising(0.1, 0.7)


def _of_the_host() -> Iterator[tuple[str, Labels, str]]:
    yield "cpu_steal_seconds_total", of_node(), rising(0.05, 1.5)
    yield "cpu_irq_seconds_total", of_node(), rising(0.1, 0.1)
    yield "cpu_softirq_seconds_total", of_node(), rising(0.1, 0.4)
    yield "cpu_quota_throttled_seconds_total", of_container(), rising(0.01, 0.8)
    yield "memory_used_bytes", of_container(), level(1e10, 3e10)
    yield "memory_limit_bytes", of_container(), level(4e10, 4e10)
    yield "memory_major_faults_total", of_container(), rising(1, 300)
    yield "memory_oom_kills_total", of_container(), one_a_minute()
    yield "network_retransmits_total", of_container(kind="data", family="ipv4"), rising(1, 50)
    yield "network_interface_drops_total", of_node(interface="eth0", direction="received"), rising(0, 20)
    yield "network_queue_drops_total", of_node(interface="eth0", direction="sent"), rising(0, 30)
    yield "network_interface_errors_total", of_node(interface="eth0", direction="received"), rising(0, 3)
    yield "block_bytes_total", of_container(device="nvme0n1", direction="read"), rising(1e8, 4e7)
    yield "block_errors_total", of_node(device="nvme0n1", direction="read"), rising(0, 2)


def _of_gpus() -> Iterator[tuple[str, Labels, str]]:
    yield "device_up", of_node(gpu="0"), level(1, 1)
    yield "device_throttled_seconds_total", of_node(gpu="0", reason="thermal_hw"), rising(0, 0.7)
    yield "device_clock_hertz", of_node(gpu="0", part="sm"), level(1.98e9, 0.99e9)
    yield "device_clock_max_hertz", of_node(gpu="0", part="sm"), level(1.98e9, 1.98e9)
    yield "device_power_watts", of_node(gpu="0"), level(350, 690)
    yield "device_power_limit_watts", of_node(gpu="0"), level(700, 700)
    yield "device_temperature_celsius", of_node(gpu="0", part="gpu"), level(45, 88)
    yield "device_temperature_slowdown_celsius", of_node(gpu="0"), level(90, 90)
    yield "device_untraced_memory_bytes", of_node(gpu="0"), level(1e9, 1e10)
    yield "device_memory_bytes", of_node(gpu="0", state="free"), level(6e10, 1e10)
    yield "device_pcie_bytes_total", of_node(gpu="0", direction="sent"), rising(1e10, 4e9)
    yield "device_nvlink_bytes_total", of_node(gpu="0", direction="received"), rising(2e10, 8e9)
    yield "device_xid_errors_total", of_node(gpu="0", xid="79"), one_a_minute()
    yield "device_ecc_errors_total", of_node(gpu="0", kind="uncorrected"), one_a_minute()


def _of_exporters() -> Iterator[tuple[str, Labels, str]]:
    """The exporter of c stops, that of d is no longer a target: both at minute 81."""
    always, ends = level(1, 1), f"1x{BEFORE_MINUTES + 50} stale"
    for node, samples in (("a", always), ("b", always), ("c", ends), ("d", ends)):
        yield "exporter_build_info", on(node, version="1.0"), samples
        yield "exporter_tracked_processes", on(node), samples
    own = on("a")
    yield "exporter_losses_total", on("a", program="cuda", reason="calls_full"), one_a_minute()
    yield "exporter_accounting_error_ratio", on("a", figure="run_delay"), level(0.001, 0.02)
    yield "exporter_accounting_error_ratio", on("a", figure="balance"), level(0.01, 0.08)
    yield "exporter_map_entries", on("a", map="calls"), level(100, 950)
    yield "exporter_map_capacity", on("a", map="calls"), level(1000, 1000)
    yield "exporter_healed_switches_total", own, rising(0.1, 20)
    yield "exporter_attach_failures_total", on("a", library="nccl", reason="no_symbols"), one_a_minute()
    yield "exporter_refused_total", on("a", resource="workloads", owner="u1000"), one_a_minute()
    yield "exporter_collector_success", on("a", collector="nccl"), level(1, 0)
    yield "exporter_attachments", on("a", library="cuda"), level(2, 1)
    yield "exporter_attached_functions", on("a", library="cuda"), level(120, 60)
    yield "exporter_tick_time_seconds_total", own, rising(0.005, 0.03)
    yield "exporter_tick_duration_seconds", own, level(0.01, 0.2)
    yield "exporter_publish_duration_seconds", own, level(0.002, 0.05)
    yield "exporter_render_duration_seconds", on("a", format="text"), level(0.003, 0.06)
    yield "exporter_series", own, level(500, 5000)
    yield "exporter_history_bytes", own, level(1e6, 9e8)
    yield "exporter_pushes_total", on("a", receiver="r", outcome="failed"), rising(0, 1)
    yield "exporter_pushed_points_total", on("a", receiver="r"), rising(500, 50)
    yield "exporter_push_rejected_points_total", on("a", receiver="r"), rising(0, 20)


def series() -> Series:
    """All of it, with the targets of Prometheus, of which one is no exporter."""
    found = {
        _named(f"gpustall_{metric}", labels): samples
        for part in (_of_ranks(), _of_chains(), _of_the_engine(), _of_the_host(), _of_gpus(), _of_exporters())
        for metric, labels, samples in part
    }
    waits = {2: 0.0013}
    rates = (1 / STEP_BEFORE, 1 / STEP_DURING)
    for one in range(4):
        found |= _histogram("gpustall_step_duration_seconds", rank(one), (STEP_BEFORE, STEP_DURING), rates)
        wait = (0.002, waits.get(one, 0.013))
        found |= _histogram("gpustall_nccl_wait_seconds", rank(one, communicator="1"), wait, rates)
    calls = rank(0, api="runtime", operation="cudaStreamSynchronize")
    found |= _histogram("gpustall_cuda_operation_duration_seconds", calls, (0.009, 0.0234), rates)
    reductions = rank(0, operation="all_reduce", communicator="1")
    found |= _histogram("gpustall_nccl_operation_duration_seconds", reductions, (20e-6, 52e-6), rates)
    iterations = engine(engine="vllm")
    found |= _histogram("gpustall_engine_step_duration_seconds", iterations, (0.008, 0.0208), (125, 48))
    found |= _histogram("gpustall_memory_reclaim_duration_seconds", of_container(), (0.001, 0.01), (1, 30))
    healthy = on("b", node="b", device="nvme0n1", direction="read")
    found |= _histogram("gpustall_block_device_duration_seconds", healthy, (200e-6, 200e-6), (1000, 9000))
    reads = of_node(device="nvme0n1", direction="read")
    found |= _histogram("gpustall_block_device_duration_seconds", reads, (200e-6, 520e-6), (1000, 500))
    found |= _histogram("gpustall_block_queue_duration_seconds", reads, (300e-6, 780e-6), (1000, 500))
    answers, fails, vanishes = level(1, 1), f"1x{BEFORE_MINUTES + 50} 0x19", f"1x{BEFORE_MINUTES + 50} stale"
    for node, samples in (("a", answers), ("b", answers), ("c", fails), ("d", vanishes)):
        found[_named("up", on(node))] = samples
    found[_named("up", {"job": "node", "instance": "a:9100"})] = level(1, 0)
    found[_named("process_cpu_seconds_total", on("a"))] = rising(0.01, 0.05)
    found[_named("process_resident_memory_bytes", on("a"))] = level(4e7, 9e7)
    return found
