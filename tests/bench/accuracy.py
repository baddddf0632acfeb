"""How accurate is the accounting? Each figure compares what we counted with what the kernel, or the program itself, counted."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import gpustall_standin as standin
from exporter.kernel.abi import Api, Culprit, IntervalKind, ThreadState
from exporter.kernel.thread_rows import Exposure
from tests.faults.books import excess, truth_of
from tests.faults.crowd import crowd
from tests.faults.recorder import private_standin, record
from tests.support import accounts
from tests.support.accounts import Account
from tests.support.traced import STANDIN_LIBRARIES, Tracer, tracer

KERNEL_TESTS = Path(__file__).parents[1] / "kernel"
QUOTA_GROUP = Path("/sys/fs/cgroup/cpu/gpustall-bench")
CALL = "cudaEventRecord"


class Figure(NamedTuple):
    """What was compared, what came out, and what should. worst: the largest relative deviation, which the bar bounds."""

    name: str
    measured: str
    worst: float
    bar: float


def figures() -> Iterator[Figure]:
    """All of them; two minutes on a quiet machine."""
    with tempfile.TemporaryDirectory() as folder:
        programs = Programs(Path(folder))
        yield conservation(programs)
        yield switches(programs)
        yield run_delay(programs)
        yield from quota(programs)
        yield from blame(programs)
        yield from exposed(programs)
        yield job_in_a_crowd()
        yield wakeup_paths(programs, "", "one worker process", 0.01)
        yield wakeup_paths(programs, "helper", "a worker process behind a helper thread", 0.03)


class Programs:
    """Compiled test programs, as files that no other process maps."""

    def __init__(self, folder: Path) -> None:
        self.waits = accounts.compiled(KERNEL_TESTS / "waits.c", folder)
        self.wakeups = accounts.compiled(KERNEL_TESTS / "wakeups.c", folder)
        self.calls = folder / "calls"
        for name in (*STANDIN_LIBRARIES.values(), "calls"):
            subprocess.run(["cp", standin.build_dir() / name, folder], check=True)


@contextmanager
def _traced(program: Path) -> Iterator[Tracer]:
    with tracer() as found:
        accounts.probe(found, program)
        yield found


def _waits(programs: Programs, *command: str, hogs: int = 0, cpus: str = "1", enter: str = "") -> Account:
    with accounts.hogs(hogs, cpu=1) as tgids, _traced(programs.waits) as found:
        watch = {"WAITS_WATCH": ",".join(map(str, tgids))}
        shell = f"{enter}exec taskset -c {cpus} {programs.waits} {' '.join(command)}"
        return accounts.run(found, "sh", "-c", shell, environment=watch)


def conservation(programs: Programs) -> Figure:
    """In a call; what the probes take is not in it."""
    worst, parts = 0.0, []
    for way, hogs in (("spin", 0), ("spin", 2), ("nap", 0), ("pipe", 0), ("yields", 2)):
        account = _waits(programs, "call", way, "20", "20000", hogs=hogs)
        off = sum(account.call_ns(CALL).values()) / account.truth["wall_ns"] - 1
        worst = max(worst, abs(off))
        parts.append(f"{way}{f', {hogs} hogs' if hogs else ''} {off:+.3%}")
    return Figure("sum of the states against the time the program measures", "; ".join(parts), worst, 0.002)


def switches(programs: Programs) -> Figure:
    """Sleeps and preemptions."""
    account = _waits(programs, "call", "pipe", "3000", "100", hogs=1)
    counted = account.truth["voluntary"] + account.truth["involuntary"]
    found = sum(account.switches())
    # Those before the program first counted, of which there are at most a few.
    return Figure(
        "switches against voluntary and involuntary ones of the kernel",
        f"{found:,} of {counted:,}; {account.healed} events not shown by this kernel",
        abs(found - counted) / counted,
        0.001,
    )


def run_delay(programs: Programs) -> Figure:
    """Contention without wake-ups."""
    worst, parts = 0.0, []
    for hogs in (1, 4):
        account = _waits(programs, "call", "spin", "20", "100000", hogs=hogs)
        runnable_ns = _runnable_ns(account)
        # Of what interrupts and the hypervisor take while the thread is on its CPU the kernel's sum knows nothing.
        taken_ns = sum(account.blame_ns().get((culprit, b""), 0) for culprit in (Culprit.IRQ, Culprit.HYPERVISOR))
        surplus_ns = runnable_ns - account.truth["run_delay_ns"]
        off = (surplus_ns - min(max(surplus_ns, 0), taken_ns)) / account.truth["run_delay_ns"]
        worst = max(worst, abs(off))
        parts.append(f"{hogs} hogs {off:+.4%} of {account.truth['run_delay_ns'] / 1e6:,.0f} ms")
    return Figure("waiting for a CPU against the kernel's run_delay", "; ".join(parts), worst, 0.001)


def _runnable_ns(account: Account) -> int:
    parts = [account.call_ns(name) for name in accounts.FUNCTIONS] + [account.interval_ns(*IntervalKind)]
    return sum(part.get(ThreadState.RUNNABLE, 0) for part in parts)


def quota(programs: Programs) -> Iterator[Figure]:
    """A group with 40 % of a CPU; cgroup v1 only."""
    if not QUOTA_GROUP.parent.exists():
        return
    for hogs in (0, 1):
        QUOTA_GROUP.mkdir()
        try:
            (QUOTA_GROUP / "cpu.cfs_period_us").write_text("100000")
            (QUOTA_GROUP / "cpu.cfs_quota_us").write_text("40000")
            enter = f"echo $$ > {QUOTA_GROUP}/cgroup.procs; "
            account = _waits(programs, "call", "burn", "20", "50000", hogs=hogs, enter=enter)
            stat = dict(line.split() for line in (QUOTA_GROUP / "cpu.stat").read_text().splitlines())
        finally:
            QUOTA_GROUP.rmdir()
        parts = [account.call_ns(name) for name in accounts.FUNCTIONS] + [account.interval_ns(*IntervalKind)]
        found_ns, told_ns = sum(part.get(ThreadState.THROTTLED, 0) for part in parts), int(stat["throttled_time"])
        beside = "beside a hog" if hogs else "alone"
        measured = f"{found_ns / 1e6:,.2f} of {told_ns / 1e6:,.2f} ms"
        yield Figure(f"throttled against cpu.stat, {beside}", measured, abs(found_ns / told_ns - 1), 0.02)


def blame(programs: Programs) -> Iterator[Figure]:
    """Pinned: what runs on the CPU of a spinning thread keeps it waiting, so the CPU time of those programs is the truth."""
    worst_sum, worst_share, parts = 0.0, 0.0, []
    for hogs, cpus in ((1, "1"), (2, "1"), (4, "1"), (4, "0,1")):
        with accounts.hogs(hogs, cpu=1) as tgids, _traced(programs.waits) as found:
            watch = {"WAITS_WATCH": ",".join(map(str, tgids))}
            command = ["taskset", "-c", cpus, programs.waits, "call", "spin", "20", "100000"]
            account = accounts.run(found, *command, environment=watch)
        off = sum(account.blame_ns().values()) / max(_runnable_ns(account), 1) - 1
        worst_sum = max(worst_sum, abs(off))
        if cpus != "1":
            continue
        by_tgid = account.blame_by_tgid_ns()
        truth_ns = account.truth["watched_ns"]
        wrong_ns = sum(abs(by_tgid.get(tgid, 0) - ns) for tgid, ns in zip(tgids, truth_ns, strict=True))
        # The kernel counts interrupts as time of the interrupted task; we do not.
        irq_ns = account.blame_ns().get((Culprit.IRQ, b""), 0)
        wrong_share = max(wrong_ns - irq_ns, 0) / sum(truth_ns)
        worst_share = max(worst_share, wrong_share)
        parts.append(f"{hogs} hogs {wrong_share:.2%} (and {irq_ns / sum(truth_ns):.2%} interrupts)")
    yield Figure("sum of the blame against waiting for a CPU, 1, 2, 4 hogs", f"{worst_sum:.4%}", worst_sum, 0.005)
    yield Figure("blame against what each hog ran", "; ".join(parts), worst_share, 0.01)


def _exposure(programs: Programs, sync: str, hogs: int, wait: str) -> tuple[dict[str, Any], Exposure]:
    with tracer() as found, accounts.hogs(hogs, cpu=1):
        found.attach(Api.RUNTIME, programs.calls.parent / STANDIN_LIBRARIES[Api.RUNTIME])
        command = ["taskset", "-c", "1", programs.calls, f"--sync={sync}", wait]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
        truth = json.loads(done.stdout)["waits"]
        return truth, accounts.read(found, truth).exposure("cudaStreamSynchronize")


def exposed(programs: Programs) -> Iterator[Figure]:
    """Against the stand-in GPU, which knows when it was done. What the way back from a sleep takes on the CPU is not exposed:
    some 20 us a call, so that short delays are underestimated.
    """
    worst, parts = 0.0, []
    for hogs in (4, 8):
        truth, exposure = _exposure(programs, "block", hogs, "wait:200:6ms")
        off = exposure.exact_ns / truth["delay_ns"] - 1
        short_us = (truth["delay_ns"] - exposure.exact_ns) / truth["count"] / 1e3
        worst = max(worst, abs(off))
        parts.append(f"{hogs} hogs {off:+.1%} of {truth['delay_ns'] / 1e6:,.0f} ms ({short_us:.0f} us a call)")
    yield Figure("exposed in blocking waits against the true delay", "; ".join(parts), worst, 0.05)
    worst, parts = 0.0, []
    for hogs, wait, name in (
        (2, "wait:200:6ms", "6 ms"),
        (4, "wait:200:6ms", "6 ms"),
        (4, "wait:200:6ms:50", "3 to 9 ms"),
    ):
        _, alone = _exposure(programs, "spin", 0, wait)
        truth, exposure = _exposure(programs, "spin", hogs, wait)
        clean_ns = (alone.clean_ns + exposure.clean_ns) / (alone.clean_calls + exposure.clean_calls)
        most_ns = exposure.max_ns + exposure.late_ns
        estimate_ns = min(max(exposure.total_ns + exposure.late_ns - exposure.calls * clean_ns, 0), most_ns)
        off = estimate_ns / truth["delay_ns"] - 1
        worst = max(worst, abs(off))
        parts.append(f"{hogs} hogs, kernels of {name}: {off:+.1%} of {truth['delay_ns'] / 1e6:,.0f} ms")
    yield Figure("exposed in spinning waits, narrowed, against the true delay", "; ".join(parts), worst, 0.1)


def job_in_a_crowd() -> Figure:
    """Waits without a sleep: part of its waits for a CPU is hidden by the GPU's work, the rest delays a return."""
    worst, parts = 0.0, []
    for sync in ("spin", "yield"):
        episode = crowd(f"--sync={sync}")
        with tempfile.TemporaryDirectory() as folder:
            recording = record(episode, private_standin(Path(folder)))
        lost, true_ns = excess(episode, recording, 0), truth_of(episode, recording).lost_ns()
        off = lost.sum_ns / true_ns - 1
        worst = max(worst, abs(off))
        parts.append(f"{sync} {off:+.1%} of {true_ns / 1e6:,.0f} ms ({true_ns / lost.wall_ns:.0%} of the time)")
    return Figure(
        "lost time of a job beside two busy programs for each CPU, against its own log", "; ".join(parts), worst, 0.15
    )


def wakeup_paths(programs: Programs, how: str, name: str, bar: float) -> Figure:
    """The worker's own clocks say how long it ran; there is no second measurement of the rest of the split.

    The worker has a CPU apart: on a shared one it runs before the step thread is asleep, and its clocks know nothing of that.
    """
    worst, parts = 0.0, []
    for hogs in (0, 2):
        with accounts.hogs(hogs, cpu=0), _traced(programs.wakeups) as found:
            command = ["taskset", "-c", "1", programs.wakeups, "burn", "25", "40000", "apart"]
            account = accounts.run(found, *command, *((how,) if how else ()))
        row = account.wakeup_row(ThreadState.LOCK if how else ThreadState.PIPE)
        off = (row.states_ns[ThreadState.ON_CPU] - account.truth["worker_ran_ns"]) / row.resolved_ns
        worst = max(worst, abs(off), abs(sum(row.states_ns) / row.resolved_ns - 1))
        parts.append(f"{hogs} hogs {off:+.2%} of {row.resolved_ns / 1e6:,.0f} ms")
    return Figure(f"split of gaps fed by {name}", "; ".join(parts), worst, bar)
