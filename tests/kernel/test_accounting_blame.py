"""Who held the CPU: the waits are charged to those who ran, and the charges add up to the waits."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.kernel.abi import Culprit, IntervalKind, ThreadState
from tests.faults.injectors import cgroups
from tests.faults.injectors.quota import quota
from tests.support import accounts
from tests.support.accounts import Account
from tests.support.traced import Tracer, only, tracer

pytestmark = pytest.mark.whole_machine

MS = 1_000_000


def runnable_ns(account: Account) -> int:
    """All of it: in calls and outside."""
    operations = ("cudaEventRecord", "cudaStreamSynchronize", "cudaLaunchKernel")
    parts = [account.call_ns(name) for name in operations] + [account.interval_ns(*IntervalKind)]
    return sum(part.get(ThreadState.RUNNABLE, 0) for part in parts)


@pytest.fixture
def probed(account_tracer: Tracer, waits_program: Path) -> Tracer:
    """Probes on the program that waits."""
    accounts.probe(account_tracer, waits_program)
    return account_tracer


class TestNeighbours:
    """Hogs on the CPU of a thread that spins."""

    @pytest.mark.parametrize("count", [1, 2, 4])
    def test_each_hog_is_charged_its_share(self, probed: Tracer, waits_program: Path, count: int) -> None:
        """Equal shares; the last who ran before the thread would be charged all of it otherwise."""
        with accounts.hogs(count, cpu=1) as tgids:
            account = accounts.run(probed, "taskset", "-c", "1", waits_program, "call", "spin", "5", "120000")
        by_tgid = account.blame_by_tgid_ns()
        hogs_ns = [by_tgid.get(tgid, 0) for tgid in tgids]

        assert sum(hogs_ns) > 0.5 * runnable_ns(account)
        assert min(hogs_ns) > 0.5 * max(hogs_ns)

    @pytest.mark.parametrize("cpus", ["1", "0,1"])
    def test_charges_add_up_to_the_waits(self, probed: Tracer, waits_program: Path, cpus: str) -> None:
        """On one CPU and where the thread may be moved; whoever is unknown is charged as unknown."""
        with accounts.hogs(2, cpu=1), accounts.hogs(1, cpu=0):
            account = accounts.run(probed, "taskset", "-c", cpus, waits_program, "call", "spin", "5", "60000")

        assert sum(account.blame_ns().values()) == pytest.approx(runnable_ns(account), rel=0.01, abs=2 * MS)

    def test_hog_is_named_with_its_process(self, probed: Tracer, waits_program: Path) -> None:
        """The name was taken in the kernel, while it ran."""
        with accounts.hogs(1, cpu=1):
            account = accounts.run(probed, "taskset", "-c", "1", waits_program, "call", "spin", "3", "60000")

        assert account.blame_ns()[Culprit.TASK, b"sh"] > 30 * MS

    def test_nobody_is_left_waiting_when_all_have_ended(self, probed: Tracer, waits_program: Path) -> None:
        """A waiter that leaked would keep the ring of its CPU on for good."""
        with accounts.hogs(2, cpu=1):
            accounts.run(probed, waits_program, "call", "pipe", "200", "100")
            accounts.run(probed, waits_program, "call", "dies", "1", "1000")

        waiters = [int.from_bytes(value[:4], "little") for _, value in probed.kernel.maps["cpu_runs"].items()]

        assert waiters == [0] * len(waiters)


def throttled_ns(group: cgroups.Group) -> int:
    """What the kernel says."""
    said = dict(line.split() for line in group.read("cpu.stat").splitlines())
    return int(said["throttled_time"]) if group.version == 1 else int(said["throttled_usec"]) * 1000


class TestQuota:
    """The thread's own quota is nobody's fault but the quota's."""

    @pytest.mark.parametrize("neighbours", [0, 1])
    def test_throttled_time_is_the_kernels_whoever_runs_meanwhile(
        self, probed: Tracer, waits_program: Path, cpu_group: cgroups.Group, neighbours: int
    ) -> None:
        """cpu.stat, within 2 %: one thread in the group, so that its sum is the thread's."""
        command = ("taskset", "-c", "1", waits_program, "call", "burn", "8", "50000")
        with quota(cpu_group, percent=40), accounts.hogs(neighbours, cpu=1):
            account = accounts.run(probed, *command, environment={"WAITS_GROUP": str(cpu_group.path)})
            expected_ns = throttled_ns(cpu_group)
        found_ns = account.call_ns("cudaEventRecord").get(ThreadState.THROTTLED, 0)

        assert found_ns == pytest.approx(expected_ns, rel=0.02, abs=(1 + 100 * account.healed) * MS)
        assert sum(account.blame_ns().values()) == pytest.approx(runnable_ns(account), rel=0.01, abs=2 * MS)


def stolen_ns(cpu: int) -> int:
    """What the kernel says that the hypervisor has taken from a CPU so far, by the hundredth of a second."""
    with Path("/proc/stat").open(encoding="ascii") as stat:
        fields = next(line.split() for line in stat if line.startswith(f"cpu{cpu} "))
    return int(fields[8]) * 10 * MS


class TestHypervisor:
    """A virtual machine whose CPU was given to another one did not run, whatever its own clocks say."""

    def test_what_it_took_is_charged_to_it(self, probed: Tracer, waits_program: Path) -> None:
        """From the one thread that computes on this CPU, which is most of what it took there; on real hardware nothing."""
        before_ns = stolen_ns(cpu=1)
        account = accounts.run(probed, "taskset", "-c", "1", waits_program, "call", "spin", "20", "100000")
        taken_ns = stolen_ns(cpu=1) - before_ns
        charged_ns = account.blame_ns().get((Culprit.HYPERVISOR, b""), 0)

        assert 0.5 * taken_ns - 50 * MS <= charged_ns <= taken_ns + 50 * MS


class TestFullTable:
    """Room for one culprit."""

    def test_what_has_no_room_is_told_as_unblamed(self, waits_program: Path) -> None:
        """Two hogs: the waits behind the second are in no row, are counted as a loss, and are missing nowhere else."""
        with tracer(capacities={"blame": 1}) as small, accounts.hogs(2, cpu=1):
            accounts.probe(small, waits_program)
            account = accounts.run(small, "taskset", "-c", "1", waits_program, "call", "spin", "5", "60000")
            unblamed_ns = only(small.tables.read_processes().values()).unblamed_ns
            losses = small.losses()

        assert len(account.accounts.blame) == 1
        assert losses["sched blame_full"] > 0
        assert sum(account.blame_ns().values()) + unblamed_ns == pytest.approx(
            runnable_ns(account), rel=0.01, abs=2 * MS
        )
