"""The parts of the documents that are made from the code: tables of metrics, labels and flags, rules. `make golden` writes them.

In: the catalogue, the settings, the list of operations, the rule files, the boards. Out: Markdown, YAML and JSON. README.md has
its table between two markers; the others are generated as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from dashboards.__main__ import BOARDS, file_of, text_of
from dashboards.boards import Board
from exporter import config, units
from exporter.accounting.culprits import MAX_CULPRITS
from exporter.catalog import COMMON_LABELS, OWN_METRICS, WORKLOAD_METRICS, Kind, Metric
from exporter.config.collectors import COLLECTORS
from exporter.config.setting import Setting
from exporter.config.toml_file import ENABLED
from exporter.gpu.throttle_reasons import REASONS
from exporter.kernel.abi import COMMUNICATOR_ORDINALS, Api, LossReason
from exporter.kernel.operations import OPERATIONS
from exporter.rules import cost
from exporter.rules.kubernetes import prometheus_rule

ROOT = Path(__file__).parents[2]
CHART = "deploy/helm/gpu-stall-exporter"
BEGIN = "<!-- metrics: begin, made by `make golden` -->"
END = "<!-- metrics: end -->"
GENERATED = "<!-- Made by `make golden` from the code; edit tests/support/documents.py instead. -->"

COMMON_LABEL_MEANINGS = {
    "node": "`--node`, else the environment variable `NODE_NAME`, else the host name.",
    "rank": "The rank in the job: from the environment that a launcher set (`RANK`, `OMPI_COMM_WORLD_RANK`, `SLURM_PROCID` in"
    " a step, …), else from the NCCL communicator with the most ranks.",
    "container": "The first 12 digits of the container id; else `job_N` of a Slurm job; else the systemd service.",
    "namespace": "Always empty in this version.",
    "pod": "Always empty in this version.",
}
LABEL_MEANINGS = {
    "api": "`runtime` for libcudart, `driver` for libcuda. A runtime call calls the driver, so the two are never added.",
    "operation": "The exported function without ABI version and stream suffix: `cuMemcpyHtoDAsync_v2_ptsz` counts as"
    " `cuMemcpyHtoDAsync`. The functions are listed below. Of thread time also `gap`, between two calls of a thread that launches"
    " or synchronises, `other_gap` of any other thread, `idle`, what a gap has beyond a minute, `abandoned`, in a call that"
    " never returned, and `worker`, threads of the job that make no call.",
    "code": "What the function returned, as a decimal number; `other` for a number that no library defines. Of a process that has"
    " ended its exit code, or the signal that ended it, such as `SIGKILL`.",
    "direction": "`h2d`, `d2h`, `d2d`, `h2h` as the caller asked; `default` where the addresses decide (`cudaMemcpyDefault`,"
    " `cuMemcpy`); `peer` between two devices. Of a disk `read`,"
    " `write`, `flush`, `discard` or `other`; of an interface, and of a GPU's links as the GPU sees it, `received` or `sent`.",
    "memory": "The host's side of a copy: `pinned`, by an allocation or registration that was seen; `pageable`; `unknown` of a"
    " process that is older than the exporter, and may have pinned it before.",
    "blocking": "`true` where the call returns when the host's memory has been read or written: it is not asynchronous, or the"
    " memory is pageable and the driver copies it piece by piece. Else `false`.",
    "source": "`direct` for kernels that are launched one by one, `graph` for those in graphs that are launched.",
    "blocks": "At most so many blocks in the grid, and more than the value before: `1`, `8`, `64`, `512`, `4096`, `+Inf`.",
    "threads": "At most so many threads in a block, likewise: `32`, `64`, `128`, `256`, `512`, `+Inf`.",
    "device": "A disk as in /proc/diskstats, such as `nvme0n1`, at most 64, then `other`. Of waits also `unknown`.",
    "member": "`traced` for a process that made calls itself, `worker` for one that it, or another worker of it, has made.",
    "family": "`ipv4` or `ipv6`: what is on the wire, also where an IPv6 socket speaks IPv4.",
    "peer": "By the port of the other end: `nfs` (2049), `smb` (445), `object` (9000, 7480), `https` (443, 8443), `http` (80,"
    " 8080), `ssh`, `dns`, `rendezvous` (29400, 29500), `ephemeral` from 32768 on, as NCCL and clients have; `other`.",
    "interface": "A network interface, at most 16; `other` for all else, and for those that come and go with containers, such as"
    " veth.",
    "gpu": "Its number, as `nvidia-smi` shows it on the machine; empty for what concerns the driver as a whole.",
    "mig": "The number of the GPU instance; empty for the GPU as a whole, also where it is divided.",
    "pci_bus_id": "Such as `00000000:3B:00.0`.",
    "driver_version": "Of the NVIDIA driver.",
    "part": "Of a GPU: its `sm`s, its `memory`, or the `gpu` itself.",
    "xid": "The number of the error, from 1 to 172, as NVIDIA's catalogue of XID errors has them; `other` for any other.",
    "state": "What a thread does: `on_cpu`; `reclaim`, on the CPU freeing memory; `gpu_wait`; `runnable`, ready and without a"
    " CPU; `throttled` by the quota of its cgroup; asleep for `io`, `memory`, a major `fault`, a `lock`, a `pipe`, a `socket`,"
    " `poll`, a time-out (`sleep`), a `child`; `stopped`; `other`. Of a wait chain also `unresolved`. Of a GPU's memory `used`,"
    " `free`, or `reserved` by the driver; of its repair `pending` or `failed`.",
    "cause": "Why the GPU had to wait: see [accounting.md](accounting.md). Of a chain also `peer_rank`, this rank waits for"
    " another one; `slow_rank`, the others wait for this one; `nccl_hang`, it never comes; `cuda_oom`; `crash`; `oom_killed`, by"
    " the kernel; `not_host`, no resource of the host explains it; of these `allocation_churn`, `pageable_copy`, `pcie` (the link"
    " is full) and `graph_recapture`, what the job itself does, and `gpu_throttled` and `gpu_contention`, what its GPU does. Of"
    " jobs whose steps are no longer for it `memory_leak`, `graph_abandoned` and `cold_start`.",
    "effect": "What takes longer: `gap`, the time between two calls; `sync`; `launch`; `memcpy`; `collective`; `alloc`; `graph`,"
    " captures and what is made of them; `exit`, nothing any more.",
    "severity": "`low`, `medium`, `high` or `critical`: from 5, 10, 25 and 50 % of the time lost, as far as the cause"
    " explains it.",
    "engine": "`vllm`, `sglang`, `tgi` (Text Generation Inference) or `triton` (the inference server, not the compiler) for an"
    " engine that serves, `pytorch` for any other program that has libtorch mapped. Workers have it of their engine.",
    "chain_id": "32 hexadecimal digits, the trace id of the episode.",
    "culprit": f"The name of the program that held the CPU, at most {MAX_CULPRITS} for one workload, `other` for the rest;"
    " `outside` for one that may not be named; `hypervisor` for what a virtual machine was not given (steal); empty where a"
    " cause has no culprit.",
    "blocked_on": "What a step thread slept on: `lock`, `pipe`, `socket`, `poll` or `other`.",
    "figure": "`runnable`: waits for a CPU against the kernel's own sums. `wall`: all states together against the time that went"
    " by.",
    "communicator": "`0` for the first communicator that the process made, and so on up to"
    f" `{COMMUNICATOR_ORDINALS - 1}`; `other` for all later ones; empty for calls on no communicator.",
    "hash": "64 bits made of the communicator's unique id: equal on every rank, different in every run.",
    "communicator_rank": "The rank of this process in that communicator.",
    "nranks": "The number of ranks of that communicator.",
    "pid": "The process id (tgid) as the exporter sees it.",
    "comm": "The command's name, as the kernel keeps it: at most 15 characters.",
    "local_rank": "The rank on its machine, from the launcher's environment.",
    "world_size": "The number of ranks of the job, from the launcher's environment.",
    "run_id": "`TORCHELASTIC_RUN_ID`, unless it is `none`.",
    "slurm_job_id": "From the cgroup, else from the environment.",
    "slurm_job_name": "From the environment, if that is of the job that the cgroup names.",
    "slurm_partition": "The same.",
    "slurm_account": "The same.",
    "pod_uid": "The pod's uid, from the cgroup.",
    "container_id": "The whole container id, from the cgroup.",
    "container_runtime": "`docker`, `containerd`, `crio`, `podman`, `kubernetes` (a pod whose runtime the path does not name),"
    " `lxc`, `slurm` or `systemd`.",
    "unit": "The innermost systemd unit of the cgroup.",
    "gpu_uuid": "As `nvidia-smi -L` shows it.",
    "model": "Of a GPU, the name that the driver gives it, such as `NVIDIA H100 80GB HBM3`.",
    "version": "Of the exporter.",
    "python": "The interpreter's version.",
    "libbpf": "The library's version.",
    "kernel": "The kernel's release.",
    "attach_kind": "The kind that was chosen at the start: `session`, `multi` or `single`; `entry` where returns are not probed.",
    "kind": "The kind of this attachment: the same values. Of forks `thread` or `process`; of a segment sent again `data`, or"
    " `handshake` while a connection is being made. Of errors in a GPU's memory, and of what was replaced for them, `corrected`"
    " or `uncorrected`; of NVLink errors `replay`, `recovery` or `crc`; of a PCIe link `current` or `max`.",
    "library": "`runtime`, `driver` or `nccl`; `unknown` where the mappings of a process could not be read.",
    "reason": "Of a failure to attach: `denied` (a right is missing), `malformed` (not the ELF file its name promises),"
    " `vanished` (process or file gone), `hidden` (an overlay has a later copy in its place, and its layer is out of reach),"
    " `no_symbols` (nothing in it to probe), `refused` (by the kernel). Of a loss: see below. Of the history:"
    " `queue_full` (the disk is slower than what happens), `not_written` (a write failed), `too_many_processes` (more than 256"
    " at a time). Of sockets that were not read: `namespace` (it has another network namespace), `descriptors` (not looked at"
    " yet, or more than 4,096), `deadline` (the kernel had more sockets than can be read in 50 ms). Of a GPU's clocks: see below."
    " Of errors with a GPU: `timeout` (a call had not returned after a second; it is not repeated before it does), `lost` (it has"
    " fallen off the bus), `reset_required`, `reconfigured` (a GPU or MIG instance was made anew), `reloaded` (the driver was),"
    " `no_function` (the driver is too old for it), `no_permission`, `driver` (any other error).",
    "program": "`cuda`, `nccl`, `process`, `sched`, `block`, `memory` or `network`; of recursion also `reclaim`, `fault`,"
    " `interrupt`, `pages` and `threads`; `mapping_watch` for news of fresh mappings.",
    "map": "A kernel map; [bpf/README.md](../bpf/README.md) has them all.",
    "collector": f"`{'`, `'.join(COLLECTORS[:-1])}` or `{COLLECTORS[-1]}`.",
    "format": "`text`, `openmetrics` or `protobuf`.",
    "receiver": "An OTLP receiver: `default` for the one of the flags and the environment, else the name of its table in the"
    " file.",
    "result": "What became of a stack: `named`, `located`, `unnamed`, `failed` or `left_out`. Of a capture `captured` or"
    " `failed`.",
    "signal": "`logs` or `traces`.",
    "fate": "Of a log record or a span: `delivered`; `rejected`, by a receiver that does not want it, or none of its kind;"
    " `dropped`, because too many were waiting.",
    "outcome": "How a process ended: `ok`, `error` for another exit code than 0, `signal`, or `oom_killed`. How a"
    " push did: `delivered`; `partial`, points or records were rejected; `rejected`, a status that says no;"
    " `redirected`, not followed; `not_otlp`, an answer of something else, such as a page of HTML; `unavailable`, status 429,"
    " 502, 503 or 504; `not_trusted`, TLS; `timed_out`; `no_answer`, no connection; `failed`, a defect of the exporter.",
}
LOSS_MEANINGS = {
    LossReason.THREAD_STORAGE: "The state of a thread could not be allocated.",
    LossReason.PROCESSES_FULL: "The table of processes was full.",
    LossReason.OPERATIONS_FULL: "The table of operations was full: calls are missing.",
    LossReason.ERRORS_FULL: "The table of errors was full.",
    LossReason.ALLOCATIONS_FULL: "The table of live allocations was full: their bytes are not counted.",
    LossReason.COMMUNICATORS_FULL: "The table of communicators was full: their calls count as `other`.",
    LossReason.EVENTS_FULL: "The ring of events was full; a walk through /proc finds ended processes.",
    LossReason.NESTING: "More calls inside one another than a thread's state has room for.",
    LossReason.READ_FAULT: "Memory of the traced process could not be read.",
    LossReason.ABANDONED: "A call was left without a return (longjmp, an exception); it is in no histogram.",
    LossReason.INTERVALS_FULL: "The table of time outside of calls was full: that of ended threads is missing.",
    LossReason.TAIL_FULL: "The table of what long calls waited for was full.",
    LossReason.BLAME_FULL: "The table of who held the CPU was full: culprits are missing, the loss is shared by the others.",
    LossReason.GROUPS_FULL: "The table of jobs was full: sleeps in them are not traced to their wakers.",
    LossReason.CHAINS_FULL: "The table of what wakers did was full.",
    LossReason.FRONTIERS_FULL: "The table of streams and events behind NCCL operations was full: what they find done is missed.",
    LossReason.FRONTIER_PAIRS: "A stream waited for more communicators at once than are followed: one is missing behind it.",
    LossReason.PROGRESS_FULL: "The table of communicators' progress was full: their operations are not counted as enqueued.",
    LossReason.ARRIVALS_FULL: "A rank's arrival could not be kept: others are not compared with it.",
    LossReason.EXPOSURES_FULL: "The table of synchronising calls was full: what they lost by waiting for a CPU is not told.",
    LossReason.DISKS_FULL: "The table of disks and control groups was full: requests are missing.",
    LossReason.DISK_WAITS_FULL: "The table of waits for disks was full: such a wait is told without its device.",
    LossReason.FORKS_FULL: "The table of forks was full: those of a job are missing.",
    LossReason.MEMORY_GROUPS_FULL: "The table of groups short of memory was full: reclaim and OOM kills of some are missing.",
    LossReason.RECLAIMS_FULL: "More tasks freed memory at a time than there is room for: a direct reclaim is missing.",
    LossReason.ALLOCATORS_FULL: "The table of page allocations was full: those of a process are missing.",
    LossReason.PINNED_FULL: "The table of pinned memory was full, or a range had too many parts: it is taken for pageable.",
    LossReason.COPIES_FULL: "The table of copies by memory was full: those of a process are missing.",
    LossReason.GRAPHS_FULL: "A table of graphs was full: kernels of some, or all graphs of a process, are missing.",
    LossReason.RETRANSMITS_FULL: "The table of segments sent again was full: those of some control groups are missing.",
    LossReason.OUTPUTS_FULL: "The table of what engines copy to the host was full: steps of one are not found.",
    LossReason.CADENCE_FULL: "The table of what recurs in steps was full: steps of a process are not found.",
}
THROTTLING_MEANINGS = {
    "app_clocks": "Somebody has set lower clocks, with `nvidia-smi -ac` or `-lgc`.",
    "power": "The power limit.",
    "hw_slowdown": "The hardware, to half or less, without saying whether for heat or power.",
    "sync_boost": "Another GPU of a group that keeps one clock.",
    "thermal_sw": "Heat of the GPU or its memory, as the driver sees it: below the slowdown temperature.",
    "thermal_hw": "Heat, as the hardware sees it: to half or less.",
    "hw_power_brake": "A signal from outside, such as of a power supply that is overloaded: to half or less.",
    "display": "A display.",
    "other": "Anything that was not known when this was written.",
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

UNITS = {"s": "seconds", "By": "bytes", "": ""}


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)


def code(words: Iterable[str]) -> str:
    """`a`, `b`."""
    return ", ".join(f"`{word}`" for word in words)


def unit(metric: Metric) -> str:
    """seconds, bytes, or what an annotation names: `{call}` -> call."""
    return UNITS.get(metric.unit) or metric.unit.strip("{}")


def readme_table() -> str:
    """Name, type, own labels and help, of every metric."""
    head = ("metric", "type", "labels", "meaning")
    rows = ((f"`{m.name}`", m.kind.value, code(m.labels), m.help) for m in WORKLOAD_METRICS)
    own = ((f"`{m.name}`", m.kind.value, code(m.labels), m.help) for m in OWN_METRICS)
    return (
        f"About the traced processes; each also has the labels {code(COMMON_LABELS)}:\n\n{table(head, rows)}\n\n"
        f"About the exporter itself and its machine, without those labels:\n\n{table(head, own)}"
    )


def readme(text: str) -> str:
    """README.md with its table renewed. Raises ValueError when a marker is missing."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{readme_table()}\n\n{END}{after}"


def metrics_page(_text: str = "") -> str:
    """docs/metrics.md."""
    return "\n\n".join(_metrics_sections()) + "\n"


def _metrics_sections() -> Iterator[str]:
    yield "# Metrics"
    yield GENERATED
    yield (
        "Every metric of `/metrics`, made from `exporter/catalog/`. The OpenTelemetry name and unit translate to the"
        " Prometheus name by the standard rule. [The README](../README.md) has queries to begin with."
    )
    yield "## Common labels"
    yield (
        "Every metric about a traced process has these five labels. They are always written, also when empty; a value that"
        " is not known for sure stays empty. Each has at most 128 characters."
    )
    yield table(("label", "meaning"), ((f"`{name}`", COMMON_LABEL_MEANINGS[name]) for name in COMMON_LABELS))
    yield "## About the traced processes"
    yield from (_metric_section(metric) for metric in WORKLOAD_METRICS)
    yield "## About the exporter and its machine"
    yield (
        "Without the common labels. `--web.disable-exporter-metrics` leaves them out, and with them the `process_*` metrics"
        " of the exporter's own process, which the Prometheus client library provides."
    )
    yield from (_metric_section(metric) for metric in OWN_METRICS)
    yield "## Labels"
    yield table(("label", "meaning"), ((f"`{name}`", text) for name, text in LABEL_MEANINGS.items()))
    yield "### `operation`"
    yield "These functions are probed where a library exports them; an absent one is no failure."
    for api, title in ((Api.RUNTIME, "libcudart"), (Api.DRIVER, "libcuda"), (Api.NCCL, "libnccl, libtorch_cuda")):
        yield f"- {title}: {code(operation.name for operation in OPERATIONS if operation.api is api)}"
    yield "### `code`"
    yield "Codes one meets often. The libraries' headers have them all."
    yield table(("code", "CUDA runtime and driver", "NCCL"), CODES)
    yield "### `reason` of throttling"
    yield (
        "Of `gpustall_device_throttled_seconds_total`. Several can hold at a time. A GPU at work is at its power limit more often"
        " than not, and `power` says no more than that."
    )
    yield table(("reason", "what holds the clocks down"), ((f"`{one}`", THROTTLING_MEANINGS[one]) for one in REASONS))
    yield "### `reason` of losses"
    yield (
        "Of `gpustall_exporter_losses_total`. Two more come from elsewhere: `recursion`, runs of a program that the kernel left"
        " out because the program was running on that CPU already, and `ring_full`, news of fresh mappings that did not fit."
    )
    yield table(("reason", "what happened"), ((f"`{r.name.lower()}`", LOSS_MEANINGS[r]) for r in LOSS_MEANINGS))
    yield "## Buckets"
    yield (
        "The kernel counts durations in exponential buckets, eight to each doubling. `/metrics` shows a subset of their edges,"
        " so every cumulative count is exact. The edges are powers of two, in seconds:"
    )
    edges = zip(units.CLASSIC_EXPONENTS, units.CLASSIC_EDGES_SECONDS, strict=True)
    yield table(("`le`", "", "rounded"), ((f"`{edge!r}`", f"2^{e} s", _rounded(edge)) for e, edge in edges))
    yield "A duration above the last edge counts in `+Inf` only. `_count` is the sum of the buckets that were read."
    yield (
        "All 338 buckets go out as a native histogram, where Prometheus asks for one, and over OTLP as an exponential histogram:"
        " schema or scale 3, so that neighbouring edges are 9.05 % apart, from 2^-30 s to 2^12 s (4,096 s). What is longer counts"
        " in the bucket above that, since these histograms know no `+Inf`."
    )
    yield "## Exemplars"
    yield (
        "A histogram shows one call as exemplar, in OpenMetrics, in protobuf and over OTLP: the slowest of the last 8.6 s in"
        " which there were calls, with the labels `pid` and `tid` as the exporter sees them, its duration, and the time at which"
        " it returned. One that is older than a minute is left out."
    )
    yield (
        "A series of `gpustall_lost_seconds_total` shows the causal chain in which the time was lost, of late or still: the"
        " labels `trace_id` and `span_id`, the seconds lost to this cause since the chain began, and the time until which they"
        " were counted. [chains.md](chains.md) says what a chain is, [push.md](push.md) where its span comes from."
    )


def _rounded(edge: float) -> str:
    for factor, name in ((1e6, "µs"), (1e3, "ms")):
        if edge * factor < 1000:
            return f"{edge * factor:.3g} {name}"
    return f"{edge:.3g} s"


def _metric_section(metric: Metric) -> str:
    common = metric in WORKLOAD_METRICS
    labels = code(metric.labels) or "none of its own"
    facts = (
        ("type", metric.kind.value + (", shown as gauge in the text format 0.0.4" if metric.kind is Kind.INFO else "")),
        ("unit", unit(metric) or "none"),
        ("labels", labels + (", and the common ones" if common else "")),
        ("OpenTelemetry", f"`{metric.otel_name}`" + (f", unit `{metric.unit}`" if metric.unit else ", no unit")),
    )
    return f"### `{metric.name}`\n\n{metric.help}\n\n" + "\n".join(f"- {name}: {value}" for name, value in facts)


def flags_page(_text: str = "") -> str:
    """docs/flags.md."""
    return "\n\n".join(_flags_sections()) + "\n"


def _flags_sections() -> Iterator[str]:
    yield "# Flags"
    yield GENERATED
    yield "The settings of `run`. `check` takes the same ones, since they decide what is checked."
    yield table(
        ("flag", "value", "default", "meaning", "environment variable", "reload"),
        map(_flag_row, (config.CONFIG_FILE, *config.SETTINGS)),
    )
    yield (
        "A BOOL may be left out: `--web.open-health` is `--web.open-health=true`. `--no-collector.nccl` is"
        " `--collector.nccl=false`. A DURATION is a number and one of `ms`, `s`, `m`, `h`; a SIZE is a number and one of `KiB`,"
        " `MiB`, `GiB`. `check` has two more flags: `--format=text` or `--format=json`, and `--support-bundle=FILE`, which"
        " writes a tar.gz for a bug report, without secrets. `explain` shares `--history.path` and its variable, and has flags"
        " of its own: [history.md](history.md)."
    )
    yield (
        "Settings with “yes” under reload change at runtime: `SIGHUP`, or `POST /-/reload` with `--web.enable-lifecycle`, reads"
        " the file again. Changes of other settings are logged and need a restart."
    )
    yield "## File"
    yield (
        "`--config.file` names a TOML file. A key is the flag without its dashes, and a dot makes a table. A collector with"
        " settings of its own is a table, whose switch is `enabled`. Unknown keys are refused. Every default, as a file:"
    )
    yield f"```toml\n{toml_defaults()}```"
    yield (
        "A table `[otlp.receiver.NAME]` adds an OTLP receiver. It takes the keys of `[otlp]`, except `service-name` and"
        " `resource-attributes`, which are the same for all receivers. [push.md](push.md) has an example."
    )
    yield "## Environment"
    yield (
        "Every setting has a variable of its own: `GPUSTALL_` and the flag in upper case, with underscores for dots and dashes."
        " An empty variable counts as not set. These variables of other programs are read as well; the first one that is set"
        " counts, and `GPUSTALL_…` comes before them:"
    )
    yield table(
        ("flag", "environment variable"),
        ((f"`--{s.flag}`", code(s.also)) for s in config.SETTINGS if s.also),
    )
    yield (
        "In `OTEL_…` variables, durations are in milliseconds, the values of headers and attributes are percent-encoded, and"
        " `OTEL_EXPORTER_OTLP_HEADERS` holds the headers themselves, as OpenTelemetry specifies. With `OTEL_SDK_DISABLED=true`,"
        " or an `OTEL_METRICS_EXPORTER` without `otlp`, the variables of a receiver are ignored. Logs and traces have variables"
        " of their own, with `LOGS` and `TRACES` instead of `METRICS`. Pushes honor `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`."
    )
    yield "## Precedence"
    yield "A flag overrides the file, the file overrides the environment, the environment overrides the default."
    yield "## Exit codes"
    yield table(
        ("code", "meaning"),
        (
            ("0", "`run`: stopped by SIGINT or SIGTERM. `check`: `run` would work. `explain`: whatever was found"),
            ("1", "any other error"),
            ("2", "invalid input: a flag, an environment variable, an address or a value in the file"),
            ("3", "this machine lacks something: a privilege, BTF, a library, a history; `check` says what"),
        ),
    )


def _flag_row(one: Setting) -> tuple[str, ...]:
    default = f"`{one.default}`" if one.default else ""
    return f"`--{one.flag}`", one.metavar, default, one.help, f"`{one.variable}`", "yes" if one.is_reloadable else ""


def toml_defaults() -> str:
    """A file with every default; settings without one are left out."""
    tables: dict[str, list[str]] = {}
    for setting in config.SETTINGS:
        table_name, _, key = setting.flag.rpartition(".")
        if any(other.flag.startswith(f"{setting.flag}.") for other in config.SETTINGS):
            table_name, key = setting.flag, ENABLED
        if setting.default:
            plain = setting.default in ("true", "false") or setting.default.isdigit()
            value = setting.default if plain else f'"{setting.default}"'
            tables.setdefault(table_name, []).append(f"{key} = {value}\n")
    return "\n".join(f"[{name}]\n" + "".join(lines) for name, lines in tables.items())


def rules_for_kubernetes(_text: str = "") -> str:
    """alerts/prometheusrule.yaml: the rule files, but for that of prices, which everybody makes from his own."""
    files = sorted(path for path in (ROOT / "alerts").glob("*.rules.yaml") if path.name != "rates.rules.yaml")
    comment = "# Made by `make golden` from the rule files beside this; edit those instead."
    return prometheus_rule("gpu-stall-exporter", comment, (path.read_text(encoding="utf-8") for path in files))


def rules_of_prices(_text: str = "") -> str:
    """alerts/rates.rules.yaml: what `gpu-stall-exporter rates` makes of the prices beside it."""
    path = ROOT / "alerts" / "rates.toml"
    return cost.rules(cost.read(path), path.name)


def datadog_mapping(_text: str = "") -> str:
    """deploy/datadog/openmetrics.d/conf.yaml: for Datadog's OpenMetrics check, which wants counters without `_total`."""
    lines = [
        "# Made by `make golden`. For the Datadog Agent: conf.d/openmetrics.d/conf.yaml. Names are the same as over OTLP.",
        "# Every metric here is a custom metric, by which Datadog bills: leave out what you do not look at.",
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


def board_of(board: Board, _text: str = "") -> str:
    """A file of dashboards/grafana."""
    return text_of(board)


DOCUMENTS: dict[str, Callable[[str], str]] = {
    "README.md": readme,
    "alerts/prometheusrule.yaml": rules_for_kubernetes,
    "alerts/rates.rules.yaml": rules_of_prices,
    "docs/metrics.md": metrics_page,
    "deploy/datadog/openmetrics.d/conf.yaml": datadog_mapping,
    "docs/flags.md": flags_page,
    **{str(file_of(board).relative_to(ROOT)): partial(board_of, board) for board in BOARDS},
    # A chart can take no files from outside of its folder, so it has copies.
    f"{CHART}/files/prometheusrule.yaml": rules_for_kubernetes,
    **{f"{CHART}/files/dashboards/{file_of(board).name}": partial(board_of, board) for board in BOARDS},
}
"""File -> its text as it should be, made from its text as it is."""
