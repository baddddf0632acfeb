"""Who held the CPU: the waits are charged to those who ran, and the charges add up to the waits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from exporter.kernel.abi import Culprit, IntervalKind, ThreadState
from tests.support import accounts
from tests.support.accounts import Account
from tests.support.traced import Tracer

MS = 1_000_000
CPU_CONTROLLER = Path("/sys/fs/cgroup/cpu")


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


@contextmanager
def quota(percent: int) -> Iterator[Path]:
    """A group of the cpu controller with a quota of one CPU's percentage."""
    if not (CPU_CONTROLLER / "cpu.cfs_quota_us").exists() and not (CPU_CONTROLLER / "cpu.shares").exists():
        pytest.skip(f"needs the cpu controller of cgroup v1 at {CPU_CONTROLLER}")
    group = CPU_CONTROLLER / f"gpustall-test-{percent}"
    group.mkdir()
    try:
        (group / "cpu.cfs_period_us").write_text("100000")
        (group / "cpu.cfs_quota_us").write_text(str(percent * 1000))
        yield group
    finally:
        group.rmdir()


def throttled_ns(group: Path) -> int:
    """What the kernel says."""
    return int(dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())["throttled_time"])


class TestQuota:
    """The thread's own quota is nobody's fault but the quota's."""

    @pytest.mark.parametrize("neighbours", [0, 1])
    def test_throttled_time_is_the_kernels_whoever_runs_meanwhile(
        self, probed: Tracer, waits_program: Path, neighbours: int
    ) -> None:
        """cpu.stat, within 2 %: one thread in the group, so that its sum is the thread's."""
        with quota(40) as group, accounts.hogs(neighbours, cpu=1):
            enter = f"echo $$ > {group}/cgroup.procs; exec taskset -c 1 {waits_program} call burn 8 50000"
            account = accounts.run(probed, "sh", "-c", enter)
            expected_ns = throttled_ns(group)
        found_ns = account.call_ns("cudaEventRecord").get(ThreadState.THROTTLED, 0)

        assert found_ns == pytest.approx(expected_ns, rel=0.02, abs=(1 + 100 * account.healed) * MS)
        assert sum(account.blame_ns().values()) == pytest.approx(runnable_ns(account), rel=0.01, abs=2 * MS)
