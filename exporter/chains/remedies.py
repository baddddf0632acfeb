"""What is to be done about it? One sentence of what happens, and commands that a person can paste, with the real numbers in them.

In: a Chain and what is known of its process. Out: text. Nothing is run.
"""

from __future__ import annotations

import shlex
from typing import NamedTuple

from exporter.accounting.culprits import HYPERVISOR
from exporter.causes import Cause
from exporter.chains.chain import Chain


class ProcessContext(NamedTuple):
    """Where a process is. tgid: 0 where it cannot be seen. cgroup: path below /sys/fs/cgroup, "" if not known. cpus: its CPUs.

    culprit_tgids: of the programs that are to blame, where they are known.
    """

    tgid: int = 0
    cgroup: str = ""
    cpus: str = ""
    culprit_tgids: tuple[int, ...] = ()


class Remedy(NamedTuple):
    """what: to do, in one sentence. commands: to look, and to act."""

    what: str
    commands: tuple[str, ...]


def remedy_of(chain: Chain, place: ProcessContext) -> Remedy:
    """Of the chain's cause."""
    make = _REMEDIES[chain.cause]
    return make(chain, _Words(place))


class _Words:
    """Parts of command lines; what is not known stays a word in capitals."""

    def __init__(self, place: ProcessContext) -> None:
        self.tgid = str(place.tgid) if place.tgid else "PID"
        self.cpus = place.cpus or "CPUS"
        self.cgroup = place.cgroup or "CGROUP"
        self.culprits = ",".join(map(str, place.culprit_tgids)) or "CULPRIT_PID"


def _contention(chain: Chain, of: _Words) -> Remedy:
    name = chain.culprits[0][0] if chain.culprits else "another program"
    if name == HYPERVISOR:
        return Remedy(
            "The hypervisor gives this machine's CPUs to other machines (steal): nothing inside of this one helps. Move it to a"
            " host that is not oversold, or reserve its CPUs there.",
            ("vmstat 1 5  # column st", "mpstat -P ALL 1 5  # %steal of each CPU"),
        )
    return Remedy(
        f"{name} takes the CPUs that the job's threads need: keep it off them, or give the job CPUs of its own.",
        (
            f"ps -o pid,psr,pcpu,cgroup,args -p {of.culprits}",
            f"taskset -acp {of.cpus} {of.tgid}",
            f"renice -n 19 -p {of.culprits.replace(',', ' ')}",
        ),
    )


def _oversubscribed(_chain: Chain, of: _Words) -> Remedy:
    return Remedy(
        "The job's own threads take the CPU from the one that feeds the GPU: start fewer workers and compute threads, or allow"
        " more CPUs.",
        (
            f"ps -L -o tid,psr,pcpu,comm -p {of.tgid} --sort=-pcpu",
            f"taskset -cp {of.tgid}",
            "export OMP_NUM_THREADS=1  # in the job; and fewer num_workers of its DataLoader",
        ),
    )


def _quota(_chain: Chain, of: _Words) -> Remedy:
    return Remedy(
        "The job has used up the CPU time that its control group may use: raise the limit, or remove it.",
        (
            f"cat /sys/fs/cgroup{of.cgroup}/cpu.max /sys/fs/cgroup{of.cgroup}/cpu.stat",
            "kubectl get pod POD -o jsonpath='{.spec.containers[*].resources.limits.cpu}'",
        ),
    )


def _irq(_chain: Chain, of: _Words) -> Remedy:
    return Remedy(
        "Interrupts run on the job's CPUs: move them, or the job.",
        ("grep . /proc/interrupts /proc/softirqs | less", f"taskset -cp {of.tgid}", "systemctl status irqbalance"),
    )


def _block_io(chain: Chain, of: _Words) -> Remedy:
    if chain.culprits:
        name = chain.culprits[0][0]
        return Remedy(
            f"{name} uses the disk that the job reads: move one of the two to another disk, or limit what {name} may do with it.",
            (
                "pidstat -d 1 3",
                f"ionice -c 3 -p $(pgrep -d ' ' -x {shlex.quote(name)})",
                "iostat -xz 1 3",
            ),
        )
    return Remedy(
        "What feeds the GPU waits for a disk: stage the data on a faster one or in memory, or raise its limit.",
        (
            "iostat -xz 1 3",
            f"grep . /proc/{of.tgid}/io",
            f"cat /sys/fs/cgroup{of.cgroup}/io.max /sys/fs/cgroup{of.cgroup}/io.pressure",
        ),
    )


def _reclaim(_chain: Chain, of: _Words) -> Remedy:
    return Remedy(
        "The job's control group or the machine is full, and each new page must be freed first: raise the memory limit, or use"
        " less.",
        (
            f"cat /sys/fs/cgroup{of.cgroup}/memory.max /sys/fs/cgroup{of.cgroup}/memory.current",
            f"cat /sys/fs/cgroup{of.cgroup}/memory.pressure",
            "grep -E 'MemAvailable|Swap' /proc/meminfo",
        ),
    )


def _major_fault(_chain: Chain, of: _Words) -> Remedy:
    return Remedy(
        "Mapped files or swapped pages are read back from disk: they do not fit into memory any more.",
        (
            f"grep -E 'VmSwap|RssFile' /proc/{of.tgid}/status",
            f"cat /sys/fs/cgroup{of.cgroup}/memory.max /sys/fs/cgroup{of.cgroup}/memory.stat",
        ),
    )


def _lock(_chain: Chain, of: _Words) -> Remedy:
    return Remedy(
        "The thread that feeds the GPU waits for a lock that another thread of the job holds; in Python often the interpreter's.",
        (f"py-spy dump --pid {of.tgid}", f"ps -L -o tid,stat,wchan:24,comm -p {of.tgid}"),
    )


def _dataloader(_chain: Chain, of: _Words) -> Remedy:
    return Remedy(
        "The GPU waits for the next batch: more workers, more prefetching, or cheaper samples.",
        (
            f"ps -o pid,stat,pcpu,wchan:24,comm --ppid {of.tgid}",
            "py-spy dump --pid WORKER_PID",
        ),
    )


def _network(_chain: Chain, of: _Words) -> Remedy:
    return Remedy(
        "What feeds the GPU waits for another machine, for an answer through a socket or a file of a network file system: the"
        " peer is slow, or something is lost on the way (retrans).",
        (
            f"nsenter --net=/proc/{of.tgid}/ns/net ss -tinp | grep -A1 pid={of.tgid},",
            f"nsenter --net=/proc/{of.tgid}/ns/net nstat -az TcpRetransSegs TcpExtTCPTimeouts",
            f"cat /proc/{of.tgid}/mountstats | grep -A12 'fstype nfs'",
        ),
    )


def _peer(chain: Chain, _of: _Words) -> Remedy:
    return Remedy(
        f"This rank waits for rank {chain.peer}: look at the chains of that rank.",
        (f"gpu-stall-exporter explain --workload rank={chain.peer}",),
    )


def _slow_rank(_chain: Chain, of: _Words) -> Remedy:
    return Remedy(
        "The other ranks wait for this one, and no resource of the host is the reason: its input, its code or its GPU is slower.",
        (
            f"py-spy dump --pid {of.tgid}",
            "nvidia-smi --query-gpu=index,clocks.sm,clocks_event_reasons.active --format=csv",
        ),
    )


def _hang(chain: Chain, of: _Words) -> Remedy:
    return Remedy(
        f"Rank {chain.peer} never came to a collective that the others wait in.",
        (f"py-spy dump --pid {of.tgid}", f"cat /proc/{of.tgid}/task/*/stack", f"ls -l /proc/{of.tgid}/fd | head"),
    )


def _oom(chain: Chain, of: _Words) -> Remedy:
    known = f" ({chain.detail})" if chain.detail else ""
    return Remedy(
        f"The GPU has no memory left, and no later allocation worked{known}: make the batch smaller, or see who else uses this"
        " GPU.",
        (
            "nvidia-smi --query-compute-apps=pid,used_memory --format=csv",
            f"cat /proc/{of.tgid}/environ | tr '\\0' '\\n' | grep ALLOC",
        ),
    )


def _crash(chain: Chain, of: _Words) -> Remedy:
    return Remedy(
        f"The process has crashed ({chain.detail}): its own log says where, and the kernel's whether it was the GPU.",
        (
            "dmesg -T | grep -iE 'xid|segfault|traps' | tail",
            f"coredumpctl info {of.tgid}",
            "kubectl logs POD --previous --tail=50",
        ),
    )


def _oom_killed(_chain: Chain, of: _Words) -> Remedy:
    return Remedy(
        "The kernel has ended the process because its control group or the machine had no memory left: raise the limit, start"
        " fewer workers, or prefetch less.",
        (
            f"cat /sys/fs/cgroup{of.cgroup}/memory.max /sys/fs/cgroup{of.cgroup}/memory.events",
            "dmesg -T | grep -i 'out of memory' -A3 | tail",
            "kubectl get pod POD -o jsonpath='{.spec.containers[*].resources.limits.memory}'",
        ),
    )


def _churn(_chain: Chain, _of: _Words) -> Remedy:
    return Remedy(
        "The job allocates and frees GPU memory in every step, and waits for it: use the framework's caching allocator.",
        (
            "env | grep PYTORCH  # in the job: neither PYTORCH_NO_CUDA_MEMORY_CACHING nor torch.cuda.empty_cache() in the loop",
        ),
    )


def _leak(chain: Chain, of: _Words) -> Remedy:
    return Remedy(
        f"The job's GPU memory grows and never comes back ({chain.detail}): something keeps tensors of every step, such as a"
        " list of losses that were not detached.",
        (
            f"py-spy dump --pid {of.tgid}",
            "torch.cuda.memory._record_memory_history(); torch.cuda.memory._dump_snapshot('leak.pickle')  # in the job",
        ),
    )


def _pageable(_chain: Chain, of: _Words) -> Remedy:
    return Remedy(
        "The job copies pageable memory to or from the GPU and waits for it: pin the memory, and copy without blocking.",
        (
            "DataLoader(..., pin_memory=True); tensor.to(device, non_blocking=True)  # in the job",
            f"py-spy dump --pid {of.tgid}",
        ),
    )


def _pcie(_chain: Chain, _of: _Words) -> Remedy:
    return Remedy(
        "The link between host and GPU is full: copy less, in a smaller type, or once instead of in each step; and see whether"
        " the link runs at its full width and speed.",
        (
            "nvidia-smi --query-gpu=index,pcie.link.gen.current,pcie.link.gen.max,pcie.link.width.current,pcie.link.width.max"
            " --format=csv",
            "nvidia-smi topo -m",
        ),
    )


def _recapture(_chain: Chain, _of: _Words) -> Remedy:
    return Remedy(
        "The job captures CUDA graphs again and again, because sizes change from step to step: capture the sizes that occur once,"
        " beforehand, and pad to them.",
        (
            "TORCH_LOGS=recompiles  # in the job's environment: which shapes are new",
            "vllm serve --compilation-config '{\"cudagraph_capture_sizes\": [1, 2, 4, 8, 16, 32]}'",
        ),
    )


def _abandoned(chain: Chain, of: _Words) -> Remedy:
    return Remedy(
        f"{chain.detail.capitalize()}: what its stream is given is put into a graph and never done. An exception between"
        " beginning and end is the usual reason.",
        (f"py-spy dump --pid {of.tgid}", f"py-spy record --pid {of.tgid} --duration 5 --output capture.svg"),
    )


def _throttled(chain: Chain, _of: _Words) -> Remedy:
    return Remedy(
        f"The GPU runs with lower clocks than it could ({chain.detail}): see to cooling and power, or raise its power limit.",
        (
            "nvidia-smi -q -d PERFORMANCE,POWER,TEMPERATURE,CLOCK",
            "nvidia-smi -pl WATTS  # up to the maximum of the above",
        ),
    )


def _shared_gpu(chain: Chain, _of: _Words) -> Remedy:
    name = chain.culprits[0][0] if chain.culprits else "another program"
    return Remedy(
        f"{name} has begun to use the GPU that the job uses: give each a GPU or a MIG instance of its own.",
        (
            "nvidia-smi --query-compute-apps=gpu_uuid,pid,name,used_memory --format=csv",
            "nvidia-smi -c EXCLUSIVE_PROCESS  # allows one process on each GPU",
        ),
    )


def _cold_start(_chain: Chain, _of: _Words) -> Remedy:
    return Remedy(
        "The first steps loaded kernels and made graphs: nothing is wrong now. Where starts are frequent, warm up before traffic"
        " comes, and keep what was compiled.",
        (
            "export CUDA_CACHE_PATH=/persistent/cuda-cache TORCHINDUCTOR_CACHE_DIR=/persistent/inductor  # in the job",
            "export CUDA_MODULE_LOADING=EAGER  # loads at the start what else is loaded at the first request",
        ),
    )


def _paused(_chain: Chain, of: _Words) -> Remedy:
    return Remedy(
        "The job was stopped by a signal, a debugger or the freezer.",
        (
            f"grep -E 'State|TracerPid' /proc/{of.tgid}/status",
            f"cat /sys/fs/cgroup{of.cgroup}/cgroup.freeze",
            f"kill -CONT {of.tgid}",
        ),
    )


def _not_host(_chain: Chain, _of: _Words) -> Remedy:
    return Remedy(
        "Nothing of the host explains it: the GPU itself, the library or the job's own code is slower.",
        (
            "nvidia-smi --query-gpu=index,clocks.sm,temperature.gpu,clocks_event_reasons.active --format=csv",
            "dmesg | grep -i xid",
        ),
    )


_REMEDIES = {
    Cause.CPU_CONTENTION: _contention,
    Cause.CPU_OVERSUBSCRIBED: _oversubscribed,
    Cause.CPU_QUOTA: _quota,
    Cause.IRQ: _irq,
    Cause.BLOCK_IO: _block_io,
    Cause.MEMORY_RECLAIM: _reclaim,
    Cause.MAJOR_FAULT: _major_fault,
    Cause.LOCK: _lock,
    Cause.DATALOADER: _dataloader,
    Cause.NETWORK: _network,
    Cause.PEER_RANK: _peer,
    Cause.SLOW_RANK: _slow_rank,
    Cause.NCCL_HANG: _hang,
    Cause.CUDA_OOM: _oom,
    Cause.ALLOCATION_CHURN: _churn,
    Cause.MEMORY_LEAK: _leak,
    Cause.PAGEABLE_COPY: _pageable,
    Cause.PCIE: _pcie,
    Cause.GRAPH_RECAPTURE: _recapture,
    Cause.GRAPH_ABANDONED: _abandoned,
    Cause.GPU_THROTTLED: _throttled,
    Cause.GPU_CONTENTION: _shared_gpu,
    Cause.COLD_START: _cold_start,
    Cause.PAUSED: _paused,
    Cause.CRASH: _crash,
    Cause.OOM_KILLED: _oom_killed,
    Cause.NOT_HOST: _not_host,
}
