"""What does a context switch between untraced tasks cost? Nothing attached, empty programs, and ours, in turn."""

from __future__ import annotations

import statistics
import subprocess
from contextlib import closing
from typing import NamedTuple

from exporter.config.probes import AttachKind
from exporter.kernel import loader
from exporter.kernel.libbpf import Libbpf
from exporter.kernel.loader import Kernel
from tests.bench.target import BUILD

# A switch drifts by more than the programs add, and within less than a second: many short measurements, in turn.
ROUND_TRIPS = 3_000
ROUNDS = 600
SUBJECTS = [subject for subject in loader.SUBJECTS if subject != "threads"]  # all but the iterator, which has no events


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
    """Both sets of programs stay loaded; what is attached to the scheduler is so for the whole machine."""
    with (
        subprocess.Popen([BUILD / "switches"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process,
        closing(_empty()) as empty,
        closing(loader.load(subjects=SUBJECTS)) as ours,
    ):
        for kernel in (empty, ours):
            kernel.detach()
        rounds = [_round(process, empty, ours, is_reversed=bool(number % 2)) for number in range(ROUNDS)]
        process.communicate()
    return SwitchCosts(
        statistics.median(untraced for untraced, _, _ in rounds),
        statistics.median(with_empty - untraced for untraced, with_empty, _ in rounds),
        statistics.median(with_ours - untraced for untraced, _, with_ours in rounds),
    )


def _round(
    process: subprocess.Popen[str], empty: Kernel, ours: Kernel, *, is_reversed: bool
) -> tuple[float, float, float]:
    untraced = switch_ns(process)
    costs = {}
    for kernel in (ours, empty) if is_reversed else (empty, ours):
        loader.attach_fixed(kernel)
        costs[kernel is ours] = switch_ns(process)
        kernel.detach()
    return untraced, costs[False], costs[True]


def _empty() -> Kernel:
    kernel = Kernel(Libbpf(), AttachKind.SESSION, {}, {}, {})
    loader.load_object(kernel, BUILD / "empty_sched.bpf.o", None, {})
    return kernel


def switch_ns(process: subprocess.Popen[str]) -> float:
    """Nanoseconds of a switch, over ROUND_TRIPS of the program `switches`."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{ROUND_TRIPS}\n")
    process.stdin.flush()
    return int(process.stdout.readline()) / ROUND_TRIPS / 2
