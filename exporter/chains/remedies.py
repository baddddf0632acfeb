"""What to do about a cause: one or two sentences, and commands to paste that carry the real process ids, CPUs and cgroup.

In: a Chain and the context of its process. Out: text. Nothing is run.

A tenant chooses the names of programs and control groups. No command carries the name of a program: a process is given by its id,
and the first command shows when it started, since ids are reused. The path of a control group is one quoted word. Nothing is a
pattern that a name could match.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from exporter.accounting.culprits import HYPERVISOR, OTHER, OUTSIDE
from exporter.causes import Cause, largest_culprit
from exporter.chains.chain import Chain
from exporter.text.printable import printable
from exporter.text.shell import shell_word


class ProcessContext(NamedTuple):
    """What commands need to know of a process.

    tgid: 0 if the process is not in the exporter's pid namespace. cgroup: path below /sys/fs/cgroup, "" if unknown; bytes that
    are no UTF-8 as lone surrogates. cpus: CPUs it may run on, such as `0-3,8`. culprit_tgids: processes of the culprits, where
    they are known. start_ticks, culprit_start_ticks: when these were started, as in /proc/PID/stat; 0 if not known.
    """

    tgid: int = 0
    cgroup: str = ""
    cpus: str = ""
    culprit_tgids: tuple[int, ...] = ()
    start_ticks: int = 0
    culprit_start_ticks: tuple[int, ...] = ()


class Remedy(NamedTuple):
    """what: advice in one or two sentences. commands: lines for a shell, first to check, then to act."""

    what: str
    commands: tuple[str, ...]


def remedy_of(chain: Chain, context: ProcessContext) -> Remedy:
    """The remedy for the cause of a chain."""
    remedy = _REMEDIES[chain.cause](chain, _Arguments(context))
    return remedy._replace(what=printable(remedy.what))


_CPU_LIST: Final = re.compile(r"[0-9]+(?:-[0-9]+)?(?:,[0-9]+(?:-[0-9]+)?)*")
_COMMAND_CHARACTERS_MAX: Final = 1000
_UNKNOWN_CGROUP: Final = "/CGROUP"


class _Arguments:
    """Arguments of commands; a value that is not known stays a placeholder in capitals."""

    def __init__(self, context: ProcessContext) -> None:
        self.tgid = str(context.tgid) if context.tgid > 0 else "PID"
        self.cpus = context.cpus if _CPU_LIST.fullmatch(context.cpus) else "CPUS"
        self._cgroup = context.cgroup if _is_below_the_root(context.cgroup) else _UNKNOWN_CGROUP
        self.culprits = ",".join(str(tgid) for tgid in context.culprit_tgids if tgid > 0) or "CULPRIT_PID"

    def show(self, *files: str) -> str:
        """Prints files of the process's control group. A placeholder stands for a path that would be cut in the history."""
        command = _cat(self._cgroup, files)
        return command if len(command) <= _COMMAND_CHARACTERS_MAX else _cat(_UNKNOWN_CGROUP, files)

    def started(self, columns: str) -> str:
        """Shows the culprits, and when each was started."""
        return f"ps -o pid,lstart,{columns} -p {self.culprits}"


def _cat(cgroup: str, files: Sequence[str]) -> str:
    return "cat " + " ".join(shell_word(f"/sys/fs/cgroup{cgroup}/{file}") for file in files)


def _is_below_the_root(path: str) -> bool:
    """Whether a path leads to a control group below the root: that of a group outside a namespace begins with `/..`."""
    return path.startswith("/") and posixpath.normpath(path) == path


_CULPRIT_NAMES = {OUTSIDE: "A process outside this pod", OTHER: "Another program"}
_PLAIN_NAME: Final = re.compile(r"[\w.:@+/-]+(?: \([a-z]+\))*")


def _culprit(chain: Chain) -> str:
    """The largest culprit as the subject of a sentence. A name that is not plain is quoted: it may read like a command."""
    name = largest_culprit(chain.culprits) or OTHER
    return _CULPRIT_NAMES.get(name) or (name if _PLAIN_NAME.fullmatch(name) else shell_word(name))


def _contention(chain: Chain, args: _Arguments) -> Remedy:
    if largest_culprit(chain.culprits) == HYPERVISOR:
        return Remedy(
            "The hypervisor gives this machine's CPU time to other virtual machines (steal). Nothing inside this machine helps:"
            " move it to a host that is not overcommitted, or reserve CPUs for it there.",
            ("vmstat 1 5  # column st", "mpstat -P ALL 1 5  # %steal of each CPU"),
        )
    return Remedy(
        f"{_culprit(chain)} is using the job's CPUs. Pin it elsewhere, lower its priority, or give the job dedicated CPUs.",
        (
            args.started("psr,pcpu,cgroup,args"),
            f"taskset -acp {args.cpus} {args.tgid}",
            f"renice -n 19 -p {args.culprits.replace(',', ' ')}",
        ),
    )


def _oversubscribed(_chain: Chain, args: _Arguments) -> Remedy:
    return Remedy(
        "The job has more busy threads than CPUs, so its own threads delay the one that feeds the GPU. Start fewer workers and"
        " compute threads, or allow more CPUs.",
        (
            f"ps -L -o tid,psr,pcpu,comm -p {args.tgid} --sort=-pcpu",
            f"taskset -cp {args.tgid}",
            "export OMP_NUM_THREADS=1  # in the job; also lower num_workers of its DataLoader",
        ),
    )


def _quota(_chain: Chain, args: _Arguments) -> Remedy:
    return Remedy(
        "The job has used up its CPU quota and is throttled. Raise the cgroup's CPU limit, or remove it.",
        (
            args.show("cpu.max", "cpu.stat"),
            "kubectl get pod POD -o jsonpath='{.spec.containers[*].resources.limits.cpu}'",
        ),
    )


def _irq(_chain: Chain, args: _Arguments) -> Remedy:
    return Remedy(
        "Interrupts run on the job's CPUs. Move the interrupts or the job to other CPUs.",
        ("grep . /proc/interrupts /proc/softirqs | less", f"taskset -cp {args.tgid}", "systemctl status irqbalance"),
    )


def _block_io(chain: Chain, args: _Arguments) -> Remedy:
    if chain.culprits:
        return Remedy(
            f"{_culprit(chain)} is using the disk that the job reads. Move one of them to another disk, or limit the other"
            " program's I/O.",
            (
                "pidstat -d 1 3",
                args.started("cgroup,args"),
                f"ionice -c 3 -p {args.culprits.replace(',', ' ')}",
                "iostat -xz 1 3",
            ),
        )
    return Remedy(
        "The threads that feed the GPU wait for a disk. Put the data on a faster disk or in memory, or raise the I/O limit.",
        (
            "iostat -xz 1 3",
            f"grep . /proc/{args.tgid}/io",
            args.show("io.max", "io.pressure"),
        ),
    )


def _reclaim(_chain: Chain, args: _Arguments) -> Remedy:
    return Remedy(
        "The job's cgroup or the machine is out of free memory, so each allocation first reclaims pages (direct reclaim). Raise"
        " the memory limit, or use less memory.",
        (
            args.show("memory.max", "memory.current"),
            args.show("memory.pressure"),
            "grep -E 'MemAvailable|Swap' /proc/meminfo",
        ),
    )


def _major_fault(_chain: Chain, args: _Arguments) -> Remedy:
    return Remedy(
        "The job waits for major page faults: mapped files or swapped pages no longer fit in memory and are read from disk again."
        " Raise the memory limit, use less memory, or copy the files into memory.",
        (
            f"grep -E 'VmSwap|RssFile' /proc/{args.tgid}/status",
            args.show("memory.max", "memory.stat"),
        ),
    )


def _lock(chain: Chain, args: _Arguments) -> Remedy:
    holder = _culprit(chain) if chain.culprits else "another thread"
    return Remedy(
        f"The thread that feeds the GPU waits for a lock that {holder} holds; in Python this is often the interpreter's (GIL)."
        " Move the holder's work to another process, or let it hold the lock for less time.",
        (f"py-spy dump --pid {args.tgid}", f"ps -L -o tid,stat,wchan:24,comm -p {args.tgid}"),
    )


def _dataloader(_chain: Chain, args: _Arguments) -> Remedy:
    return Remedy(
        "The GPU waits for the next batch. Use more DataLoader workers, prefetch more, or make preprocessing cheaper.",
        (
            f"ps -o pid,stat,pcpu,wchan:24,comm --ppid {args.tgid}",
            "py-spy dump --pid WORKER_PID",
        ),
    )


def _network(_chain: Chain, args: _Arguments) -> Remedy:
    return Remedy(
        "The threads that feed the GPU wait for another machine, through a socket or a network file system. Check whether the"
        " peer is slow, and whether packets are retransmitted.",
        (
            f"nsenter --net=/proc/{args.tgid}/ns/net ss -tinp | grep -A1 pid={args.tgid},",
            f"nsenter --net=/proc/{args.tgid}/ns/net nstat -az TcpRetransSegs TcpExtTCPTimeouts",
            f"cat /proc/{args.tgid}/mountstats | grep -A12 'fstype nfs'",
        ),
    )


def _peer(chain: Chain, _args: _Arguments) -> Remedy:
    return Remedy(
        f"This rank waits for rank {chain.peer}. Check the chains of rank {chain.peer}.",
        (f"gpu-stall-exporter explain --workload={shell_word(f'rank={chain.peer}')}",),
    )


def _slow_rank(_chain: Chain, args: _Arguments) -> Remedy:
    return Remedy(
        "The other ranks wait for this one, and no host resource explains why. Check its input data, its code and its GPU.",
        (
            f"py-spy dump --pid {args.tgid}",
            "nvidia-smi --query-gpu=index,clocks.sm,clocks_event_reasons.active --format=csv",
        ),
    )


def _hang(chain: Chain, args: _Arguments) -> Remedy:
    return Remedy(
        f"Rank {chain.peer} has not joined a collective that the other ranks wait in. Check where rank {chain.peer} is stuck.",
        (
            f"py-spy dump --pid {args.tgid}",
            f"cat /proc/{args.tgid}/task/*/stack",
            f"ls -l /proc/{args.tgid}/fd | head",
        ),
    )


def _oom(chain: Chain, args: _Arguments) -> Remedy:
    known = f" ({chain.detail})" if chain.detail else ""
    return Remedy(
        f"The GPU is out of memory, and no later allocation succeeded{known}. Make the batch smaller, or find out which other"
        " processes use this GPU.",
        (
            "nvidia-smi --query-compute-apps=pid,used_memory --format=csv",
            f"cat /proc/{args.tgid}/environ | tr '\\0' '\\n' | grep ALLOC",
        ),
    )


def _crash(chain: Chain, args: _Arguments) -> Remedy:
    return Remedy(
        f"The process crashed ({chain.detail}). Read its own log for the place, and the kernel log for GPU errors (Xid).",
        (
            "dmesg -T | grep -iE 'xid|segfault|traps' | tail",
            f"coredumpctl info {args.tgid}",
            "kubectl logs POD --previous --tail=50",
        ),
    )


def _oom_killed(_chain: Chain, args: _Arguments) -> Remedy:
    return Remedy(
        "The OOM killer ended the process because its cgroup or the machine was out of memory. Raise the memory limit, start"
        " fewer workers, or prefetch less.",
        (
            args.show("memory.max", "memory.events"),
            "dmesg -T | grep -i 'out of memory' -A3 | tail",
            "kubectl get pod POD -o jsonpath='{.spec.containers[*].resources.limits.memory}'",
        ),
    )


def _churn(_chain: Chain, _args: _Arguments) -> Remedy:
    return Remedy(
        "The job allocates and frees GPU memory in every step and waits for both. Use the framework's caching allocator.",
        (
            "env | grep PYTORCH  # in the job: neither PYTORCH_NO_CUDA_MEMORY_CACHING nor torch.cuda.empty_cache() in the loop",
        ),
    )


def _leak(chain: Chain, args: _Arguments) -> Remedy:
    return Remedy(
        f"The job's GPU memory grows and is never freed ({chain.detail}). Find what keeps tensors of every step, such as a list"
        " of losses that are not detached.",
        (
            f"py-spy dump --pid {args.tgid}",
            "# in the job: torch.cuda.memory._record_memory_history(); torch.cuda.memory._dump_snapshot('leak.pickle')",
        ),
    )


def _pageable(_chain: Chain, args: _Arguments) -> Remedy:
    return Remedy(
        "The job copies pageable memory to or from the GPU, which blocks until the copy is done. Pin the memory, and use"
        " non-blocking copies.",
        (
            "# in the job: DataLoader(..., pin_memory=True); tensor.to(device, non_blocking=True)",
            f"py-spy dump --pid {args.tgid}",
        ),
    )


def _pcie(_chain: Chain, _args: _Arguments) -> Remedy:
    return Remedy(
        "The PCIe link between host and GPU is saturated. Copy less: smaller data types, or once instead of in every step. Check"
        " that the link runs at its full width and speed.",
        (
            "nvidia-smi --query-gpu=index,pcie.link.gen.current,pcie.link.gen.max,pcie.link.width.current,pcie.link.width.max"
            " --format=csv",
            "nvidia-smi topo -m",
        ),
    )


def _recapture(_chain: Chain, _args: _Arguments) -> Remedy:
    return Remedy(
        "The job captures CUDA graphs over and over because tensor shapes change from step to step. Capture the shapes that occur"
        " once at startup, and pad to them.",
        (
            "TORCH_LOGS=recompiles  # in the job's environment: shows which shapes are new",
            "vllm serve --compilation-config '{\"cudagraph_capture_sizes\": [1, 2, 4, 8, 16, 32]}'",
        ),
    )


def _abandoned(chain: Chain, args: _Arguments) -> Remedy:
    return Remedy(
        f"{chain.detail.capitalize()}. Work queued on that stream is recorded into a graph and never runs. Look for an exception"
        " between the begin and the end of the capture.",
        (f"py-spy dump --pid {args.tgid}", f"py-spy record --pid {args.tgid} --duration 5 --output capture.svg"),
    )


def _throttled(chain: Chain, _args: _Arguments) -> Remedy:
    return Remedy(
        f"The GPU runs at reduced clocks ({chain.detail}). Check cooling and power supply, or raise its power limit.",
        (
            "nvidia-smi -q -d PERFORMANCE,POWER,TEMPERATURE,CLOCK",
            "nvidia-smi -pl WATTS  # at most the maximum that the command above shows",
        ),
    )


def _shared_gpu(chain: Chain, _args: _Arguments) -> Remedy:
    return Remedy(
        f"{_culprit(chain)} has started to use the job's GPU. Give each of them a GPU or a MIG instance of its own.",
        (
            "nvidia-smi --query-compute-apps=gpu_uuid,pid,name,used_memory --format=csv",
            "nvidia-smi -c EXCLUSIVE_PROCESS  # one process per GPU",
        ),
    )


def _cold_start(_chain: Chain, _args: _Arguments) -> Remedy:
    return Remedy(
        "The first steps loaded kernels and built graphs; this is over. If the job starts often, warm it up before it takes"
        " traffic, and cache what was compiled.",
        (
            "export CUDA_CACHE_PATH=/persistent/cuda-cache TORCHINDUCTOR_CACHE_DIR=/persistent/inductor  # in the job",
            "export CUDA_MODULE_LOADING=EAGER  # loads kernels at startup instead of at the first request",
        ),
    )


def _paused(_chain: Chain, args: _Arguments) -> Remedy:
    return Remedy(
        "The job was stopped by a signal, a debugger or the cgroup freezer. Find out which, and resume it.",
        (
            f"grep -E 'State|TracerPid' /proc/{args.tgid}/status",
            args.show("cgroup.freeze"),
            f"kill -CONT {args.tgid}",
        ),
    )


def _gpu(_chain: Chain, _args: _Arguments) -> Remedy:
    return Remedy(
        "Calls that wait for the GPU take longer, and no host resource explains it: kernels or copies are slower, or there are"
        " more of them. Check the GPU's clocks and errors, and what changed in the model or its input.",
        (
            "nvidia-smi --query-gpu=index,clocks.sm,temperature.gpu,clocks_event_reasons.active --format=csv",
            "dmesg | grep -i xid",
        ),
    )


def _own_code(_chain: Chain, args: _Arguments) -> Remedy:
    return Remedy(
        "The job computes on the CPU between its CUDA calls, and the GPU waits for that. Find the Python or C++ code, and move it"
        " to a worker process or out of the step.",
        (
            f"py-spy record --pid {args.tgid} --duration 10 --format speedscope --output step.json",
            f"perf record -g -p {args.tgid} -- sleep 10",
        ),
    )


def _own_wait(_chain: Chain, args: _Arguments) -> Remedy:
    return Remedy(
        "The job waits between its CUDA calls: it sleeps, waits for a child process, or for an event. Find the call, and move it"
        " out of the step.",
        (
            f"py-spy dump --pid {args.tgid}",
            f"strace -f -c -w -p {args.tgid} -e trace=nanosleep,clock_nanosleep,wait4,epoll_wait,poll",
        ),
    )


def _blocked_output(chain: Chain, args: _Arguments) -> Remedy:
    reader = _culprit(chain) if chain.culprits else "The program at the other end of a pipe, socket or terminal"
    return Remedy(
        f"{reader} does not read the job's output fast enough, so writing blocks. Write less to the log, write it to a file, or"
        " repair the reader.",
        (f"ls -l /proc/{args.tgid}/fd/1 /proc/{args.tgid}/fd/2", f"cat /proc/{args.tgid}/task/*/wchan"),
    )


def _exporter(_chain: Chain, _args: _Arguments) -> Remedy:
    return Remedy(
        "gpu-stall-exporter itself is using the job's CPUs. Sample launches, scrape less often, or pin it to other CPUs.",
        ("gpu-stall-exporter run --probes.launch=sampled", "systemctl set-property gpu-stall-exporter AllowedCPUs=0"),
    )


def _stalled(chain: Chain, args: _Arguments) -> Remedy:
    return Remedy(
        f"The job makes no progress ({chain.detail}). Look where its threads are stuck.",
        (
            f"py-spy dump --pid {args.tgid}",
            f"cat /proc/{args.tgid}/task/*/stack",
            f"gdb -p {args.tgid} -batch -ex 'thread apply all bt'",
        ),
    )


def _changed(chain: Chain, _args: _Arguments) -> Remedy:
    return Remedy(
        f"The job's steps have changed for good ({chain.detail}), and no host resource is the reason. This is the baseline from"
        " now on: check whether the batch size, the model or the input was meant to change.",
        ("gpu-stall-exporter explain --since 10m",),
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
    Cause.OWN_CODE: _own_code,
    Cause.OWN_WAIT: _own_wait,
    Cause.GPU: _gpu,
    Cause.BLOCKED_OUTPUT: _blocked_output,
    Cause.EXPORTER: _exporter,
    Cause.STALLED: _stalled,
    Cause.CHANGED: _changed,
}
