"""What do other tools cost for about the same, on the same processes? Each is attached in turn, in rounds; medians count.

`python -m tests.bench.comparison` prints the tables of docs/comparison.md. A tool that is not installed is left out. What is
compared is a histogram of one function's durations, time off the CPU by thread, and a look at a Python program.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

from exporter.config.probes import AttachKind
from exporter.kernel import loader
from exporter.kernel.loader import Kernel
from tests.bench import target
from tests.bench.call_cost import attached, load_plain
from tests.bench.exporter_cost import running
from tests.bench.step_time import training_job
from tests.bench.switch_cost import SUBJECTS, switch_ns
from tests.bench.target import BUILD
from tests.faults.injectors import cpu

CALL_ROUNDS, SWITCH_ROUNDS, PYTHON_ROUNDS = 5, 5, 5
CALLS = 20_000
BURSTS, SWITCHES = 9, 15  # of one attachment
READY_SECONDS = 30.0
CALM_SECONDS, WINDOW_SECONDS, HOGS, LEAST_RATE = 12.0, 10.0, 8, 0.03
REPORTED = ("gpustall_lost_seconds", "gpustall_culprit_seconds", "node_pressure", "node_cpu_seconds", "node_schedstat")
SETTLE_SECONDS = 4.0  # of a tool that does not say when it has attached
HOT = "cudaEventQuery"
LIBRARY = BUILD / "libcompared.so"
PROBED_NS = 300
SLOW_CALLS = 500

HISTOGRAM = f"""
uprobe:{LIBRARY}:{HOT} {{ @begin[tid] = nsecs; }}
uretprobe:{LIBRARY}:{HOT} /@begin[tid]/ {{ @took = hist(nsecs - @begin[tid]); delete(@begin[tid]); }}
"""
COUNT = f"uprobe:{LIBRARY}:{HOT} {{ @calls = count(); }}"
OFF_CPU = """
tracepoint:sched:sched_switch {
  @left[args->prev_pid] = nsecs;
  if (@left[args->next_pid]) {
    @off[args->next_pid] = sum(nsecs - @left[args->next_pid]);
    delete(@left[args->next_pid]);
  }
}
"""
SPIN = """
import sys, time
def work():
    for _ in range(200000): pass
for line in sys.stdin:
    until = time.monotonic() + 0.5; n = 0
    while time.monotonic() < until: work(); n += 1
    print(n, flush=True)
"""


class Cost(NamedTuple):
    """Nanoseconds, the median of the rounds, and each round's ratio to what was measured with nothing attached."""

    name: str
    ns: float
    added_ns: float
    low_ns: float
    high_ns: float


@contextmanager
def _tool(*command: str, end: signal.Signals = signal.SIGINT) -> Iterator[subprocess.Popen[bytes]]:
    """A program that runs while the block is executed, and is interrupted at its end."""
    with Path("/dev/null").open("wb") as nowhere:
        process = subprocess.Popen(command, stdout=nowhere, stderr=nowhere, stdin=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.send_signal(end)  # of one that has ended already it does nothing
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class _Caller:
    """A program that calls the function a given number of times. No exporter on this machine probes a library of that name."""

    def __init__(self) -> None:
        self._process = subprocess.Popen([BUILD / "linked"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=10)

    @property
    def tgid(self) -> str:
        """Its number, for tools that trace one process."""
        return str(self._process.pid)

    def ns(self, calls: int = CALLS) -> float:
        """Mean nanoseconds of a call."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{calls}\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline()) / calls

    def median_ns(self, calls: int = CALLS) -> float:
        """Median over several bursts."""
        return statistics.median(self.ns(calls) for _ in range(BURSTS))


def _build() -> None:
    target.build()
    target.library(LIBRARY, (HOT,))
    command = ["cc", "-O2", "-Wall", "-Werror", "-fplt", "-Wl,-z,lazy", Path(__file__).with_name("linked.c"), LIBRARY]
    subprocess.run([*command, "-Wl,-rpath,$ORIGIN", "-o", BUILD / "linked"], check=True)


def _until_probed(caller: _Caller, tool: subprocess.Popen[bytes] | None) -> bool:
    """Wait until calls take so long that they are probed; False when the tool has ended instead."""
    until = time.monotonic() + READY_SECONDS
    while not all(caller.ns(2_000) > PROBED_NS for _ in range(5)):  # one alone may have been interrupted
        if (tool is not None and tool.poll() is not None) or time.monotonic() > until:
            return False
        time.sleep(0.1)
    return True


def _until_free(caller: _Caller) -> None:
    """Wait until the probe is gone, or what comes next would pay for it."""
    until = time.monotonic() + READY_SECONDS
    while caller.ns(2_000) > PROBED_NS and time.monotonic() < until:
        time.sleep(0.1)


def call_costs() -> list[Cost]:
    """Costs of a call of a function that returns at once."""
    kernels = {"empty programs, attached as ours": load_plain("empty", AttachKind.SESSION)}
    kernels["gpu-stall-exporter"] = loader.load(wanted=AttachKind.SESSION)
    untraced: list[float] = []
    samples: dict[str, list[float]] = {}
    failed: set[str] = set()
    try:
        for number in range(CALL_ROUNDS):
            with _Caller() as caller:
                caller.ns()
                untraced.append(caller.median_ns())
                for name, around in _turned(_call_tracers(kernels, caller.tgid), number):
                    if name in failed:
                        continue
                    with around() as tool:
                        if not _until_probed(caller, tool):
                            failed.add(name)
                            print(f"{name}: did not start, or its probe was never hit", file=sys.stderr)
                            continue
                        samples.setdefault(name, []).append(caller.median_ns(SLOW_CALLS if "ltrace" in name else CALLS))
                    _until_free(caller)
    finally:
        for kernel in kernels.values():
            kernel.close()
    whole = {name: values for name, values in samples.items() if len(values) == CALL_ROUNDS}
    return _costs(dict.fromkeys(whole, untraced), whole)


def _call_tracers(kernels: dict[str, Kernel], tgid: str) -> dict[str, Any]:
    tracers: dict[str, Any] = {name: partial(attached, kernel, LIBRARY, [HOT]) for name, kernel in kernels.items()}
    if shutil.which("bpftrace"):
        tracers["bpftrace, count of entries"] = lambda: _tool("bpftrace", "-e", COUNT)
        tracers["bpftrace, histogram of durations"] = lambda: _tool("bpftrace", "-e", HISTOGRAM)
    if shutil.which("funclatency-bpfcc"):
        tracers["bcc, funclatency"] = lambda: _tool("funclatency-bpfcc", "-p", tgid, f"{LIBRARY}:{HOT}")
    if shutil.which("ltrace"):
        tracers["ltrace -c"] = lambda: _tool("ltrace", "-c", "-e", HOT, "-p", tgid)
    return tracers


def switch_costs() -> list[Cost]:
    """Costs of a context switch with its wake-up, between two processes that send a byte back and forth."""
    untraced: dict[str, list[float]] = {}
    samples: dict[str, list[float]] = {}
    failed: set[str] = set()
    with subprocess.Popen([BUILD / "switches"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as pair:
        ours = loader.load(subjects=SUBJECTS)
        ours.detach()
        try:
            for number in range(SWITCH_ROUNDS):
                for name, around in _turned(_switch_tracers(ours, str(pair.pid)), number):
                    if name in failed:
                        continue
                    before_ns = _median_switch_ns(pair)
                    with around() as tool:
                        if tool is not None and tool.poll() is not None:
                            failed.add(name)
                            print(f"{name}: did not start", file=sys.stderr)
                            continue
                        samples.setdefault(name, []).append(_median_switch_ns(pair))
                    time.sleep(0.5)
                    # A switch drifts within seconds, so each is compared with what was before it and after it.
                    untraced.setdefault(name, []).append((before_ns + _median_switch_ns(pair)) / 2)
        finally:
            ours.close()
            pair.communicate()
    return _costs(untraced, samples)


def _median_switch_ns(pair: subprocess.Popen[str]) -> float:
    return statistics.median(switch_ns(pair) for _ in range(SWITCHES))


@contextmanager
def _ours(kernel: Kernel) -> Iterator[None]:
    loader.attach_fixed(kernel)
    try:
        yield
    finally:
        kernel.detach()


@contextmanager
def _settled(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    with _tool(*command) as tool:
        time.sleep(SETTLE_SECONDS)
        yield tool


def _switch_tracers(ours: Kernel, tgid: str) -> dict[str, Any]:
    tracers: dict[str, Any] = {"gpu-stall-exporter": lambda: _ours(ours)}
    if shutil.which("bpftrace"):
        tracers["bpftrace, time off the CPU by thread"] = lambda: _settled("bpftrace", "-e", OFF_CPU)
    if shutil.which("offcputime-bpfcc"):
        tracers["bcc, offcputime"] = lambda: _settled("offcputime-bpfcc")
    if shutil.which("perf"):
        tracers["perf sched record"] = lambda: _settled("perf", "sched", "record", "-o", str(BUILD / "perf.data"))
    if shutil.which("strace"):
        children = Path(f"/proc/{tgid}/task/{tgid}/children").read_text().split()
        tracers["strace -c, of both processes"] = lambda: _settled(
            "strace", "-c", *(word for one in (tgid, *children) for word in ("-p", one))
        )
    return tracers


def python_costs() -> list[Cost]:
    """Nanoseconds of a step of a Python program that computes, with py-spy at 100 samples a second and without.

    The minimum of several: py-spy samples all the time, other work comes and goes.
    """
    spy = shutil.which("py-spy")
    if spy is None:
        return []
    untraced: dict[str, list[float]] = {}
    samples: dict[str, list[float]] = {}
    with subprocess.Popen(
        [sys.executable, "-c", SPIN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        _step_ns(program)
        command = (spy, "record", "-r", "100", "-d", "600", "-o", str(BUILD / "spy.svg"), "-p", str(program.pid))
        for _ in range(PYTHON_ROUNDS):
            for name, flags in (("py-spy record", ()), ("py-spy record --nonblocking", ("--nonblocking",))):
                before_ns = _least_step_ns(program)
                with _tool(*command, *flags):
                    time.sleep(2)
                    samples.setdefault(name, []).append(_least_step_ns(program))
                untraced.setdefault(name, []).append((before_ns + _least_step_ns(program)) / 2)
        program.communicate()
    return _costs(untraced, samples)


def _least_step_ns(program: subprocess.Popen[str]) -> float:
    return min(_step_ns(program) for _ in range(6))


def _step_ns(program: subprocess.Popen[str]) -> float:
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.write("\n")
    program.stdin.flush()
    return 0.5e9 / int(program.stdout.readline())


def situation() -> Iterator[str]:
    """A job with and without programs that take its CPUs: the series of each exporter that changed."""
    node_exporter = shutil.which("prometheus-node-exporter")
    flags = ("--collector.disable-defaults", "--collector.pressure", "--collector.cpu", "--collector.schedstat")
    with ExitStack() as stack:
        job = stack.enter_context(training_job())
        exporter = stack.enter_context(running())
        theirs = f"127.0.0.1:{free_port()}"
        if node_exporter:
            stack.enter_context(_tool(node_exporter, f"--web.listen-address={theirs}", *flags))
        time.sleep(CALM_SECONDS)  # for the baseline
        for name, count in (("as usual", 0), (f"{HOGS} more programs need the CPUs", HOGS)):
            with cpu.hogs(count) if count else nullcontext():
                time.sleep(2)
                before, began = _samples(exporter.scrape(), theirs if node_exporter else ""), time.monotonic()
                step_ns = job.mean_step_ns(WINDOW_SECONDS)
                after = _samples(exporter.scrape(), theirs if node_exporter else "")
                elapsed = time.monotonic() - began
            yield f"{name}: a step takes {step_ns / 1e6:.1f} ms"
            for series, value in sorted(after.items()):
                rate = (value - before.get(series, 0.0)) / elapsed
                if series.startswith("gpustall_chain_active") and value:
                    yield f"  {series}"
                elif series.startswith(REPORTED) and rate >= LEAST_RATE:
                    yield f"  {rate:5.2f} a second of {series}"


def free_port() -> int:
    """A port that is not in use now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _samples(ours: str, theirs: str) -> dict[str, float]:
    """Series -> value, of both."""
    text = ours
    if theirs:
        with urllib.request.urlopen(f"http://{theirs}/metrics", timeout=5) as answer:
            text += answer.read().decode()
    found = (line.rpartition(" ") for line in text.splitlines() if line and not line.startswith("#"))
    return {series: float(value) for series, _, value in found}


def _turned(tracers: dict[str, Any], number: int) -> list[tuple[str, Any]]:
    """The tracers, in another order each round."""
    names = list(tracers.items())
    at = number % len(names)
    return names[at:] + names[:at]


def _costs(untraced: Mapping[str, Sequence[float]], samples: Mapping[str, Sequence[float]]) -> list[Cost]:
    """untraced: of each name, round by round."""
    bases = [base for one in untraced.values() for base in one]
    found = [Cost("nothing attached", statistics.median(bases), 0.0, min(bases), max(bases))]
    for name, values in samples.items():
        added = statistics.median(value - base for value, base in zip(values, untraced[name], strict=True))
        found.append(Cost(name, statistics.median(values), added, min(values), max(values)))
    return found


def _table(title: str, costs: Sequence[Cost]) -> Iterator[str]:
    ours = next((cost.added_ns for cost in costs if cost.name == "gpu-stall-exporter"), None)
    yield f"\n| {title} | ns | rounds | added | against ours |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for cost in costs:
        ratio = f"{cost.added_ns / ours:.2f}x" if ours and cost.added_ns else ""
        yield (
            f"| {cost.name} | {cost.ns:,.0f} | {cost.low_ns:,.0f} to {cost.high_ns:,.0f} | {cost.added_ns:,.0f} | {ratio} |"
        )


def main() -> int:
    """Prints the tables."""
    if os.geteuid() != 0:
        print("tests.bench.comparison: needs root, to load BPF programs", file=sys.stderr)
        return 3
    _build()
    wanted = sys.argv[1:] or ["calls", "switches", "python", "situation"]
    for name, title, measure in (
        ("calls", "a traced call", call_costs),
        ("switches", "a context switch with its wake-up", switch_costs),
        ("python", "a step of a Python program", python_costs),
    ):
        if name in wanted:
            print("\n".join(_table(title, measure())), flush=True)
    if "situation" in wanted:
        print("\n".join(situation()), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
