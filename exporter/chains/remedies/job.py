"""Remedies for causes in the job itself: its threads, ranks, input and output."""

from __future__ import annotations

from exporter.chains.chain import Chain
from exporter.chains.remedies.commands import FREEZER, Commands, Remedy, remedy
from exporter.chains.remedies.host import culprit_of
from exporter.text.shell import shell_word


def lock(chain: Chain, commands: Commands) -> Remedy:
    holder = culprit_of(chain) if chain.culprits else "another thread"
    return remedy(
        f"The thread that feeds the GPU waits for a lock that {holder} holds; in Python this is often the interpreter's (GIL)."
        f" Move the holder's work to another process, or let it hold the lock for less time.{commands.python_hint}",
        commands.python_stack(),
        commands.threads(),
    )


def dataloader(_chain: Chain, commands: Commands) -> Remedy:
    return remedy(
        "The GPU waits for the next batch. Use more DataLoader workers, prefetch more, or make preprocessing cheaper."
        + commands.python_hint,
        commands.of_job("ps", "ps -o pid,stat,pcpu,wchan:24,comm -p {} --ppid {}"),
        commands.of_job("py-spy", "py-spy dump --subprocesses --pid {}"),
    )


def peer(chain: Chain, commands: Commands) -> Remedy:
    return remedy(
        f"This rank waits for rank {chain.peer}. Check the chains of rank {chain.peer}.",
        commands.exporter(f"explain --workload={shell_word(f'rank={chain.peer}')}"),
    )


def slow_rank(_chain: Chain, commands: Commands) -> Remedy:
    return remedy(
        "The other ranks wait for this one, and no host resource explains why. Check its input data, its code and its GPU."
        + commands.python_hint,
        commands.python_stack(),
        commands.line("nvidia-smi", "nvidia-smi --query-gpu=index,clocks.sm,clocks_event_reasons.active --format=csv"),
    )


def hang(chain: Chain, commands: Commands) -> Remedy:
    return remedy(
        f"Rank {chain.peer} has not joined a collective that the other ranks wait in. Check where rank {chain.peer} is stuck."
        + commands.python_hint,
        commands.python_stack(),
        commands.kernel_stacks(),
        commands.of_job("ls head", "ls -l /proc/{}/fd | head"),
    )


def crash(_chain: Chain, commands: Commands) -> Remedy:
    return remedy(
        "The process crashed. Read its own log for the line where it failed, and the kernel's log for GPU errors (Xid).",
        commands.kernel_log("xid|segfault|traps"),
        commands.line("coredumpctl tail", "coredumpctl --no-pager list | tail -n 5"),
        commands.logs(),
    )


def recapture(_chain: Chain, commands: Commands) -> Remedy:
    return remedy(
        "The job captures CUDA graphs over and over because tensor shapes change from step to step. Capture the shapes that occur"
        " once at startup (vLLM: cudagraph_capture_sizes), and pad to them. TORCH_LOGS=recompiles in the job's environment shows"
        f" which shapes are new.{commands.python_hint}",
        commands.python_stack(),
    )


def abandoned(chain: Chain, commands: Commands) -> Remedy:
    return remedy(
        f"{chain.detail.capitalize()}. Work queued on that stream is recorded into a graph and never runs. Look for an exception"
        f" between the begin and the end of the capture.{commands.python_hint}",
        commands.python_stack(),
        commands.of_job("py-spy", "py-spy record --nonblocking --pid {} --duration 5 --output capture.svg"),
    )


def cold_start(_chain: Chain, _commands: Commands) -> Remedy:
    return remedy(
        "The first steps loaded kernels and built graphs; this is over. If the job starts often, warm it up before it takes"
        " traffic, load kernels at startup (CUDA_MODULE_LOADING=EAGER), and keep what was compiled in a folder that persists"
        " (CUDA_CACHE_PATH, TORCHINDUCTOR_CACHE_DIR).",
    )


def paused(_chain: Chain, commands: Commands) -> Remedy:
    return remedy(
        "The job was stopped by a signal, a debugger or the cgroup freezer. Find out which, and resume it.",
        commands.of_job("grep", "grep -E 'State|TracerPid' /proc/{}/status"),
        commands.show(FREEZER),
        commands.of_job("", "kill -CONT {}"),
    )


def own_code(_chain: Chain, commands: Commands) -> Remedy:
    return remedy(
        "The job computes on the CPU between its CUDA calls, and the GPU waits for that. Find the Python or C++ code, and move it"
        f" to a worker process or out of the step.{commands.python_hint}",
        commands.of_job(
            "py-spy", "py-spy record --nonblocking --pid {} --duration 10 --format speedscope --output step.json"
        ),
        commands.of_job("perf sleep", "perf record -g -p {} -- sleep 10"),
    )


def own_wait(_chain: Chain, commands: Commands) -> Remedy:
    return remedy(
        "The job waits between its CUDA calls: it sleeps, waits for a child process, or for an event. Find the call, and move it"
        f" out of the step.{commands.python_hint}",
        commands.python_stack(),
        commands.threads(),
    )


def blocked_output(chain: Chain, commands: Commands) -> Remedy:
    reader = culprit_of(chain) if chain.culprits else "The program at the other end of a pipe, socket or terminal"
    return remedy(
        f"{reader} does not read the job's output fast enough, so writing blocks. Write less to the log, write it to a file, or"
        " repair the reader.",
        commands.of_job("ls head", "ls -lv /proc/{}/fd | head -n 4"),
        commands.threads(),
    )


def stalled(chain: Chain, commands: Commands) -> Remedy:
    return remedy(
        f"The job makes no progress ({chain.detail}). Look where its threads are stuck.{commands.python_hint}",
        commands.python_stack(),
        commands.kernel_stacks(),
        commands.of_job("gdb", "gdb -p {} -batch -ex 'thread apply all bt'"),
    )


def changed(chain: Chain, commands: Commands) -> Remedy:
    return remedy(
        f"The job's steps have changed for good ({chain.detail}), and no host resource is the reason. This is the baseline from"
        " now on: check whether the batch size, the model or the input was meant to change.",
        commands.exporter("explain --since 10m"),
    )
