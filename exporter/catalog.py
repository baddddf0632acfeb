"""Every metric once: name, type, unit, labels and help. The README's table and the tests are made from it.

A name serves two worlds: `otel_name` plus `unit` translates to `name` by the standard rule (dots to underscores, the unit
spelled out, `_total` on counters).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

COMMON_LABELS = ("node", "rank", "container", "namespace", "pod")
"""On every workload metric, always written, empty included. The exporter's own metrics carry none of them."""


class Kind(enum.StrEnum):
    """Prometheus type."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. name: as in a query, `_total` included. unit: UCUM, as OpenTelemetry writes it; "" for none."""

    name: str
    otel_name: str
    unit: str
    kind: Kind
    labels: tuple[str, ...]
    help: str

    @property
    def is_fractional(self) -> bool:
        """Whether its totals are billionths of its unit: nanoseconds, shares, nanowatts and nanojoules."""
        return self.unit in ("s", "1", "W", "J")


CUDA_OPERATION_DURATION = Metric(
    "gpustall_cuda_operation_duration_seconds",
    "gpustall.cuda.operation.duration",
    "s",
    Kind.HISTOGRAM,
    ("api", "operation"),
    "Host time from entry into to return from a CUDA call; for an asynchronous call the time to enqueue it, not the time on"
    " the GPU. Runtime calls include the driver calls they make, so the two api values are never added.",
)
CUDA_OPERATIONS = Metric(
    "gpustall_cuda_operations_total",
    "gpustall.cuda.operations",
    "{operation}",
    Kind.COUNTER,
    ("api", "operation"),
    "CUDA calls that returned, or that began where returns are not probed, including driver calls made by a runtime call, whose"
    " duration is not recorded separately.",
)
CUDA_OPERATION_ERRORS = Metric(
    "gpustall_cuda_operation_errors_total",
    "gpustall.cuda.operation.errors",
    "{error}",
    Kind.COUNTER,
    ("api", "operation", "code"),
    "CUDA calls that returned an error, by numeric code such as 2 for out of memory; not ready (600) is no error.",
)
CUDA_MEMCPY_BYTES = Metric(
    "gpustall_cuda_memcpy_bytes_total",
    "gpustall.cuda.memcpy",
    "By",
    Kind.COUNTER,
    ("direction",),
    "Bytes asked for by copies that returned without error; an asynchronous copy counts when it is enqueued.",
)
CUDA_MEMORY_LIVE = Metric(
    "gpustall_cuda_memory_live_bytes",
    "gpustall.cuda.memory.live",
    "By",
    Kind.GAUGE,
    (),
    "Device and managed memory allocated and not yet freed, of the allocations seen since the exporter started.",
)
CUDA_MEMORY_ALLOCATED = Metric(
    "gpustall_cuda_memory_allocated_bytes_total",
    "gpustall.cuda.memory.allocated",
    "By",
    Kind.COUNTER,
    (),
    "Bytes of device and managed memory allocated by calls that returned without error.",
)
CUDA_MEMORY_FREED = Metric(
    "gpustall_cuda_memory_freed_bytes_total",
    "gpustall.cuda.memory.freed",
    "By",
    Kind.COUNTER,
    (),
    "Bytes freed by calls that returned without error, of allocations whose size was seen.",
)
CUDA_MEMORY_PEAK = Metric(
    "gpustall_cuda_memory_peak_bytes",
    "gpustall.cuda.memory.peak",
    "By",
    Kind.GAUGE,
    (),
    "The most device and managed memory that was allocated and not freed at a time, since the process was first seen.",
)
CUDA_MEMORY_MANAGED = Metric(
    "gpustall_cuda_memory_managed_bytes",
    "gpustall.cuda.memory.managed",
    "By",
    Kind.GAUGE,
    (),
    "Managed memory allocated and not yet freed: part of the live bytes, and the only part that may exceed the GPU's memory.",
)
CUDA_MEMORY_PINNED = Metric(
    "gpustall_cuda_memory_pinned_bytes",
    "gpustall.cuda.memory.pinned",
    "By",
    Kind.GAUGE,
    (),
    "Host memory that cannot be moved or swapped, because it was allocated by cudaHostAlloc() or registered by"
    " cudaHostRegister() and not yet given back.",
)
CUDA_MEMORY_ALLOCATIONS = Metric(
    "gpustall_cuda_memory_allocations",
    "gpustall.cuda.memory.allocations",
    "{allocation}",
    Kind.GAUGE,
    (),
    "Allocations that were made and not yet freed, of device, managed and pinned memory.",
)
CUDA_MEMORY_UNKNOWN_FREES = Metric(
    "gpustall_cuda_memory_unknown_frees_total",
    "gpustall.cuda.memory.unknown_frees",
    "{free}",
    Kind.COUNTER,
    (),
    "Frees of addresses whose allocation was not seen; their size is unknown and subtracted from nothing.",
)
MEMCPY_HOST_BYTES = Metric(
    "gpustall_memcpy_host_bytes_total",
    "gpustall.memcpy.host",
    "By",
    Kind.COUNTER,
    ("direction", "memory", "blocking"),
    "Bytes that copies between host and GPU were asked for, of calls that returned without error, by the kind of the host's"
    " memory; blocking where the call returns only when that memory has been read or written.",
)
MEMCPY_HOST_TIME = Metric(
    "gpustall_memcpy_host_time_seconds_total",
    "gpustall.memcpy.host.time",
    "s",
    Kind.COUNTER,
    ("direction", "memory", "blocking"),
    "Host time in those calls, from entry to return: where they are blocking the bytes went in this time, together with what"
    " the stream had to do before; else it is the time to enqueue.",
)
GRAPH_CAPTURES = Metric(
    "gpustall_graph_captures_total",
    "gpustall.graph.captures",
    "{capture}",
    Kind.COUNTER,
    ("result",),
    "Captures of a stream into a CUDA graph that have ended, with a graph or without.",
)
GRAPH_OPEN_CAPTURES = Metric(
    "gpustall_graph_open_captures",
    "gpustall.graph.open_captures",
    "{capture}",
    Kind.GAUGE,
    (),
    "Captures that have begun and not ended: one that stays was abandoned, and what its stream is given is never done.",
)
GRAPH_CAPTURE_TIME = Metric(
    "gpustall_graph_capture_time_seconds_total",
    "gpustall.graph.capture.time",
    "s",
    Kind.COUNTER,
    (),
    "From the return of cudaStreamBeginCapture() to that of cudaStreamEndCapture(), of captures that have ended: what is"
    " launched meanwhile is not done.",
)
GRAPH_INSTANTIATIONS = Metric(
    "gpustall_graph_instantiations_total",
    "gpustall.graph.instantiations",
    "{graph}",
    Kind.COUNTER,
    (),
    "Graphs made executable; many in a steady job mean that shapes change and it captures again and again.",
)
GRAPH_INSTANTIATION_TIME = Metric(
    "gpustall_graph_instantiation_time_seconds_total",
    "gpustall.graph.instantiation.time",
    "s",
    Kind.COUNTER,
    (),
    "Host time from entry into to return from the calls that make a graph executable.",
)
GRAPH_LAUNCHES = Metric(
    "gpustall_graph_launches_total",
    "gpustall.graph.launches",
    "{launch}",
    Kind.COUNTER,
    (),
    "Launches of executable graphs that returned without error; those into another graph are not counted.",
)
GRAPH_NEVER_LAUNCHED = Metric(
    "gpustall_graph_never_launched",
    "gpustall.graph.never_launched",
    "{graph}",
    Kind.GAUGE,
    (),
    "Executable graphs that exist and have not been launched yet: each takes memory of the GPU.",
)
KERNEL_LAUNCHES = Metric(
    "gpustall_kernel_launches_total",
    "gpustall.kernel.launches",
    "{kernel}",
    Kind.COUNTER,
    ("source",),
    "Kernels given to the GPU, one by one or as part of a launched graph; those that are captured count when the graph is"
    " launched. Kernels of graphs that were not made by a capture are not seen.",
)
KERNEL_SIZES = Metric(
    "gpustall_kernel_launch_sizes_total",
    "gpustall.kernel.launch_sizes",
    "{kernel}",
    Kind.COUNTER,
    ("blocks", "threads"),
    "Kernel launches whose time was taken, by the blocks of the grid and the threads of a block, each up to and including the"
    " value of the label: a grid smaller than the GPU leaves part of it idle.",
)
NCCL_OPERATION_DURATION = Metric(
    "gpustall_nccl_operation_duration_seconds",
    "gpustall.nccl.operation.duration",
    "s",
    Kind.HISTOGRAM,
    ("operation", "communicator"),
    "Host time from entry into to return from an NCCL call: the time to enqueue a collective, not the time it takes on the"
    " GPU; inside a group the work is done by ncclGroupEnd.",
)
NCCL_OPERATION_BYTES = Metric(
    "gpustall_nccl_operation_bytes_total",
    "gpustall.nccl.operation",
    "By",
    Kind.COUNTER,
    ("operation", "communicator"),
    "Element count times element size of the NCCL calls that returned without error, as the caller passed them.",
)
NCCL_OPERATION_ERRORS = Metric(
    "gpustall_nccl_operation_errors_total",
    "gpustall.nccl.operation.errors",
    "{error}",
    Kind.COUNTER,
    ("operation", "code"),
    "NCCL calls that returned an error, by numeric code such as 2 for a system error; in progress (7) is no error.",
)
NCCL_COMMUNICATOR_INFO = Metric(
    "gpustall_nccl_communicator_info",
    "gpustall.nccl.communicator.info",
    "",
    Kind.INFO,
    ("communicator", "hash", "communicator_rank", "nranks"),
    "Communicators alive: the ordinal used as label, a hash of the unique id that is equal on every rank, this process's rank"
    " in it and the number of ranks; empty when the making of it was not seen.",
)
NCCL_ENQUEUED = Metric(
    "gpustall_nccl_enqueued_total",
    "gpustall.nccl.enqueued",
    "{collective}",
    Kind.COUNTER,
    ("communicator",),
    "Collectives, sends and receives whose NCCL call returned without error, inside a group as well, but not while a CUDA graph"
    " is captured; what a graph does when it is replayed is no call.",
)
NCCL_COMPLETED = Metric(
    "gpustall_nccl_completed_total",
    "gpustall.nccl.completed",
    "{collective}",
    Kind.COUNTER,
    ("communicator",),
    "Of the enqueued ones, those up to the last that a CUDA call has found done, asking or waiting for an event, stream or device"
    " behind it; never more than the GPU has done, and less until somebody asks. Not told of communicator `other`.",
)
NCCL_WAIT = Metric(
    "gpustall_nccl_wait_seconds",
    "gpustall.nccl.wait",
    "s",
    Kind.HISTOGRAM,
    ("communicator",),
    "Host time from entry into to return from a synchronising CUDA call that had a collective of the communicator ahead of it,"
    " directly or through events, not known to be done at entry; not the time on the GPU. A call that waits for two communicators"
    " counts for both.",
)
NCCL_ARRIVAL_LAG = Metric(
    "gpustall_nccl_arrival_lag_seconds_total",
    "gpustall.nccl.arrival_lag",
    "s",
    Kind.COUNTER,
    ("communicator",),
    "Time from the moment the first rank on this node entered a collective's NCCL call until this rank entered it, summed over"
    " collectives; the slowest rank has the most. 0 where a rank is alone on its node or the communicator's making was not seen.",
)
THREAD_TIME = Metric(
    "gpustall_thread_time_seconds_total",
    "gpustall.thread.time",
    "s",
    Kind.COUNTER,
    ("operation", "state"),
    "Time of traced threads from their first traced call until now, by the outermost call they were in or the gap between two"
    " calls, and by what they did; in a synchronising call gpu_wait includes spinning and polling for the GPU.",
)
LOST = Metric(
    "gpustall_lost_seconds_total",
    "gpustall.lost",
    "s",
    Kind.COUNTER,
    ("cause",),
    "Time the host made the GPU wait, by cause: from the last step thread's stop until one runs again, without what the GPU's"
    " own work hid, and from the end of that work to the return of the call that waited for it.",
)
CULPRIT = Metric(
    "gpustall_culprit_seconds_total",
    "gpustall.culprit",
    "s",
    Kind.COUNTER,
    ("cause", "culprit"),
    "The same time as gpustall_lost_seconds_total, also by the program that held the CPU; the culprit is empty where a cause"
    " has none.",
)
INTERRUPTED = Metric(
    "gpustall_interrupted_seconds_total",
    "gpustall.interrupted",
    "s",
    Kind.COUNTER,
    (),
    "Time from the entry of interrupts, soft ones included, to their end on a CPU that a thread of the process or of its workers"
    " ran on or waited for; what of it the GPU had to wait for is lost time of the cause irq.",
)
WAIT_CHAIN = Metric(
    "gpustall_wait_chain_seconds_total",
    "gpustall.wait_chain",
    "s",
    Kind.COUNTER,
    ("blocked_on", "state"),
    "Time step threads slept between two calls until a worker or another thread of the job that is no step thread woke them,"
    " by what they slept on and by what that one did from the beginning of the sleep to its end.",
)
STEP_DURATION = Metric(
    "gpustall_step_duration_seconds",
    "gpustall.step.duration",
    "s",
    Kind.HISTOGRAM,
    (),
    "Time from one training step to the next, found by the shortest period in which a process's collectives and copies to the"
    " device recur, from the return of one such call to that of its like a step later; nothing while there is no such rhythm.",
)
CHAINS = Metric(
    "gpustall_chains_total",
    "gpustall.chains",
    "{chain}",
    Kind.COUNTER,
    ("cause", "effect", "severity"),
    "Causal chains opened: episodes in which a workload was slower than usual, by the reason, by what took longer, and by how bad"
    " it was when the chain was opened.",
)
CHAIN_ESCALATIONS = Metric(
    "gpustall_chain_escalations_total",
    "gpustall.chain.escalations",
    "{escalation}",
    Kind.COUNTER,
    ("cause", "effect", "severity"),
    "Causal chains that became worse, by the severity that they have since then.",
)
CHAIN_ACTIVE = Metric(
    "gpustall_chain_active",
    "gpustall.chain.active",
    "",
    Kind.GAUGE,
    ("cause", "effect"),
    "1 while a causal chain is open; 0 from its end to that of the process.",
)
CHAIN_SEVERITY = Metric(
    "gpustall_chain_severity",
    "gpustall.chain.severity",
    "",
    Kind.GAUGE,
    ("cause", "effect"),
    "How bad the open causal chain is: 1 low, 2 medium, 3 high, 4 critical; 0 when it is resolved.",
)
CHAIN_INFO = Metric(
    "gpustall_chain_info",
    "gpustall.chain.info",
    "",
    Kind.INFO,
    ("chain_id", "cause", "culprit"),
    "Causal chains that are open, at most 64: the id, which is a trace id as well, and the program or rank that is most to blame,"
    " empty where none is known.",
)
ENGINE_INFO = Metric(
    "gpustall_engine_info",
    "gpustall.engine.info",
    "",
    Kind.INFO,
    ("engine",),
    "The serving engine or framework of a process, as its command line, its title, those that started it and its libraries say;"
    " no series where they say nothing. A workload has one, to join others with, unless its processes differ.",
)
ENGINE_STEP_DURATION = Metric(
    "gpustall_engine_step_duration_seconds",
    "gpustall.engine.step.duration",
    "s",
    Kind.HISTOGRAM,
    ("engine",),
    "Time of a serving engine's iterations, prefill and decode alike, from the return of the call that finds an output copied to"
    " the host to that of the next one, without idleness in between; engines that serve alone.",
)
ENGINE_OUTLIER_STEPS = Metric(
    "gpustall_engine_outlier_steps_total",
    "gpustall.engine.outlier_steps",
    "{step}",
    Kind.COUNTER,
    ("engine",),
    "Iterations that took more than 3 times the median of the 64 before them, of at least 16; a prefill among short decodes is"
    " one as well.",
)
ENGINE_MISSED_STEPS = Metric(
    "gpustall_engine_missed_steps_total",
    "gpustall.engine.missed_steps",
    "{step}",
    Kind.COUNTER,
    ("engine",),
    "Iterations that are in no bucket: more than 127 ended within a tick.",
)
ENGINE_IDLE = Metric(
    "gpustall_engine_idle_seconds_total",
    "gpustall.engine.idle",
    "s",
    Kind.COUNTER,
    ("engine",),
    "Time in which a serving engine gave the GPU nothing to do, from an output, or the last call after it, to the next call of a"
    " thread that gives work; only where it is longer than 1 s and than 20 medians of an iteration.",
)
BLOCK_QUEUE_DURATION = Metric(
    "gpustall_block_queue_duration_seconds",
    "gpustall.block.queue.duration",
    "s",
    Kind.HISTOGRAM,
    ("device", "direction"),
    "Time of a disk's requests from when the kernel made one until it was given to the device, by the container it was made for;"
    " a limit on a container's reads and writes delays them before that. At most 64 devices, then `other`.",
)
BLOCK_DEVICE_DURATION = Metric(
    "gpustall_block_device_duration_seconds",
    "gpustall.block.device.duration",
    "s",
    Kind.HISTOGRAM,
    ("device", "direction"),
    "Time of a disk's requests from when one was given to the device until the device had completed it, by the container it was"
    " made for. At most 64 devices, then `other`.",
)
BLOCK_BYTES = Metric(
    "gpustall_block_bytes_total",
    "gpustall.block",
    "By",
    Kind.COUNTER,
    ("device", "direction"),
    "Bytes that a disk has completed, by the container they were asked for; an empty container is for all that is in none.",
)
BLOCK_ERRORS = Metric(
    "gpustall_block_errors_total",
    "gpustall.block.errors",
    "{error}",
    Kind.COUNTER,
    ("device", "direction"),
    "Requests, or parts of one, that a disk has completed with an error.",
)
BLOCK_WAIT = Metric(
    "gpustall_block_wait_seconds_total",
    "gpustall.block.wait",
    "s",
    Kind.COUNTER,
    ("device",),
    "Time that threads of a traced job, its workers included, slept in a read, write or page fault until a request of the device"
    " was completed; `unknown` where something else ended the sleep, such as a file system's journal.",
)
BLOCK_WAITS = Metric(
    "gpustall_block_waits_total",
    "gpustall.block.waits",
    "{wait}",
    Kind.COUNTER,
    ("device",),
    "Sleeps that gpustall_block_wait_seconds_total adds up.",
)
PROCESS_STARTS = Metric(
    "gpustall_process_starts_total",
    "gpustall.process.starts",
    "{process}",
    Kind.COUNTER,
    (),
    "Processes that have made their first traced call.",
)
PROCESS_FORKS = Metric(
    "gpustall_process_forks_total",
    "gpustall.process.forks",
    "{fork}",
    Kind.COUNTER,
    ("kind",),
    "Threads and processes that the threads of a traced job, its workers included, have made.",
)
PROCESS_EXITS = Metric(
    "gpustall_process_exits_total",
    "gpustall.process.exits",
    "{process}",
    Kind.COUNTER,
    ("member", "outcome", "code"),
    "Traced processes and their workers that have ended, by exit code or signal; `oom_killed` where the kernel ended one because"
    " its control group or the machine had no memory left.",
)
NETWORK_RETRANSMITS = Metric(
    "gpustall_network_retransmits_total",
    "gpustall.network.retransmits",
    "{segment}",
    Kind.COUNTER,
    ("family", "kind"),
    "TCP segments that any socket of this machine sent again, traced or not, by the container in which the socket was made; of a"
    " handshake those that open a connection. The machine's own have no container.",
)
NETWORK_SOCKETS = Metric(
    "gpustall_network_sockets",
    "gpustall.network.sockets",
    "{socket}",
    Kind.GAUGE,
    ("peer",),
    "Connected TCP sockets of traced processes and of those they have started, by the port of the other end; only in the"
    " exporter's own network namespace, unless --network.namespaces is set.",
)
NETWORK_SOCKET_SEGMENTS = Metric(
    "gpustall_network_socket_segments_total",
    "gpustall.network.socket.segments",
    "{segment}",
    Kind.COUNTER,
    ("peer",),
    "TCP segments that these sockets sent, from when each was made to when it was last seen; a socket that is open between two"
    " scrapes alone is not seen.",
)
NETWORK_SOCKET_RETRANSMITS = Metric(
    "gpustall_network_socket_retransmits_total",
    "gpustall.network.socket.retransmits",
    "{segment}",
    Kind.COUNTER,
    ("peer",),
    "Of these segments those that were sent again.",
)
NETWORK_SOCKET_ROUND_TRIP = Metric(
    "gpustall_network_socket_round_trip_seconds",
    "gpustall.network.socket.round_trip",
    "s",
    Kind.GAUGE,
    ("peer",),
    "Time from sending a segment to its acknowledgement, as TCP smooths it: the longest of these sockets.",
)
NETWORK_SOCKET_WINDOW = Metric(
    "gpustall_network_socket_congestion_window",
    "gpustall.network.socket.congestion_window",
    "{segment}",
    Kind.GAUGE,
    ("peer",),
    "Segments that may be on their way unacknowledged: the smallest congestion window of these sockets.",
)
NETWORK_UNREAD = Metric(
    "gpustall_network_unread_total",
    "gpustall.network.unread",
    "{process}",
    Kind.COUNTER,
    ("reason",),
    "Times that the sockets of a traced process were not read, or not all of them, when somebody scraped.",
)
NETWORK_INTERFACE_DROPS = Metric(
    "gpustall_network_interface_drops_total",
    "gpustall.network.interface.drops",
    "{packet}",
    Kind.COUNTER,
    ("interface", "direction"),
    "Packets that an interface of the exporter's network namespace dropped or missed since it was made; at most 16 interfaces,"
    " and `other` for all else and for those of containers.",
)
NETWORK_INTERFACE_ERRORS = Metric(
    "gpustall_network_interface_errors_total",
    "gpustall.network.interface.errors",
    "{packet}",
    Kind.COUNTER,
    ("interface", "direction"),
    "Packets with errors, likewise.",
)
NETWORK_QUEUE_DROPS = Metric(
    "gpustall_network_queue_drops_total",
    "gpustall.network.queue.drops",
    "{packet}",
    Kind.COUNTER,
    ("interface", "direction"),
    "Packets that the queueing discipline at the root of an interface dropped since it was made, with those below it; of what is"
    " received, those that a filter there dropped.",
)
WORKLOAD_INFO = Metric(
    "gpustall_workload_info",
    "gpustall.workload.info",
    "",
    Kind.INFO,
    (
        "pid",
        "comm",
        "local_rank",
        "world_size",
        "run_id",
        "slurm_job_id",
        "slurm_job_name",
        "slurm_partition",
        "slurm_account",
        "pod_uid",
        "container_id",
        "container_runtime",
        "unit",
    ),
    "Traced processes alive, with everything else one may join on; pid is the process id (tgid) as the exporter sees it.",
)
OVERHEAD = Metric(
    "gpustall_exporter_overhead_ratio",
    "gpustall.exporter.overhead",
    "1",
    Kind.GAUGE,
    (),
    "What the probes cost the traced processes: seconds of CPU time per second over the last ten, from their calls and from what"
    " a call was measured to cost when the exporter started; without the scheduler programs.",
)
SAMPLED_PROCESSES = Metric(
    "gpustall_exporter_sampled_processes",
    "gpustall.exporter.sampled_processes",
    "{process}",
    Kind.GAUGE,
    (),
    "Processes of which only one kernel launch in 64 is timed, because more would cost them too much or it was asked for; all"
    " launches are counted.",
)
MEMORY_RECLAIM_DURATION = Metric(
    "gpustall_memory_reclaim_duration_seconds",
    "gpustall.memory.reclaim.duration",
    "s",
    Kind.HISTOGRAM,
    (),
    "Time from where a task of the container begins to free memory itself, because it wants some and none is free, to where it"
    " has done so; of every task of the machine, traced or not.",
)
MEMORY_RECLAIMED = Metric(
    "gpustall_memory_reclaimed_bytes_total",
    "gpustall.memory.reclaimed",
    "By",
    Kind.COUNTER,
    (),
    "Memory that tasks of the container freed themselves because they wanted some and none was free.",
)
MEMORY_OOM_KILLS = Metric(
    "gpustall_memory_oom_kills_total",
    "gpustall.memory.oom_kills",
    "{kill}",
    Kind.COUNTER,
    (),
    "Processes of the container that the kernel ended because memory had run out, counted when they are gone.",
)
MEMORY_MAJOR_FAULTS = Metric(
    "gpustall_memory_major_faults_total",
    "gpustall.memory.major_faults",
    "{fault}",
    Kind.COUNTER,
    (),
    "Page faults for which a page had to be read, by all processes in the control groups of traced ones.",
)
MEMORY_SWAP = Metric(
    "gpustall_memory_swap_bytes",
    "gpustall.memory.swap",
    "By",
    Kind.GAUGE,
    (),
    "Memory of the traced processes that has been swapped out, without shared memory; absent on a machine without swap.",
)
MEMORY_USED = Metric(
    "gpustall_memory_used_bytes",
    "gpustall.memory.used",
    "By",
    Kind.GAUGE,
    (),
    "Memory that the control groups of traced processes have now, page cache included; absent for the root group.",
)
MEMORY_LIMIT = Metric(
    "gpustall_memory_limit_bytes",
    "gpustall.memory.limit",
    "By",
    Kind.GAUGE,
    (),
    "Memory that those control groups may have: the smallest limit of a group and those above it; absent where there is none.",
)
MEMORY_PAGE_ALLOCATED = Metric(
    "gpustall_memory_page_allocated_bytes_total",
    "gpustall.memory.page_allocated",
    "By",
    Kind.COUNTER,
    (),
    "Pages that the kernel allocated while threads of the process and of those forked from it ran, page cache and its own tables"
    " included; only with --memory.page-allocations.",
)
CPU_QUOTA_PERIODS = Metric(
    "gpustall_cpu_quota_periods_total",
    "gpustall.cpu.quota.periods",
    "{period}",
    Kind.COUNTER,
    (),
    "Periods in which the CPU quota of the container was enforced: the sum over the control groups of its traced processes and"
    " those above them that have a quota.",
)
CPU_QUOTA_THROTTLED_PERIODS = Metric(
    "gpustall_cpu_quota_throttled_periods_total",
    "gpustall.cpu.quota.throttled_periods",
    "{period}",
    Kind.COUNTER,
    (),
    "Of those periods the ones in which the quota was used up and somebody had to wait: the sum over the same control groups.",
)
CPU_QUOTA_THROTTLED = Metric(
    "gpustall_cpu_quota_throttled_seconds_total",
    "gpustall.cpu.quota.throttled",
    "s",
    Kind.COUNTER,
    (),
    "Time from where a CPU of such a control group finds the quota used up to where it may run the group again, added up over"
    " CPUs and control groups.",
)
CPU_STEAL = Metric(
    "gpustall_cpu_steal_seconds_total",
    "gpustall.cpu.steal",
    "s",
    Kind.COUNTER,
    (),
    "Time that the hypervisor gave this machine's CPUs to others while they had something to do, added up over CPUs since the"
    " machine was started, as /proc/stat counts it.",
)
CPU_IRQ = Metric(
    "gpustall_cpu_irq_seconds_total",
    "gpustall.cpu.irq",
    "s",
    Kind.COUNTER,
    (),
    "Time from the entry of hard interrupts to their end, added up over CPUs since the machine was started, as /proc/stat counts"
    " it: next to nothing on kernels that only sample it.",
)
CPU_SOFTIRQ = Metric(
    "gpustall_cpu_softirq_seconds_total",
    "gpustall.cpu.softirq",
    "s",
    Kind.COUNTER,
    (),
    "Time from the entry of soft interrupts to their end, added up over CPUs since the machine was started, as /proc/stat counts"
    " it: by samples on most kernels.",
)
DEVICE_INFO = Metric(
    "gpustall_device_info",
    "gpustall.device.info",
    "",
    Kind.INFO,
    ("gpu", "mig", "gpu_uuid", "model", "pci_bus_id", "driver_version"),
    "GPUs that the NVIDIA driver tells of, and their MIG instances.",
)
DEVICE_UP = Metric(
    "gpustall_device_up",
    "gpustall.device.up",
    "",
    Kind.GAUGE,
    ("gpu",),
    "1 while the driver answers for the GPU; 0 when its last good sample is older than 5 s or there was none: it hangs, is lost"
    " or its driver is gone. Its other gauges are absent then.",
)
DEVICE_ERRORS = Metric(
    "gpustall_device_errors_total",
    "gpustall.device.errors",
    "{error}",
    Kind.COUNTER,
    ("gpu", "reason"),
    "Questions about a GPU that the driver did not answer, or answered with an error, since the exporter started; without a gpu"
    " those about the driver as a whole. What a GPU does not support is no error.",
)
DEVICE_THROTTLED = Metric(
    "gpustall_device_throttled_seconds_total",
    "gpustall.device.throttled",
    "s",
    Kind.COUNTER,
    ("gpu", "reason"),
    "Time that the clocks were held down, sampled once a second: each sample stands for the time from the one before until"
    " itself, and for none where one in between has failed or 5 s have gone by. Reasons overlap. An idle GPU counts nowhere.",
)
DEVICE_CLOCK = Metric(
    "gpustall_device_clock_hertz",
    "gpustall.device.clock",
    "Hz",
    Kind.GAUGE,
    ("gpu", "part"),
    "Clock now: of the SMs and of the memory.",
)
DEVICE_CLOCK_MAX = Metric(
    "gpustall_device_clock_max_hertz",
    "gpustall.device.clock.max",
    "Hz",
    Kind.GAUGE,
    ("gpu", "part"),
    "The highest that this clock can be.",
)
DEVICE_POWER = Metric(
    "gpustall_device_power_watts",
    "gpustall.device.power",
    "W",
    Kind.GAUGE,
    ("gpu",),
    "Power that the board draws, as the driver averages it: over the last second on most GPUs.",
)
DEVICE_POWER_LIMIT = Metric(
    "gpustall_device_power_limit_watts",
    "gpustall.device.power.limit",
    "W",
    Kind.GAUGE,
    ("gpu",),
    "The limit on it that is enforced now, whoever has set it.",
)
DEVICE_ENERGY = Metric(
    "gpustall_device_energy_joules_total",
    "gpustall.device.energy",
    "J",
    Kind.COUNTER,
    ("gpu",),
    "Energy that the GPU has used since the driver was loaded.",
)
DEVICE_TEMPERATURE = Metric(
    "gpustall_device_temperature_celsius",
    "gpustall.device.temperature",
    "Cel",
    Kind.GAUGE,
    ("gpu", "part"),
    "Temperature of the GPU, and of its memory where that is told.",
)
DEVICE_TEMPERATURE_SLOWDOWN = Metric(
    "gpustall_device_temperature_slowdown_celsius",
    "gpustall.device.temperature.slowdown",
    "Cel",
    Kind.GAUGE,
    ("gpu",),
    "Temperature of the GPU from which on the hardware holds the clocks down.",
)
DEVICE_UTILIZATION = Metric(
    "gpustall_device_utilization_ratio",
    "gpustall.device.utilization",
    "1",
    Kind.GAUGE,
    ("gpu", "part"),
    "Share of the driver's last sample period, at most a second, in which a kernel ran, or memory was read or written: how long,"
    " not how much of the GPU.",
)
DEVICE_MEMORY = Metric(
    "gpustall_device_memory_bytes",
    "gpustall.device.memory",
    "By",
    Kind.GAUGE,
    ("gpu", "mig", "state"),
    "Memory of the GPU, or of the MIG instance, which is a part of it; all states together are what it has. Older drivers count"
    " what is reserved as used.",
)
DEVICE_PROCESS_MEMORY = Metric(
    "gpustall_device_process_memory_bytes",
    "gpustall.device.process.memory",
    "By",
    Kind.GAUGE,
    ("gpu", "mig"),
    "Memory of the GPU that traced processes have, as the driver counts it, contexts and libraries included; absent where the"
    " exporter is in a pid namespace of its own.",
)
DEVICE_UNTRACED_MEMORY = Metric(
    "gpustall_device_untraced_memory_bytes",
    "gpustall.device.untraced.memory",
    "By",
    Kind.GAUGE,
    ("gpu", "mig"),
    "The same of all processes that are not traced, such as those that have made no call yet.",
)
DEVICE_ECC_ERRORS = Metric(
    "gpustall_device_ecc_errors_total",
    "gpustall.device.ecc_errors",
    "{error}",
    Kind.COUNTER,
    ("gpu", "kind"),
    "ECC errors of the GPU's memories since the driver was loaded; a reset of the GPU does not take them back here.",
)
DEVICE_REMAPPED_ROWS = Metric(
    "gpustall_device_remapped_rows",
    "gpustall.device.remapped_rows",
    "{row}",
    Kind.GAUGE,
    ("gpu", "kind"),
    "Rows of memory replaced by spare ones for good, by the errors that were the reason.",
)
DEVICE_RETIRED_PAGES = Metric(
    "gpustall_device_retired_pages",
    "gpustall.device.retired_pages",
    "{page}",
    Kind.GAUGE,
    ("gpu", "kind"),
    "Pages of memory given up for good, on GPUs that cannot replace rows; likewise.",
)
DEVICE_REPAIR = Metric(
    "gpustall_device_memory_repair",
    "gpustall.device.memory_repair",
    "",
    Kind.GAUGE,
    ("gpu", "state"),
    "1 while a row or page waits for a reset of the GPU to be replaced, and where replacing one has failed; else 0.",
)
DEVICE_XID_ERRORS = Metric(
    "gpustall_device_xid_errors_total",
    "gpustall.device.xid_errors",
    "{error}",
    Kind.COUNTER,
    ("gpu", "xid"),
    "XID errors that the driver has told of since the exporter opened the GPU; those of before are in the kernel's log.",
)
DEVICE_LINK_GENERATION = Metric(
    "gpustall_device_pcie_link_generation",
    "gpustall.device.pcie.link_generation",
    "",
    Kind.GAUGE,
    ("gpu", "kind"),
    "PCIe generation that the link runs at, and the highest that GPU and slot have in common. An idle GPU may lower it.",
)
DEVICE_LINK_WIDTH = Metric(
    "gpustall_device_pcie_link_width",
    "gpustall.device.pcie.link_width",
    "{lane}",
    Kind.GAUGE,
    ("gpu", "kind"),
    "PCIe lanes that the link has, and the most that GPU and slot have in common.",
)
DEVICE_PCIE_BYTES = Metric(
    "gpustall_device_pcie_bytes_total",
    "gpustall.device.pcie",
    "By",
    Kind.COUNTER,
    ("gpu", "direction"),
    "Bytes over PCIe, headers of packets included, as the driver counts them; only where it counts with 64 bits.",
)
DEVICE_PCIE_THROUGHPUT = Metric(
    "gpustall_device_pcie_throughput_bytes_per_second",
    "gpustall.device.pcie.throughput",
    "By/s",
    Kind.GAUGE,
    ("gpu", "direction"),
    "Bytes over PCIe in a second, as the driver measures them for 20 ms from the begin of a look to its end, one look in 10 s;"
    " only where it does not count them.",
)
DEVICE_PCIE_REPLAYS = Metric(
    "gpustall_device_pcie_replays_total",
    "gpustall.device.pcie.replays",
    "{replay}",
    Kind.COUNTER,
    ("gpu",),
    "PCIe packets sent again because they had not arrived whole.",
)
DEVICE_NVLINK_BYTES = Metric(
    "gpustall_device_nvlink_bytes_total",
    "gpustall.device.nvlink",
    "By",
    Kind.COUNTER,
    ("gpu", "direction"),
    "Bytes of data over all NVLinks of the GPU, without headers of packets.",
)
DEVICE_NVLINK_ERRORS = Metric(
    "gpustall_device_nvlink_errors_total",
    "gpustall.device.nvlink.errors",
    "{error}",
    Kind.COUNTER,
    ("gpu", "kind"),
    "Errors of all NVLinks of the GPU: packets sent again, links trained anew, checksums that were wrong. Read twice a minute"
    " where each link is asked by itself.",
)
DEVICE_MIG = Metric(
    "gpustall_device_mig_enabled",
    "gpustall.device.mig_enabled",
    "",
    Kind.GAUGE,
    ("gpu",),
    "1 while the GPU is divided into MIG instances, else 0; absent where it cannot be.",
)
LEVELS = (CHAIN_ACTIVE, CHAIN_SEVERITY)
"""Of several processes of one workload the highest counts, not the sum."""

COST_METRICS = (OVERHEAD, SAMPLED_PROCESSES)
"""What the exporter does to each workload: about the exporter, and labelled like the workload."""

METRICS_OF_COLLECTOR: dict[str, tuple[Metric, ...]] = {
    "cuda": (
        CUDA_OPERATION_DURATION,
        CUDA_OPERATIONS,
        CUDA_OPERATION_ERRORS,
    ),
    "nccl": (
        NCCL_OPERATION_DURATION,
        NCCL_OPERATION_BYTES,
        NCCL_OPERATION_ERRORS,
        NCCL_COMMUNICATOR_INFO,
        NCCL_ENQUEUED,
        NCCL_COMPLETED,
        NCCL_WAIT,
        NCCL_ARRIVAL_LAG,
    ),
    "sched": (
        THREAD_TIME,
        LOST,
        CULPRIT,
        INTERRUPTED,
        WAIT_CHAIN,
        STEP_DURATION,
    ),
    "chains": (
        CHAINS,
        CHAIN_ESCALATIONS,
        CHAIN_ACTIVE,
        CHAIN_SEVERITY,
        CHAIN_INFO,
    ),
    "engine": (
        ENGINE_INFO,
        ENGINE_STEP_DURATION,
        ENGINE_OUTLIER_STEPS,
        ENGINE_MISSED_STEPS,
        ENGINE_IDLE,
    ),
    "block": (
        BLOCK_QUEUE_DURATION,
        BLOCK_DEVICE_DURATION,
        BLOCK_BYTES,
        BLOCK_ERRORS,
        BLOCK_WAIT,
        BLOCK_WAITS,
    ),
    "memory": (
        MEMORY_RECLAIM_DURATION,
        MEMORY_RECLAIMED,
        MEMORY_OOM_KILLS,
        MEMORY_MAJOR_FAULTS,
        MEMORY_SWAP,
        MEMORY_USED,
        MEMORY_LIMIT,
        MEMORY_PAGE_ALLOCATED,
    ),
    "cpu": (
        CPU_QUOTA_PERIODS,
        CPU_QUOTA_THROTTLED_PERIODS,
        CPU_QUOTA_THROTTLED,
        CPU_STEAL,
        CPU_IRQ,
        CPU_SOFTIRQ,
    ),
    "process": (
        PROCESS_STARTS,
        PROCESS_FORKS,
        PROCESS_EXITS,
    ),
    "network": (
        NETWORK_RETRANSMITS,
        NETWORK_SOCKETS,
        NETWORK_SOCKET_SEGMENTS,
        NETWORK_SOCKET_RETRANSMITS,
        NETWORK_SOCKET_ROUND_TRIP,
        NETWORK_SOCKET_WINDOW,
        NETWORK_UNREAD,
        NETWORK_INTERFACE_DROPS,
        NETWORK_INTERFACE_ERRORS,
        NETWORK_QUEUE_DROPS,
    ),
    "device": (
        DEVICE_INFO,
        DEVICE_UP,
        DEVICE_ERRORS,
        DEVICE_THROTTLED,
        DEVICE_CLOCK,
        DEVICE_CLOCK_MAX,
        DEVICE_POWER,
        DEVICE_POWER_LIMIT,
        DEVICE_ENERGY,
        DEVICE_TEMPERATURE,
        DEVICE_TEMPERATURE_SLOWDOWN,
        DEVICE_UTILIZATION,
        DEVICE_MEMORY,
        DEVICE_PROCESS_MEMORY,
        DEVICE_UNTRACED_MEMORY,
        DEVICE_ECC_ERRORS,
        DEVICE_REMAPPED_ROWS,
        DEVICE_RETIRED_PAGES,
        DEVICE_REPAIR,
        DEVICE_XID_ERRORS,
        DEVICE_LINK_GENERATION,
        DEVICE_LINK_WIDTH,
        DEVICE_PCIE_BYTES,
        DEVICE_PCIE_THROUGHPUT,
        DEVICE_PCIE_REPLAYS,
        DEVICE_NVLINK_BYTES,
        DEVICE_NVLINK_ERRORS,
        DEVICE_MIG,
    ),
    "allocator": (
        CUDA_MEMORY_LIVE,
        CUDA_MEMORY_PEAK,
        CUDA_MEMORY_MANAGED,
        CUDA_MEMORY_PINNED,
        CUDA_MEMORY_ALLOCATIONS,
        CUDA_MEMORY_ALLOCATED,
        CUDA_MEMORY_FREED,
        CUDA_MEMORY_UNKNOWN_FREES,
    ),
    "graph": (
        GRAPH_CAPTURES,
        GRAPH_OPEN_CAPTURES,
        GRAPH_CAPTURE_TIME,
        GRAPH_INSTANTIATIONS,
        GRAPH_INSTANTIATION_TIME,
        GRAPH_LAUNCHES,
        GRAPH_NEVER_LAUNCHED,
    ),
    "launch": (KERNEL_LAUNCHES, KERNEL_SIZES),
    "memcpy": (CUDA_MEMCPY_BYTES, MEMCPY_HOST_BYTES, MEMCPY_HOST_TIME),
}
"""What is missing when a collector is switched off or fails."""

WORKLOAD_METRICS = (
    *(metric for metrics in METRICS_OF_COLLECTOR.values() for metric in metrics),
    WORKLOAD_INFO,
    *COST_METRICS,
)


def _own(name: str, unit: str, kind: Kind, labels: tuple[str, ...], text: str) -> Metric:
    """A metric about the exporter itself. name: without prefix, unit and `_total`, words separated by dots."""
    prometheus_unit = {"s": "_seconds", "By": "_bytes", "1": "_ratio"}.get(unit, "")
    suffix = "_total" if kind is Kind.COUNTER else ""
    prometheus_name = "gpustall_exporter_" + name.replace(".", "_") + prometheus_unit + suffix
    return Metric(prometheus_name, "gpustall.exporter." + name, unit, kind, labels, text)


BUILD_INFO = _own(
    "build_info",
    "",
    Kind.INFO,
    ("version", "python", "libbpf", "kernel", "attach_kind"),
    "The running exporter: its version, what it runs on, and how uprobes are attached.",
)
GPU_INFO = Metric(
    "gpustall_gpu_info",
    "gpustall.gpu.info",
    "",
    Kind.INFO,
    ("gpu_uuid", "model"),
    "GPUs of this machine, by the driver's list in /proc; none without an NVIDIA driver.",
)
PROBES_ENABLED = _own(
    "probes_enabled",
    "",
    Kind.GAUGE,
    (),
    "1 while libraries are probed as they are found; 0 once SIGUSR1 has removed every probe, or where probes were never allowed.",
)
RELOAD_SUCCESS = _own(
    "config_last_reload_success",
    "",
    Kind.GAUGE,
    (),
    "1 when the configuration was read without a fault the last time it was to be read, 0 when it was not and the one before"
    " is in force.",
)
RELOAD_TIME = _own(
    "config_last_reload_success_timestamp",
    "s",
    Kind.GAUGE,
    (),
    "When the configuration that is in force was read, in seconds since 1970.",
)
ATTACHMENTS = _own(
    "attachments", "{library}", Kind.GAUGE, ("library", "kind"), "Library files probed now, by API and attachment kind."
)
ATTACHED_FUNCTIONS = _own(
    "attached_functions",
    "{function}",
    Kind.GAUGE,
    ("library",),
    "Functions probed now, over all library files of an API.",
)
ATTACH_FAILURES = _own(
    "attach.failures",
    "{library}",
    Kind.COUNTER,
    ("library", "reason"),
    "Library files that could not be probed: malformed, denied, vanished, hidden behind an overlay's later"
    " copy, refused by the kernel, or without a wanted symbol.",
)
SURPLUS_ATTACHMENTS = _own(
    "surplus_attachments",
    "{library}",
    Kind.COUNTER,
    ("library",),
    "Attachments whose calls another one had seen, so that both were on one file or a call passed through two; each call was"
    " counted once.",
)
UNREADABLE_PROCESSES = _own(
    "unreadable_processes",
    "{process}",
    Kind.GAUGE,
    (),
    "Processes whose mappings could not be read in the last walk through /proc; libraries that only they map are not probed.",
)
TRACKED_PROCESSES = _own(
    "tracked_processes", "{process}", Kind.GAUGE, (), "Processes alive that have made a traced call."
)
MAP_ENTRIES = _own("map_entries", "{entry}", Kind.GAUGE, ("map",), "Entries in a kernel map when it was last read.")
MAP_CAPACITY = _own("map_capacity", "{entry}", Kind.GAUGE, ("map",), "Entries a kernel map has room for.")
LOSSES = _own(
    "losses",
    "{loss}",
    Kind.COUNTER,
    ("program", "reason"),
    "What the kernel programs could not record, by program and reason; recursion: runs the kernel itself left out.",
)
ACCOUNTING_ERROR = _own(
    "accounting_error",
    "1",
    Kind.GAUGE,
    ("figure",),
    "How far the booked time of threads is off, as a share of what was measured since the exporter started; 0 is perfect.",
)
HEALED_SWITCHES = _own(
    "healed_switches",
    "{switch}",
    Kind.COUNTER,
    (),
    "Switches and wake-ups of traced threads that the kernel did not show to the programs; the time in between was mended from"
    " the kernel's own sums.",
)
TICK_DURATION = _own(
    "tick_duration", "s", Kind.GAUGE, (), "Wall time of the last tick, from waking up to having handled all news."
)
TICKS = _own("ticks", "{tick}", Kind.COUNTER, (), "Ticks done.")
TICK_TIME = _own("tick_time", "s", Kind.COUNTER, (), "CPU time spent in ticks.")
PUBLISH_DURATION = _own(
    "publish_duration", "s", Kind.GAUGE, (), "Wall time of the last reading of the kernel's tables into a snapshot."
)
RENDER_DURATION = _own(
    "render_duration",
    "s",
    Kind.GAUGE,
    ("format",),
    "Wall time of rendering the last scrape, from having the snapshot to having the body, compression included.",
)
COLLECTOR_SUCCESS = _own(
    "collector_success",
    "",
    Kind.GAUGE,
    ("collector",),
    "1 when the collector's last run succeeded with all of its kernel programs, else 0.",
)
COLLECTOR_DURATION = _own(
    "collector_duration",
    "s",
    Kind.GAUGE,
    ("collector",),
    "Wall time of the collector's last run, from when it began to read until its totals were there.",
)
COLLECTOR_RESETS = _own(
    "collector_resets",
    "{reset}",
    Kind.COUNTER,
    ("collector",),
    "Counters of the machine that were lower than the time before: a device or interface came anew, or the count wrapped; they"
    " count from 0 again.",
)
COLLECTOR_ERRORS = _own(
    "collector_errors",
    "{error}",
    Kind.COUNTER,
    ("collector",),
    "Runs of a collector that failed; its metrics are missing.",
)
PUSHES = _own(
    "pushes",
    "{push}",
    Kind.COUNTER,
    ("receiver", "outcome"),
    "Pushes over OTLP by how they ended, after all retries; a push is all points of one moment, in one or more requests.",
)
PUSH_ATTEMPTS = _own(
    "push.attempts", "{request}", Kind.COUNTER, ("receiver",), "Requests sent to a receiver, repeated ones included."
)
PUSHED_POINTS = _own("pushed_points", "{point}", Kind.COUNTER, ("receiver",), "Data points that a receiver has taken.")
REJECTED_POINTS = _own(
    "push.rejected_points",
    "{point}",
    Kind.COUNTER,
    ("receiver",),
    "Data points that a receiver said it had rejected from a request that it took otherwise.",
)
FORGOTTEN_POINTS = _own(
    "push.forgotten_points",
    "{point}",
    Kind.COUNTER,
    ("receiver",),
    "Undelivered deltas of series that had ended, dropped because too many were waiting.",
)
RECORD_PUSHES = _own(
    "record.pushes",
    "{push}",
    Kind.COUNTER,
    ("receiver", "signal", "outcome"),
    "Pushes of log records or of spans about causal chains by how they ended, after all retries.",
)
RECORDS = _own(
    "records",
    "{record}",
    Kind.COUNTER,
    ("receiver", "signal", "fate"),
    "Log records and spans about causal chains by what has become of them.",
)
PUSHED_BYTES = _own(
    "pushed", "By", Kind.COUNTER, ("receiver",), "Bytes of the bodies sent to a receiver, after compression."
)
PUSH_DURATION = _own(
    "push.duration",
    "s",
    Kind.GAUGE,
    ("receiver",),
    "Wall time of the last push, from taking the snapshot to the end of the last answer or of the last retry.",
)
PUSH_LAST_SUCCESS = _own(
    "push.last_success_timestamp",
    "s",
    Kind.GAUGE,
    ("receiver",),
    "Time of day, in seconds since 1970, of the last push that was delivered whole; 0 before the first.",
)
STACKS = _own(
    "stacks",
    "{stack}",
    Kind.COUNTER,
    ("result",),
    "Stacks of threads of open chains by what became of them: functions named with bcc, located in files alone, unnamed since the"
    " process had ended, failed, or left_out because too many were waiting.",
)
NAMES_SUCCESS = _own(
    "names_success",
    "",
    Kind.GAUGE,
    (),
    "1 while the orchestrator tells what its containers are called, 0 when it does not, has not yet or may not; missing where"
    " none is asked.",
)
HISTORY_SUCCESS = _own(
    "history_success",
    "",
    Kind.GAUGE,
    (),
    "1 when the last write of the history succeeded, 0 when it did not or the file cannot be used; missing where none is kept.",
)
HISTORY_BYTES = _own("history", "By", Kind.GAUGE, (), "What the history takes on disk, its log included.")
HISTORY_WRITE_FAILURES = _own(
    "history.write_failures", "{write}", Kind.COUNTER, (), "Writes of the history that failed, such as on a full disk."
)
HISTORY_DROPPED = _own(
    "history.dropped",
    "{record}",
    Kind.COUNTER,
    ("reason",),
    "Windows of processes and changes of chains that are not in the history.",
)
SERIES = _own("series", "{series}", Kind.GAUGE, (), "Workload series in the last snapshot; a histogram is one.")

MACHINE_METRICS = (GPU_INFO,)
"""About the machine that the exporter runs on."""

EXPORTER_METRICS = (
    BUILD_INFO,
    RELOAD_SUCCESS,
    RELOAD_TIME,
    PROBES_ENABLED,
    ATTACHMENTS,
    ATTACHED_FUNCTIONS,
    ATTACH_FAILURES,
    SURPLUS_ATTACHMENTS,
    UNREADABLE_PROCESSES,
    TRACKED_PROCESSES,
    MAP_ENTRIES,
    MAP_CAPACITY,
    LOSSES,
    HEALED_SWITCHES,
    ACCOUNTING_ERROR,
    TICK_DURATION,
    TICKS,
    TICK_TIME,
    PUBLISH_DURATION,
    RENDER_DURATION,
    COLLECTOR_SUCCESS,
    COLLECTOR_DURATION,
    COLLECTOR_RESETS,
    COLLECTOR_ERRORS,
    STACKS,
    PUSHES,
    PUSH_ATTEMPTS,
    PUSHED_POINTS,
    REJECTED_POINTS,
    FORGOTTEN_POINTS,
    RECORD_PUSHES,
    RECORDS,
    PUSHED_BYTES,
    PUSH_DURATION,
    PUSH_LAST_SUCCESS,
    NAMES_SUCCESS,
    HISTORY_SUCCESS,
    HISTORY_BYTES,
    HISTORY_WRITE_FAILURES,
    HISTORY_DROPPED,
    SERIES,
)

OWN_METRICS = MACHINE_METRICS + EXPORTER_METRICS
"""Without the common labels: what the exporter tells in its own name."""

METRICS = WORKLOAD_METRICS + OWN_METRICS
