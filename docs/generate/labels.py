"""What labels and their values mean, for docs/metrics.md."""

from __future__ import annotations

from exporter.accounting.culprit_names import MAX_NAMED
from exporter.catalog.sched import MAX_CULPRITS
from exporter.config.collectors import COLLECTORS
from exporter.kernel.abi import COMMUNICATOR_ORDINALS, DropReason

COMMON_LABEL_MEANINGS = {
    "node": "`--node`, else the environment variable `NODE_NAME`, else the host name.",
    "rank": "The rank in the job: from the environment that a launcher set (`RANK`, `OMPI_COMM_WORLD_RANK`, `SLURM_PROCID` in"
    " a step, …), else from the NCCL communicator with the most ranks.",
    "container": "The container's name from the orchestrator; else the first 12 digits of the container id; else the"
    " batch job, `job_N` of Slurm ([names.md](names.md#batch-jobs)); else the systemd service.",
    "namespace": "The pod's namespace, or the cluster of an ECS task; empty outside of both ([names.md](names.md)).",
    "pod": "The pod's name, or the id of an ECS task; empty outside of both ([names.md](names.md)).",
}
LABEL_MEANINGS = {
    "api": "`runtime` for libcudart, `driver` for libcuda. A runtime call calls the driver, so the two must not be added.",
    "operation": "The exported function without ABI version and stream suffix: `cuMemcpyHtoDAsync_v2_ptsz` counts as"
    " `cuMemcpyHtoDAsync`. The functions are listed below. Thread time has five more values: `gap`, between two calls of a thread"
    " that launches or synchronises; `other_gap`, of any other thread; `idle`, the part of a gap beyond one minute; `abandoned`,"
    " in a call that never returned; and `worker`, for threads of the job that make no call.",
    "code": "The return value as a decimal number; `other` for a number that no library defines. For an ended process the exit"
    " code, or the signal that ended it, such as `SIGKILL`.",
    "direction": "For copies: `h2d`, `d2h`, `d2d` or `h2h` as the caller requested; `default` where the addresses decide"
    " (`cudaMemcpyDefault`, `cuMemcpy`); `peer` between two GPUs. For disks: `read`, `write`, `flush`, `discard` or `other`. For"
    " network interfaces, and for the links of a GPU as the GPU counts them: `received` or `sent`.",
    "memory": "The host side of a copy: `pinned`, by an allocation or registration that was observed; `pageable`; `unknown` for a"
    " process that is older than the exporter and may have pinned it before.",
    "blocking": "`true` if the call returns only after the host memory was read or written: it is not asynchronous, or the memory"
    " is pageable and the driver copies it piece by piece. Otherwise `false`.",
    "source": "`direct` for kernels launched one by one, `graph` for kernels in launched graphs.",
    "blocks": "Blocks in the grid, as an inclusive upper bound: `1`, `8`, `64`, `512`, `4096` or `+Inf`. A launch counts in one"
    " value only.",
    "threads": "Threads in a block, as an inclusive upper bound: `32`, `64`, `128`, `256`, `512` or `+Inf`.",
    "device": "A disk as in /proc/diskstats, such as `nvme0n1`; at most 64, then `other`. For waits also `unknown`.",
    "member": "`traced` for a process that made calls itself, `worker` for one that it, or another worker of it, created.",
    "resource": "What was refused: rows of a kernel table, by its name; `workloads`, identities beyond `--series.max-workloads`;"
    " `claimed_labels`, labels already in use by a workload of another owner;"
    " `brief_workloads`, those beyond 32 of an owner that ran less"
    " than a minute; `series`, error codes beyond 32 of a workload; `infos`,"
    " processes beyond 512 of an owner in `gpustall_workload_info`; `reads`, processes that ended before there was time to read"
    " their rank and container; `chains`, those beyond 64 of an owner at once, and one in six seconds after that: they are not in"
    " the log or the history.",
    "owner": "A container, by its label, or `uid N` outside of containers; at most 32, then `other`. `unnamed` for processes that"
    " were refused something before their owner was known.",
    "family": "`ipv4` or `ipv6`: what is on the wire, also for an IPv6 socket that uses IPv4.",
    "peer": "The class of the port at the other end: `nfs` (2049), `smb` (445), `object` (9000, 7480), `https` (443, 8443),"
    " `http` (80, 8080), `ssh`, `dns`, `rendezvous` (29400, 29500), `ephemeral` from 32768 on, as NCCL and clients use; `other`.",
    "interface": "A network interface, at most 16; `other` for the rest, and for interfaces that come and go with containers,"
    " such as veth.",
    "gpu": "The GPU's number, as `nvidia-smi` shows it on the machine; empty for the driver as a whole.",
    "mig": "The number of the GPU instance; empty for the GPU as a whole, also if it is divided.",
    "pci_bus_id": "The PCI address, such as `00000000:3B:00.0`.",
    "driver_version": "The version of the NVIDIA driver.",
    "part": "The part of a GPU: its `sm`s, its `memory`, or the `gpu` itself.",
    "xid": "The number of the error, from 1 to 172, as in NVIDIA's catalogue of XID errors; `other` for any other.",
    "state": "What a thread does: `on_cpu`; `reclaim`, on the CPU freeing memory; `gpu_wait`; `runnable`, ready and without a"
    " CPU; `throttled` by the quota of its cgroup; asleep for `io`, `memory`, a major `fault`, a `lock`, a `pipe`, a `socket`,"
    " `poll`, a time-out (`sleep`), a `child`, `output` (a write that is blocked); `stopped`; `other`. In a wake-up path also"
    " `unresolved`. For a GPU's memory `used`, `free`, or `reserved` by the driver; for its repair `pending` or `failed`.",
    "cause": "Why the GPU had to wait: see [accounting.md](accounting.md). For a chain also `peer_rank`, this rank waits for"
    " another one; `slow_rank`, the others wait for this one; `nccl_hang`, it never arrives; `stalled`, there is no progress at"
    " all; `cuda_oom`; `crash`; `oom_killed`, by the kernel. Where no resource of the host explains it: `own_code` computes and"
    " `own_wait` sleeps between calls, `gpu`, calls take longer; as special cases `allocation_churn`, `pageable_copy`, `pcie`"
    " (the link is full) and `graph_recapture`, which the job itself causes, and `gpu_throttled` and `gpu_contention`, which its"
    " GPU causes. Without longer steps: `memory_leak`, `graph_abandoned`, `cold_start`, and `changed`, steps differ for good.",
    "effect": "What takes longer: `gap`, the time between two calls; `sync`; `launch`; `memcpy`; `collective`; `alloc`; `graph`,"
    " captures and instantiations; `step`, the step as a whole; `exit`, the process has ended.",
    "severity": "`low`, `medium`, `high` or `critical`: from 5, 10, 25 and 50 % of the time lost, as far as the cause explains"
    " it.",
    "engine": "`vllm`, `sglang`, `tgi` (Text Generation Inference) or `triton` (the inference server, not the compiler) for a"
    " serving engine, `pytorch` for any other program that has libtorch mapped. Workers have the value of their engine.",
    "chain_id": "32 hexadecimal digits, which are also the trace id.",
    "culprit": f"The name of the program that held the CPU: for each workload the {MAX_NAMED} with the largest recent time,"
    f" `other` for the rest; at most {MAX_CULPRITS} have a series. `make (children)` or a systemd unit, pod or container"
    " stands for many short-lived programs; `gpu-stall-exporter` is the exporter itself;"
    " `outside` for one that may not be named; `hypervisor` for CPU time that a virtual machine did not get (steal); empty where"
    " a cause has no culprit. A program or cgroup with such a name of its own is marked: `hypervisor (program)`.",
    "blocked_on": "What a step thread slept on: `lock`, `pipe`, `socket`, `poll` or `other`.",
    "figure": "`runnable`: waits for a CPU compared with the kernel's own sums. `wall`: all states together compared with the"
    " elapsed time.",
    "communicator": "`0` for the first communicator that the process made, and so on up to"
    f" `{COMMUNICATOR_ORDINALS - 1}`; `other` for all later ones; empty for calls on no communicator.",
    "hash": "64 bits made from the communicator's unique id: equal on every rank, different in every run.",
    "communicator_rank": "The rank of this process in that communicator.",
    "nranks": "The number of ranks of that communicator.",
    "pid": "The process id (tgid) as the exporter sees it.",
    "comm": "The command's name, as the kernel keeps it: at most 15 characters.",
    "local_rank": "The rank on its machine, from the launcher's environment.",
    "world_size": "The number of ranks of the job, from the launcher's environment.",
    "run_id": "`TORCHELASTIC_RUN_ID`, unless it is `none`.",
    "slurm_job_id": "From the cgroup, else from the environment. A SLUID where Slurm names cgroups by that (26.05 and later).",
    "slurm_job_name": "From the environment, if it belongs to the job that the cgroup names.",
    "slurm_partition": "As `slurm_job_name`.",
    "slurm_account": "As `slurm_job_name`.",
    "pod_uid": "The pod's uid, from the cgroup.",
    "container_id": "The whole container id, from the cgroup.",
    "container_runtime": "`docker`, `containerd`, `crio`, `podman`, `kubernetes` (a pod whose runtime the path does not name),"
    " `lxc`, `systemd`; outside of containers the batch manager: `slurm`, `nomad`, `htcondor`, `pbs`, `torque`,"
    " `yarn`, `lsf` or `oar`.",
    "unit": "The innermost systemd unit of the cgroup.",
    "gpu_uuid": "The uuid, as `nvidia-smi -L` shows it.",
    "model": "The name that the driver gives the GPU, such as `NVIDIA H100 80GB HBM3`.",
    "version": "The version of the exporter.",
    "python": "The interpreter's version.",
    "libbpf": "The library's version.",
    "kernel": "The kernel's release.",
    "attach_kind": "The kind chosen at start: `session`, `multi` or `single`; `entry` where returns are not probed.",
    "kind": "For attachments the kind of this one, with the values of `attach_kind`. For forks `thread` or `process`. For"
    " retransmitted segments `data`, or `handshake` while a connection is being opened. For errors in a GPU's memory, and for"
    " replaced memory, `corrected` or `uncorrected`. For NVLink errors `replay`, `recovery` or `crc`. For a PCIe link `current`"
    " or `max`.",
    "library": "`runtime`, `driver` or `nccl`; `any` where a process could not be read in time.",
    "reason": "For failures to attach: `denied` (a capability is missing), `malformed` (not the ELF file its name promises),"
    " `vanished` (process or file gone), `hidden` (an overlay has a later copy in its place, and its layer is out of reach),"
    " `no_symbols` (nothing in it to probe), `refused` (by the kernel),"
    " `frozen` (loaded after startup, with --probes.attach-once), `share` (its owner has used up its share of probed files),"
    " `user_file_system` (on FUSE, mounted by a user), `unanswered` (its file system or its process does not answer)."
    " For dropped records and for GPU clocks: see below. For"
    " the history: `queue_full` (the disk is slower than the changes), `not_written` (a write failed), `too_many_processes`"
    " (more than 256 at a time), `too_many_memberships` (more than 1,024 places of processes in communicators at a time). For"
    " sockets that were not read: `namespace` (it has another network namespace), `descriptors`"
    " (not examined yet, or more than 4,096), `deadline` (the kernel had more sockets than can be read in 50 ms). For NVML"
    " errors: `timeout` (a call had not returned after a second; it is not repeated until it returns), `lost` (the GPU has"
    " fallen off the bus), `reset_required`, `reconfigured` (a GPU or MIG instance was replaced), `reloaded` (the driver was),"
    " `no_function` (the driver is too old for it), `no_permission`, `driver` (any other error).",
    "program": "`cuda`, `nccl`, `process`, `sched`, `block`, `memory` or `network`; for recursion also `reclaim`, `fault`,"
    " `interrupt`, `pages` and `threads`; `mapping_watch` for events of new mappings.",
    "map": "A kernel map; [bpf/README.md](../bpf/README.md) has them all.",
    "collector": f"`{'`, `'.join(COLLECTORS[:-1])}` or `{COLLECTORS[-1]}`.",
    "format": "`text`, `openmetrics` or `protobuf`.",
    "receiver": "An OTLP receiver: `default` for the one of the flags and the environment, else the name of its table in the"
    " file.",
    "result": "For a stack `named`, `located`, `unnamed`, `failed` or `left_out`. For a capture `captured` or `failed`. For a"
    " stack of an event loop of asyncio `read`; `version` (before Python 3.12, or a free-threaded 3.13), `offsets` (its module"
    " does not say where tasks are), `changed` (the thread ran while they were read), or `unreadable`. For a query of NCCL's RAS"
    " `answered`; `absent` (no process of the job listens), `namespace` (the job is in another network namespace), `refused`,"
    " `timeout`, `too_long`, `unreadable`, `other_job` (another job answers on that port), `left_out`, or `failed`.",
    "signal": "`logs` and `traces` are those of chains; `windows` are log records of windows.",
    "fate": "What happened to a log record or a span: `delivered`; `rejected`, by a receiver that does not accept it, or none of"
    " its kind; `dropped`, because too many were waiting.",
    "outcome": "For a process: `ok`, `error` for another exit code than 0, `signal`, or `oom_killed`. For a push: `delivered`;"
    " `partial`, points or records were rejected; `rejected`, a status that means refusal; `redirected`, not followed;"
    " `not_otlp`, an answer of something else, such as a page of HTML; `unavailable`, status 429, 502, 503 or 504;"
    " `not_trusted`, TLS; `timed_out`; `no_answer`, no connection; `failed`, an internal error (bug).",
}
LOSS_MEANINGS = {
    DropReason.THREAD_STORAGE: "The state of a thread could not be allocated.",
    DropReason.PROCESSES_FULL: "The table of processes was full.",
    DropReason.OPERATIONS_FULL: "The table of operations was full: calls are missing.",
    DropReason.ERRORS_FULL: "The table of errors was full.",
    DropReason.ALLOCATIONS_FULL: "The table of live allocations was full: their bytes are not counted.",
    DropReason.COMMUNICATORS_FULL: "The table of communicators was full: their calls count as `other`.",
    DropReason.EVENTS_FULL: "The ring buffer of events was full; a scan of /proc finds ended processes.",
    DropReason.NESTING: "More nested calls than the state of a thread has room for.",
    DropReason.READ_FAULT: "Memory of the traced process could not be read.",
    DropReason.ABANDONED: "A call was left without a return (longjmp, an exception); it is in no histogram.",
    DropReason.INTERVALS_FULL: "The table of time outside calls was full: that of ended threads is missing.",
    DropReason.BLAME_FULL: "The table of culprits was full: some are missing, and their share is charged to the others.",
    DropReason.GROUPS_FULL: "The table of jobs was full: sleeps in them are not traced to the threads that ended them.",
    DropReason.WAKEUPS_FULL: "The table of wake-up paths was full.",
    DropReason.FRONTIERS_FULL: "The table of streams and events behind NCCL operations was full: some completions are missed.",
    DropReason.FRONTIER_PAIRS: "A stream waited for more communicators at once than are followed: one is missing behind it.",
    DropReason.PROGRESS_FULL: "The table of communicators' progress was full: their operations are not counted as enqueued.",
    DropReason.ARRIVALS_FULL: "A rank's arrival could not be kept: others are not compared with it.",
    DropReason.EXPOSURES_FULL: "The table of synchronising calls was full: their waits for a CPU are missing from lost time.",
    DropReason.DISKS_FULL: "The table of disks and cgroups was full: requests are missing.",
    DropReason.AWAITED_FULL: "The table of who ended sleeps was full: such a sleep has no culprit.",
    DropReason.IMPLAUSIBLE_SIZE: "A program passed a size above 128 TiB, which no machine has: the call is counted without it.",
    DropReason.CALL_SITES_FULL: "No room for another stack of Python functions with slow calls: those are not in the call sites.",
    DropReason.DISK_WAITS_FULL: "The table of waits for disks was full: such a wait has no device.",
    DropReason.FORKS_FULL: "The table of forks was full: those of a job are missing.",
    DropReason.MEMORY_GROUPS_FULL: "The table of cgroups short of memory was full: reclaim and OOM kills of some are missing.",
    DropReason.RECLAIMS_FULL: "More tasks were in direct reclaim at a time than there is room for: one is missing.",
    DropReason.ALLOCATORS_FULL: "The table of page allocations was full: those of a process are missing.",
    DropReason.PINNED_FULL: "The table of pinned memory was full, or a range had too many parts: it counts as pageable.",
    DropReason.COPIES_FULL: "The table of copies by memory was full: those of a process are missing.",
    DropReason.GRAPHS_FULL: "A table of graphs was full: kernels of some, or all graphs of a process, are missing.",
    DropReason.RETRANSMITS_FULL: "The table of retransmitted segments was full: those of some cgroups are missing.",
    DropReason.CAPTURES_FULL: "A stream capture could not be kept: its kernels are counted as launched one by one.",
    DropReason.EXITS_FULL: "The table of ends of processes was full: one is missing.",
    DropReason.OUTPUTS_FULL: "The table of what engines copy to the host was full: iterations of one are not found.",
    DropReason.CADENCE_FULL: "The table of what recurs in steps was full: steps of a process are not found.",
}
THROTTLING_MEANINGS = {
    "app_clocks": "Lower clocks were set, with `nvidia-smi -ac` or `-lgc`.",
    "power": "The power limit.",
    "hw_slowdown": "The hardware, to half or less, without a stated reason: heat or power.",
    "sync_boost": "Another GPU of a group that keeps one clock.",
    "thermal_sw": "Heat of the GPU or its memory, as the driver measures it: below the slowdown temperature.",
    "thermal_hw": "Heat, as the hardware measures it: to half or less.",
    "hw_power_brake": "An external signal, such as from an overloaded power supply: to half or less.",
    "display": "A display.",
    "other": "Any reason that was unknown when this was written.",
}
CODES = (
    ("1", "invalid value", "unhandled CUDA error"),
    ("2", "out of memory", "system error"),
    ("3", "not initialised", "internal error"),
    ("4", "", "invalid argument"),
    ("5", "", "invalid usage"),
    ("6", "", "remote error: a peer failed"),
    ("7", "", "in progress: not counted as an error"),
    ("35", "driver older than the runtime", ""),
    ("98", "invalid device function", ""),
    ("100", "no device", ""),
    ("101", "invalid device", ""),
    ("209", "no kernel image for this device", ""),
    ("214", "uncorrectable ECC error", ""),
    ("400", "invalid handle", ""),
    ("600", "not ready: not counted as an error", ""),
    ("700", "illegal address", ""),
    ("701", "launch out of resources", ""),
    ("702", "launch timed out", ""),
    ("710", "assertion on the device", ""),
    ("716", "misaligned address", ""),
    ("719", "launch failed", ""),
    ("999", "unknown", ""),
)
"""code, CUDA's meaning, NCCL's. Source: cuda.h, driver_types.h, nccl.h."""
