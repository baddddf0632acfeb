"""What does a traced call cost? Ours, empty programs, and one ring-buffer record per call, attached in turn to one target."""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from exporter.config.probes import AttachKind
from exporter.host.elf import read_elf
from exporter.kernel import loader, probes
from exporter.kernel.abi import Api
from exporter.kernel.loader import Kernel
from exporter.kernel.operations import wanted_symbols
from tests.bench.target import BUILD, LIBRARY, Target

CALLS = 50_000
ROUNDS = 31


def load_plain(name: str, kind: AttachKind) -> Kernel:
    """An object of this folder whose programs are named like ours, so that probes.attach() attaches them alike."""
    kernel = Kernel(loader.Libbpf(), kind, {}, {}, {})
    loader.load_object(kernel, BUILD / f"{name}.bpf.o", loader.call_programs("cuda", kind), {})
    return kernel


@contextmanager
def attached(kernel: Kernel, library: Path = LIBRARY, symbols: Collection[str] = ()) -> Iterator[None]:
    """Probes on functions of a library, by default on all that are wanted of the runtime."""
    fd = os.open(library, os.O_RDONLY | os.O_CLOEXEC)
    try:
        offsets = read_elf(fd).symbol_offsets(symbols or wanted_symbols(Api.RUNTIME))
        attachment = probes.attach(kernel, Api.RUNTIME, fd, offsets)
    finally:
        os.close(fd)
    try:
        yield
    finally:
        attachment.detach()


def _burst_ns(target: Target) -> float:
    calls, elapsed_ns = target.do(f"burst {CALLS}")
    return elapsed_ns / calls


def call_costs(kind: AttachKind) -> dict[str, tuple[float, list[float]]]:
    """Name -> (median ns per call, ratio to the empty programs round by round), untraced cost subtracted nowhere."""
    kernels = {"empty": load_plain("empty", kind), "exporter": loader.load(wanted=kind)}
    samples: dict[str, list[float]] = {"untraced": [], "empty": [], "exporter": []}
    try:
        with Target() as target:
            target.do(f"burst {CALLS}")
            for round_number in range(ROUNDS):
                samples["untraced"].append(_burst_ns(target))
                order = list(kernels) if round_number % 2 else list(reversed(kernels))
                for name in order:
                    with attached(kernels[name]):
                        target.do("burst 1000")
                        samples[name].append(_burst_ns(target))
    finally:
        for kernel in kernels.values():
            kernel.close()
    return {
        name: (statistics.median(values), [v / e for v, e in zip(values, samples["empty"], strict=True)])
        for name, values in samples.items()
    }


def record_per_call(kind: AttachKind) -> tuple[float, float, float]:
    """The alternative, with a thread that takes the records: (ns per call, CPU ns of the reader per call, share dropped)."""
    kernel = load_plain("record", kind)
    received = 0

    def count(_record: bytes) -> None:
        nonlocal received
        received += 1

    ring = kernel.libbpf.open_ring(kernel.maps["records"].fd, count)
    stopping = threading.Event()
    cpu_ns = [0]
    reader = threading.Thread(target=_consume, args=(ring.consume, stopping, cpu_ns))
    try:
        reader.start()
        with Target() as target, attached(kernel):
            costs = [_burst_ns(target) for _ in range(3)]
        stopping.set()
        reader.join()
        dropped = sum(int.from_bytes(value, "little") for _, value in kernel.maps["dropped"].items())
    finally:
        stopping.set()
        ring.close()
        kernel.close()
    return statistics.median(costs), cpu_ns[0] / max(received, 1), dropped / (dropped + received)


def _consume(consume: Callable[[], None], stopping: threading.Event, cpu_ns: list[int]) -> None:
    while not stopping.is_set():
        consume()
        time.sleep(0.001)
    consume()
    cpu_ns[0] = time.thread_time_ns()
