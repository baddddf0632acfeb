"""Jobs under faults, the exporter, and two Prometheus servers that scrape it every two seconds and evaluate our rules.

One stores native histograms, the other one classic ones, as users have either.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import gpustall_standin as standin
from gpustall_standin.job import SPIN
from tests.faults.injectors.cpu import in_groups, named_shell
from tests.faults.injectors.network import server
from tests.support.exporter_process import Exporter, running
from tests.support.gpus import write_state
from tests.support.held_calls import fresh_rank, held_calls
from tests.support.named_cgroup import named_cgroup
from tests.support.prometheus_server import Prometheus, serving
from tests.support.receiver import receiver
from tests.support.requirements import ROOT, need_command
from tests.support.traced import eventually

FAULT_FROM_STEP = 900
"""Steps of 14 ms until then: a baseline of twelve seconds."""
HOG = "rsync-backup"

_CONFIGURATION = """\
global: {{scrape_interval: 2s, evaluation_interval: 2s}}
rule_files: ["{rules}/*.rules.yaml"]
scrape_configs:
  - job_name: gpu-stall-exporter
    honor_labels: true
    static_configs: [{{targets: ["{target}"]}}]
"""
_SLOW_RANK = (
    *("--ranks=4", "--sync=block", "--seed=1", "--quiet", "--jitter-percent=5"),
    *("--fault=straggler", "--fault-us=15000", "--fault-rank=2", f"--fault-from-step={FAULT_FROM_STEP}"),
)
_SHORT_OF_MEMORY = (
    *("--ranks=1", "--sync=block", "--seed=2", "--quiet", "--jitter-percent=5"),
    *("--fault=oom-retry", "--fault-from-step=100", "--fault-to-step=101", "--fault-every=100"),
)
_FETCHES = ("--ranks=1", "--sync=block", "--seed=3", "--quiet", "--pace-us=50000", "--loader-fetch-bytes=65536")
_SERVES = ("VLLM::EngineCore", "--sync=block", "--bursts=1000", "--idle-ms=3000", "--iterations=50", "--slow-every=20")
"""Its process title makes it an engine."""
_CPUS = 64
_JOBS = {4711: _SLOW_RANK, 4712: _SHORT_OF_MEMORY}
"""By the job number of a batch system."""


@dataclass(frozen=True)
class Servers:
    """The same data in both."""

    native: Prometheus
    classic: Prometheus


@contextmanager
def watched(folder: Path) -> Iterator[Servers]:
    """Four ranks of which one is slow, a job that runs out of GPU memory and retries, an engine; CPU hogs once a chain is open.

    The GPUs are those of the stand-in's NVML: busy, one of them hot and on half of its lanes.
    """
    binary = need_command("prometheus", "prometheus")
    with ExitStack() as stack:
        write_state(folder / "nvml")
        found = stack.enter_context(receiver())
        history = folder / "state" / "history.sqlite"
        exporter = stack.enter_context(
            running(
                *(f"--otlp.endpoint={found.url}", "--otlp.interval=1s", f"--history.path={history}", "--node=gpu-17"),
                environment=standin.environment({"STANDIN_NVML_STATE": str(folder / "nvml"), "STANDIN_DEVICES": "4"}),
            )
        )
        target = exporter.url.removeprefix("http://").removesuffix("/metrics")
        text = _CONFIGURATION.format(rules=ROOT / "alerts", target=target)
        servers = []
        for name, flags in (("native", ["--enable-feature=native-histograms"]), ("classic", [])):
            (folder / name).mkdir()
            servers.append(stack.enter_context(serving(binary, text, folder / name, *flags)))
        stack.enter_context(held_calls("ncclAllReduce:1:4096", rank=fresh_rank()))
        for library in standin.PROBED:  # from the first call of a job on, with which it makes its communicator
            path = standin.build_dir() / library
            eventually(lambda path=path: f"attached to {path}" in exporter.logs, f"{path} is probed")
        for number, flags in _JOBS.items():
            stack.enter_context(_job(number, flags))
        stack.enter_context(_job(4713, (*_FETCHES, *stack.enter_context(server()).flags)))
        stack.enter_context(_engine())
        eventually(lambda: servers[0].query("gpustall_chain_info"), "a chain is open")
        _tell_gpus(folder / "nvml", exporter)
        stack.enter_context(named_shell(HOG, SPIN, count=2 * len(os.sched_getaffinity(0))))
        yield Servers(*servers)


def _tell_gpus(state: Path, exporter: Exporter) -> None:
    """GPUs at work; every traced process has memory on the first."""
    pids = {one.labels["pid"] for one in exporter.scrape().matching("gpustall_workload_info")}
    write_state(
        state,
        *("gpu * reasons 0x4", "gpu * power 691000", "gpu * temperature 67", "gpu * utilization 93"),
        *("gpu 2 reasons 0x64", "gpu 2 temperature 91", "gpu 2 sm_clock 990", "gpu 2 link_width 8"),
        *("gpu 0 xid 1 31", "gpu 0 field 3 2", f"gpu 0 memory_used {48 << 30}", f"gpu 0 process 1 {2 << 30}"),
        *(f"gpu 0 process {pid} {4 << 30}" for pid in pids),
    )


@contextmanager
def _engine() -> Iterator[None]:
    """An engine that serves in bursts."""
    path = standin.build_dir() / "server"
    process = subprocess.Popen(_SERVES, executable=path, env=standin.environment(), stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()


@contextmanager
def _job(number: int, flags: Sequence[str]) -> Iterator[None]:
    """A job in control groups as SLURM makes them, with limits that it does not reach."""
    path = f"slurm/uid_1000/job_{number}/step_0"
    with named_cgroup("v1", path) as of_memory, named_cgroup("cpu", path) as of_cpus:
        (of_memory / "memory.limit_in_bytes").write_text(str(8 << 30))
        (of_cpus / "cpu.cfs_quota_us").write_text(str(_CPUS * 100_000))
        command = [*in_groups([of_memory, of_cpus]), *standin.trainer_command(*flags)]
        process = subprocess.Popen(command, env=standin.environment(), stdout=subprocess.DEVNULL)
        try:
            yield
        finally:
            process.kill()
            process.wait()
