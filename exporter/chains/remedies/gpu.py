"""Remedies for causes on the GPU and the way to it: memory, clocks, the PCIe link, other programs."""

from __future__ import annotations

from exporter.chains.chain import Chain
from exporter.chains.remedies.commands import Commands, Remedy, remedy
from exporter.chains.remedies.culprits import CulpritActs
from exporter.chains.remedies.host import culprit_of


def _query(commands: Commands, what: str) -> str:
    return commands.line("nvidia-smi", f"nvidia-smi --query-{what} --format=csv")


def _allocator_settings(commands: Commands) -> str:
    """Settings of allocators in the job's environment; no other variable is shown."""
    return commands.of_job(
        "tr sed", "sed -zn '/^PYTORCH_[A-Z_]*\\(ALLOC\\|CACHING\\)/p' /proc/{}/environ | tr '\\0' '\\n'"
    )


def out_of_memory(chain: Chain, commands: Commands) -> Remedy:
    known = f" ({chain.detail})" if chain.detail else ""
    return remedy(
        f"The GPU is out of memory, and no later allocation succeeded{known}. Make the batch smaller, or find out which other"
        " processes use this GPU.",
        _query(commands, "compute-apps=pid,used_memory"),
        _allocator_settings(commands),
    )


def churn(_chain: Chain, commands: Commands) -> Remedy:
    return remedy(
        "The job allocates and frees GPU memory in every step and waits for both. Use the framework's caching allocator: neither"
        " PYTORCH_NO_CUDA_MEMORY_CACHING in its environment, nor torch.cuda.empty_cache() in the loop.",
        _allocator_settings(commands),
    )


def leak(chain: Chain, commands: Commands) -> Remedy:
    return remedy(
        f"The job's GPU memory grows and is never freed ({chain.detail}). Find what keeps tensors of every step, such as a list"
        " of losses that are not detached; in the job, torch.cuda.memory._record_memory_history() and _dump_snapshot() show it."
        + commands.python_hint,
        commands.python_stack(),
    )


def pageable(_chain: Chain, commands: Commands) -> Remedy:
    return remedy(
        "The job copies pageable memory to or from the GPU, which blocks until the copy is done. Pin the memory, and use"
        " non-blocking copies: DataLoader(..., pin_memory=True), tensor.to(device, non_blocking=True)."
        + commands.python_hint,
        commands.python_stack(),
    )


def pcie(_chain: Chain, commands: Commands) -> Remedy:
    return remedy(
        "The PCIe link between host and GPU is saturated. Copy less: smaller data types, or once instead of in every step. Check"
        " that the link runs at its full width and speed.",
        _query(
            commands,
            "gpu=index,pcie.link.gen.current,pcie.link.gen.max,pcie.link.width.current,pcie.link.width.max",
        ),
        commands.line("nvidia-smi", "nvidia-smi topo -m"),
    )


def throttled(chain: Chain, commands: Commands) -> Remedy:
    return remedy(
        f"The GPU runs at reduced clocks ({chain.detail}). Check cooling and power supply, or raise its power limit, up to"
        " power.max_limit.",
        commands.line("nvidia-smi", "nvidia-smi -q -d PERFORMANCE,POWER,TEMPERATURE,CLOCK"),
        _query(commands, "gpu=index,power.draw,power.limit,power.max_limit"),
    )


def shared(chain: Chain, commands: Commands) -> Remedy:
    job = commands.context.job
    return remedy(
        f"{culprit_of(chain)} has started to use the job's GPU. Give each of them a GPU or a MIG instance of its own.",
        _query(commands, "compute-apps=gpu_uuid,pid,name,used_memory"),
        CulpritActs(commands, job).started("pid,lstart,cgroup,args") if job else "",
    )


def slower(_chain: Chain, commands: Commands) -> Remedy:
    return remedy(
        "Calls that wait for the GPU take longer, and no host resource explains it: kernels or copies are slower, or there are"
        " more of them. Check the GPU's clocks and errors, and what changed in the model or its input.",
        _query(commands, "gpu=index,clocks.sm,temperature.gpu,clocks_event_reasons.active"),
        commands.kernel_log("xid"),
    )
