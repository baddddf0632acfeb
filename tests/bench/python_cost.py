"""What do frames of Python cost a call that is not slow, one that is, and the exporter, in each version that is here?"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Final, NamedTuple

from exporter.host.interpreters import Interpreters
from exporter.host.processes import Processes
from exporter.kernel import abi, loader
from exporter.kernel.call_site_rows import read_call_sites
from exporter.kernel.loader import Kernel
from exporter.kernel.operations import NUMBERS
from exporter.kernel.python_frames import PythonFrames
from exporter.kernel.stacks import Stacks
from exporter.stacks.python_stacks import PythonStacks
from tests.bench.call_cost import attached
from tests.bench.target import FRAMES_LIBRARY, HERE
from tests.support.interpreters import interpreters

FRAMES: Final = 32
THREADS: Final = 32
"""As many as a job has beside its main thread, for autograd, data loaders and libraries."""
FAST_CALLS, SLOW_CALLS = 50_000, 2_000
ROUNDS, WALKS = 31, 500
NOT_SLOW_NS: Final = 10_000_000
"""The bound before the kernel has found one."""
_SLOW_AT: Final = abi.OPERATION_ROW.offset("slow_ns")


class PythonCost(NamedTuple):
    """ratios: a call with its interpreter known to the kernel, against one without, by round; none is slow.

    slow_ns: what reading FRAMES frames adds to a call that is slow, by round. walk_ns: of a walk by the iterator, each.
    sample_ns: of one sample of a line, each: the thread's state, its frames and their names. All are times of CPU.
    """

    version: str
    ratios: list[float]
    slow_ns: list[float]
    walk_ns: list[float]
    sample_ns: list[float]


def python_costs() -> Iterator[PythonCost]:
    """One for each version from 3.9 on."""
    names = {name.rpartition("-")[2]: path for name, path in interpreters()}
    for version, path in sorted(names.items(), key=lambda pair: [int(part) for part in pair[0].rstrip("t").split(".")]):
        with (
            closing(loader.load()) as kernel,
            attached(kernel, FRAMES_LIBRARY, ("cudaMalloc",)),
            _running(str(path)) as process,
        ):
            yield _measured(version, kernel, process)


@contextmanager
def _running(python: str) -> Iterator[subprocess.Popen[str]]:
    command = [python, "-I", HERE / "frames_program.py", FRAMES_LIBRARY, str(FRAMES), str(THREADS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.communicate(timeout=10)


def _measured(version: str, kernel: Kernel, process: subprocess.Popen[str]) -> PythonCost:
    frames, processes = PythonFrames(kernel), Processes()
    stacks = PythonStacks(frames, Interpreters(processes).examine, processes.start_time_ticks, lambda _result: None)
    ratios, slow_ns = [], []
    _burst_ns(process, FAST_CALLS)
    for number in range(ROUNDS):
        fast = {}
        for is_known in (True, False) if number % 2 else (False, True):
            if is_known:
                assert stacks.prepare(process.pid, 0), f"Python {version} cannot be read"
            fast[is_known] = _burst_ns(process, FAST_CALLS)
            if is_known:
                slow_ns.append(_slow_burst_ns(kernel, process) - fast[True])
            stacks.forget(())
        ratios.append(fast[True] / fast[False])
    assert stacks.prepare(process.pid, 0)
    walk_ns = [_walk_ns(frames, process.pid) for _ in range(WALKS)]
    states = Stacks(kernel)
    return PythonCost(
        version, ratios, slow_ns, walk_ns, [_sample_ns(states, stacks, process.pid) for _ in range(WALKS)]
    )


def _burst_ns(process: subprocess.Popen[str], calls: int) -> float:
    """Nanoseconds of CPU of a call."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{calls}\n")
    process.stdin.flush()
    return int(process.stdout.readline()) / calls


def _slow_burst_ns(kernel: Kernel, process: subprocess.Popen[str]) -> float:
    """The same where every call counts as slow; repeated if the kernel has found a new bound, as it does every 8.6 s."""
    while True:
        _count_as_slow(kernel, 0)
        before = _walked_calls(kernel)
        took_ns = _burst_ns(process, SLOW_CALLS)
        walked = _walked_calls(kernel) - before
        _count_as_slow(kernel, NOT_SLOW_NS)
        if walked == SLOW_CALLS:
            return took_ns


def _count_as_slow(kernel: Kernel, above_ns: int) -> None:
    for key, value in list(kernel.maps["operations"].items()):
        if abi.OPERATION_KEY.unpack(key)[1] == NUMBERS["cudaMalloc"]:
            bound = abi.COUNT.pack(above_ns)
            kernel.maps["operations"].put(key, value[:_SLOW_AT] + bound + value[_SLOW_AT + len(bound) :])


def _walked_calls(kernel: Kernel) -> int:
    rows = read_call_sites(kernel.maps["call_sites"]).values()
    return sum(row.calls for row in rows if len(row.frames) == FRAMES)


def _walk_ns(frames: PythonFrames, tid: int) -> float:
    began_ns = time.thread_time_ns()
    walked = frames.walk(tid)
    took_ns = time.thread_time_ns() - began_ns
    assert walked is not None
    assert len(walked.frames) == FRAMES
    return took_ns


def _sample_ns(states: Stacks, stacks: PythonStacks, tid: int) -> float:
    began_ns = time.thread_time_ns()
    state, frames = states.take(tid), stacks.sample(tid, tid)
    took_ns = time.thread_time_ns() - began_ns
    assert state is not None
    assert len(frames) == FRAMES
    return took_ns
