"""chains.memory: live memory that grows, and allocations that failed."""

from __future__ import annotations

from exporter.causes import Cause
from exporter.chains.chain import Change, End, Severity
from exporter.chains.memory import Allocations, Leak, OutOfMemory
from tests.unit.chains.job import Scene

MIB, GIB = 1 << 20, 1 << 30
SECOND = 1_000_000_000


def grown(leak: Leak, live_bytes: list[int], *, gpu_bytes: int = 0) -> list[int]:
    """Since when it leaks, after each of these half seconds of fifty steps."""
    since = []
    for half, live in enumerate(live_bytes):
        leak.update(Allocations(live_bytes=live, gpu_bytes=gpu_bytes), 50 * half, (20 + half) * SECOND // 2)
        since.append(leak.since_ns)
    return since


class TestLeak:
    """What survives many steps."""

    def test_growth_in_every_window_is_a_leak(self) -> None:
        """Eight rises, of 16 MiB each: 128 MiB since the first window, which began at ten seconds."""
        since = grown(Leak(), [GIB + 16 * MIB * half for half in range(11)])

        assert since == [0] * 9 + [10 * SECOND] * 2

    def test_leak_that_lasts_is_counted_from_its_onset(self) -> None:
        """Fifteen seconds, which began at ten: 29 rises of 16 MiB. The last window is open."""
        leak = Leak()
        since = grown(leak, [GIB + 16 * MIB * half for half in range(31)])

        assert since == [0] * 9 + [10 * SECOND] * 22
        assert leak.detail == "464.0 MiB more within 14 s, 327.7 KiB a step"

    def test_memory_that_every_step_frees_again_is_none(self) -> None:
        """The minimum of a window counts, however much there is in between."""
        leak = Leak()
        for tick in range(200):
            live = GIB + (tick % 2) * tick * 16 * MIB
            leak.update(Allocations(live_bytes=live), 20 * tick, tick * SECOND // 4)

        assert leak.since_ns == 0

    def test_growth_in_leaps_is_none(self) -> None:
        """As a cache of the framework fills up: every fourth window nothing is added."""
        live, steps = GIB, []
        for half in range(60):
            live += 0 if half % 4 == 3 else 64 * MIB
            steps.append(live)

        assert set(grown(Leak(), steps)) == {0}

    def test_little_growth_is_none(self) -> None:
        """4 MiB in each window: after eight it is 32."""
        assert set(grown(Leak(), [GIB + 4 * MIB * half for half in range(12)])) == {0}

    def test_it_is_over_when_two_windows_bring_nothing(self) -> None:
        """One alone may be an evaluation."""
        leak = Leak()
        live = [GIB + 16 * MIB * half for half in range(11)]
        since = grown(leak, [*live, *[live[-1]] * 4])

        assert [bool(one) for one in since[9:]] == [True, True, True, True, False, False]

    def test_slow_leak_is_seen_in_longer_windows(self) -> None:
        """Memory is allocated every three seconds only: in nine windows of four seconds it grows each time."""
        leak = Leak()
        since = grown(leak, [GIB + 20 * MIB * (half // 6) for half in range(90)])

        assert since[60] == 0
        assert since[85] == 10 * SECOND

    def test_it_says_how_fast_and_when_the_gpu_is_full(self) -> None:
        """16 MiB in half a second of 50 steps; 10 GiB less 1.1 are left."""
        leak = Leak()
        grown(leak, [GIB + 16 * MIB * half for half in range(11)], gpu_bytes=10 * GIB)

        assert (
            leak.detail
            == "144.0 MiB more within 4 s, 327.7 KiB a step; at this rate the GPU's 10.0 GiB are full in 0.1 h"
        )

    def test_it_is_a_chain_of_medium_severity(self) -> None:
        """Opened once, resolved when it stops."""
        scene = Scene()
        for half in range(20):
            scene.jobs[0].allocations = Allocations(allocated_bytes=1, live_bytes=GIB + half * 100 * MIB)
            scene.go_on(0.5)
        scene.go_on(10)

        assert [(change, chain.cause, chain.severity) for change, chain in scene.transitions] == [
            (Change.OPENED, Cause.MEMORY_LEAK, Severity.MEDIUM),
            (Change.RESOLVED, Cause.MEMORY_LEAK, Severity.MEDIUM),
        ]
        assert scene.transitions[-1].chain.end is End.RECOVERED


class TestOutOfMemory:
    """What is known of an allocation that failed."""

    def test_detail_has_the_refused_size_and_the_live_memory(self) -> None:
        """Two gibibytes, while seventy were live."""
        memory = OutOfMemory()
        memory.update(Allocations(1, 80 * GIB, 70 * GIB, 2 * GIB, 74 * GIB, 1_311), SECOND)

        assert (
            memory.detail == "2.0 GiB asked for while 70.0 GiB were live in 1,311 allocations, at most 74.0 GiB before"
        )
