"""What does a context switch between tasks that nobody traces cost? Nothing attached, empty programs, and ours, in turn."""

from __future__ import annotations

import statistics
import subprocess
from typing import NamedTuple

from exporter.kernel import loader
from exporter.kernel.libbpf import Libbpf
from exporter.kernel.loader import Kernel
from tests.bench.target import BUILD

ROUND_TRIPS = 60_000
ROUNDS = 15


class SwitchCosts(NamedTuple):
    """Nanoseconds of a switch with its wake-up; what is added is above `untraced_ns`, medians over the rounds."""

    untraced_ns: float
    empty_added_ns: float
    ours_added_ns: float

    @property
    def ratio(self) -> float:
        """Ours against empty programs."""
        return self.ours_added_ns / self.empty_added_ns


def switch_costs() -> SwitchCosts:
    """Loads the programs anew for each measurement: what is attached to the scheduler is so for the whole machine."""
    with subprocess.Popen([BUILD / "switches"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        _switch_ns(process)
        rounds = [_round(process, is_reversed=bool(number % 2)) for number in range(ROUNDS)]
        process.communicate()
    # Within a round, since what a switch costs drifts by more than the programs add.
    return SwitchCosts(
        statistics.median(untraced for untraced, _, _ in rounds),
        statistics.median(empty - untraced for untraced, empty, _ in rounds),
        statistics.median(ours - untraced for untraced, _, ours in rounds),
    )


def _round(process: subprocess.Popen[str], *, is_reversed: bool) -> tuple[float, float, float]:
    untraced = _switch_ns(process)
    costs = {}
    for load in (_ours, _empty) if is_reversed else (_empty, _ours):
        kernel = load()
        try:
            costs[load] = _switch_ns(process)
        finally:
            kernel.close()
    return untraced, costs[_empty], costs[_ours]


def _empty() -> Kernel:
    kernel = Kernel(Libbpf(), loader.AttachKind.SESSION, {}, {}, {})
    loader.load_object(kernel, BUILD / "empty_sched.bpf.o", None, {})
    loader.attach_fixed(kernel)
    return kernel


def _ours() -> Kernel:
    return loader.load()


def _switch_ns(process: subprocess.Popen[str]) -> float:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{ROUND_TRIPS}\n")
    process.stdin.flush()
    return int(process.stdout.readline()) / ROUND_TRIPS / 2
