"""Blame: waits for a CPU are charged to the tasks that ran, and the charges add up to the waits."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from exporter.accounting.sharing import Growth
from exporter.accounting.short_lived import MANY_NAMES, ShortLived
from exporter.kernel.abi import Culprit, IntervalKind, ThreadState
from exporter.kernel.thread_rows import BlameKey
from tests.faults.injectors import cgroups
from tests.faults.injectors.quota import quota
from tests.support import accounts
from tests.support.accounts import Account
from tests.support.traced import Tracer, eventually, only, tracer

pytestmark = pytest.mark.whole_machine

MS = 1_000_000


def runnable_ns(account: Account) -> int:
    """In calls and in gaps."""
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
        """Equal shares, not all of it to the last one that ran before the thread."""
        with accounts.hogs(count, cpu=1) as tgids:
            account = accounts.run(probed, "taskset", "-c", "1", waits_program, "call", "spin", "5", "120000")
        by_tgid = account.blame_by_tgid_ns()
        hogs_ns = [by_tgid.get(tgid, 0) for tgid in tgids]

        assert sum(hogs_ns) > 0.5 * runnable_ns(account)
        assert min(hogs_ns) > 0.5 * max(hogs_ns)

    @pytest.mark.parametrize("cpus", ["1", "0,1"])
    def test_charges_add_up_to_the_waits(self, probed: Tracer, waits_program: Path, cpus: str) -> None:
        """On one CPU, and on several; an unknown culprit is charged as unknown."""
        with accounts.hogs(2, cpu=1), accounts.hogs(1, cpu=0):
            account = accounts.run(probed, "taskset", "-c", cpus, waits_program, "call", "spin", "5", "60000")

        assert sum(account.blame_ns().values()) == pytest.approx(runnable_ns(account), rel=0.01, abs=2 * MS)

    def test_hog_is_charged_by_name_and_tgid(self, probed: Tracer, waits_program: Path) -> None:
        """The kernel program reads the name while it runs."""
        with accounts.hogs(1, cpu=1):
            account = accounts.run(probed, "taskset", "-c", "1", waits_program, "call", "spin", "3", "60000")

        assert account.blame_ns()[Culprit.TASK, b"sh"] > 30 * MS

    def test_no_waiter_is_left_when_all_threads_have_ended(self, probed: Tracer, waits_program: Path) -> None:
        """A leaked waiter would keep the ring of its CPU active forever."""
        with accounts.hogs(2, cpu=1):
            accounts.run(probed, waits_program, "call", "pipe", "200", "100")
            accounts.run(probed, waits_program, "call", "dies", "1", "1000")

        waiters = [int.from_bytes(value[:4], "little") for _, value in probed.kernel.maps["cpu_runs"].items()]

        assert waiters == [0] * len(waiters)


# Two shells that pass the CPU to each other, so that a wait of a few milliseconds spans thousands of runs.
SWITCHING = """
mkfifo "$0/there" "$0/back"
while :; do echo; read line; done <"$0/there" >"$0/back" &
exec >"$0/there" <"$0/back"
while read line; do echo; done
"""


class TestLongWaits:
    """A thread that runs only when nothing else does, for 20 ms of its CPU."""

    ALONE = ("env", "WAITS_IDLE=1", "taskset", "-c", "1")

    def test_wait_of_more_runs_than_are_kept_is_charged_as_the_last_ones(
        self, probed: Tracer, waits_program: Path, tmp_path: Path
    ) -> None:
        """Two shells that switch all the time, and together leave the CPU idle now and then."""
        with accounts.running("taskset", "-c", "1", "sh", "-c", SWITCHING, tmp_path) as shell:
            eventually((tmp_path / "back").exists, "they switch")
            account = accounts.run(probed, *self.ALONE, waits_program, "call", "burn", "1", "20000")
            shell.kill()
        charged = account.blame_ns()

        assert sum(charged.values()) == pytest.approx(runnable_ns(account), rel=0.01, abs=2 * MS)
        assert charged[Culprit.TASK, b"sh"] >= 0.9 * runnable_ns(account)

    def test_open_wait_is_charged_when_threads_are_read(self, probed: Tracer, waits_program: Path) -> None:
        """Behind two hogs, for tenths of a second."""
        with accounts.hogs(2, cpu=1), accounts.running(*self.ALONE, waits_program, "call", "burn", "1", "60000000"):
            eventually(lambda: _is_open_wait_charged(probed), "a wait of 0.2 s is charged while it goes on")

    def test_what_was_charged_in_an_open_wait_is_charged_once(self, probed: Tracer, waits_program: Path) -> None:
        """Its threads are read all the time."""
        with (
            accounts.hogs(2, cpu=1),
            accounts.running(*self.ALONE, waits_program, "call", "burn", "1", "5000") as waiting,
        ):
            eventually(lambda: accounts.read(probed, {}) and waiting.poll() is not None, "it has ended")
            account = accounts.read(probed, {})

        assert sum(account.blame_ns().values()) == pytest.approx(runnable_ns(account), rel=0.01, abs=2 * MS)


def _is_open_wait_charged(probed: Tracer) -> bool:
    """Whether a wait that has gone on for more than 0.2 s was charged up to now."""
    (waiting,) = accounts.read(probed, {}).accounts.threads or [None]
    if waiting is None or waiting.state != ThreadState.RUNNABLE or waiting.open_ns[ThreadState.RUNNABLE] < 200 * MS:
        return False
    return sum(accounts.read(probed, {}).blame_ns().values()) >= 0.9 * waiting.booked_ns[ThreadState.RUNNABLE]


# Runs programs of 300 other names a minute, a tenth of a second each.
NOISE = """
number=0
while :; do
    number=$((number + 1))
    ln -s /bin/sh "$0/tool$number"
    timeout -s KILL 0.1 "$0/tool$number" -c 'while :; do :; done'
done
"""


@contextmanager
def noise(folder: Path, cpu: int) -> Iterator[None]:
    """Short-lived programs on one CPU. Each has its own name: that of a link to the shell."""
    folder.mkdir()
    with accounts.running("taskset", "-c", str(cpu), "sh", "-c", NOISE, folder):
        eventually(lambda: len(list(folder.iterdir())) > 10, "ten programs have run")
        yield


class TestShortLived:
    """Programs that end after a moment, below the process of this test, which is older than they are."""

    def test_short_lived_process_has_an_ancestor(self, probed: Tracer, waits_program: Path) -> None:
        """The nearest one that is not short-lived: none that the hog's parent started for a moment."""
        with accounts.hogs(1, cpu=1) as (hog,):
            account = accounts.run(probed, "taskset", "-c", "1", waits_program, "call", "spin", "3", "60000")
        (key,) = (key for key in account.accounts.blame if key.tgid == hog)

        assert key.ancestor_tgid in _ancestors(os.getpid())

    def test_real_culprit_is_named_among_three_hundred_other_names_a_minute(
        self, probed: Tracer, waits_program: Path, tmp_path: Path
    ) -> None:
        """It holds the CPU as often as all of them, and they share one name."""
        (tmp_path / "culprit").symlink_to("/bin/sh")
        culprit = ("taskset", "-c", "1", tmp_path / "culprit", "-c", "while :; do :; done")
        names: ShortLived = ShortLived()
        growth: Growth[BlameKey] = Growth()
        charged_ns: Counter[str] = Counter()
        with accounts.running(*culprit), noise(tmp_path / "noise", cpu=1):
            for _ in range(4):
                charged_ns = Counter()
                account = accounts.run(probed, "taskset", "-c", "1", waits_program, "call", "spin", "8", "60000")
                grown = growth.since(account.accounts.blame)
                names.observe(grown, time.monotonic_ns())
                for key, ns in grown.items():
                    charged_ns[names.name_of(key)] += ns

        noise_ns = {name: ns for name, ns in charged_ns.items() if name.startswith("tool")}
        assert charged_ns["culprit"] > 5 * sum(noise_ns.values())
        assert len(noise_ns) < MANY_NAMES


def _ancestors(tgid: int) -> list[int]:
    """This process and those above it."""
    found = []
    while tgid:
        found.append(tgid)
        tgid = int(Path(f"/proc/{tgid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[1])
    return found


@contextmanager
def only_on(cpu: int) -> Iterator[None]:
    """This thread has one CPU."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class TestExporter:
    """The process that has loaded the programs: the one of this test."""

    def test_cpu_time_of_the_exporter_is_its_own(self, probed: Tracer, waits_program: Path) -> None:
        """It computes on the only CPU of the job."""
        command = ("taskset", "-c", "1", waits_program, "call", "spin", "5", "60000")
        with only_on(cpu=1), accounts.running(*command) as job:
            while job.poll() is None:
                pass
        account = accounts.read(probed, {})
        charged_ns = sum(ns for key, ns in account.accounts.blame.items() if key.culprit is Culprit.EXPORTER)

        assert charged_ns > 30 * MS
        assert os.getpid() not in account.blame_by_tgid_ns()


def throttled_ns(group: cgroups.Group) -> int:
    said = dict(line.split() for line in group.read("cpu.stat").splitlines())
    return int(said["throttled_time"]) if group.version == 1 else int(said["throttled_usec"]) * 1000


class TestQuota:
    """The quota of the thread's own group."""

    @pytest.mark.parametrize("neighbours", [0, 1])
    def test_throttled_time_is_that_of_the_kernel_beside_hogs(
        self, probed: Tracer, waits_program: Path, cpu_group: cgroups.Group, neighbours: int
    ) -> None:
        """cpu.stat, within 2 %: the group has one thread, so its sum is the thread's."""
        command = ("taskset", "-c", "1", waits_program, "call", "burn", "8", "50000")
        with quota(cpu_group, percent=40), accounts.hogs(neighbours, cpu=1):
            account = accounts.run(probed, *command, environment={"WAITS_GROUP": str(cpu_group.path)})
            expected_ns = throttled_ns(cpu_group)
        found_ns = account.call_ns("cudaEventRecord").get(ThreadState.THROTTLED, 0)

        assert found_ns == pytest.approx(expected_ns, rel=0.02, abs=(1 + 100 * account.healed) * MS)
        assert sum(account.blame_ns().values()) == pytest.approx(runnable_ns(account), rel=0.01, abs=2 * MS)


def stolen_ns(cpu: int) -> int:
    """Steal of a CPU so far by /proc/stat, in units of 10 ms."""
    with Path("/proc/stat").open(encoding="ascii") as stat:
        fields = next(line.split() for line in stat if line.startswith(f"cpu{cpu} "))
    return int(fields[8]) * 10 * MS


class TestHypervisor:
    """Steal: time in which the hypervisor ran something else on the physical CPU."""

    def test_steal_is_charged_to_the_hypervisor(self, probed: Tracer, waits_program: Path) -> None:
        """Most steal of this CPU hits the one thread that computes on it; on real hardware there is none."""
        before_ns = stolen_ns(cpu=1)
        account = accounts.run(probed, "taskset", "-c", "1", waits_program, "call", "spin", "20", "100000")
        taken_ns = stolen_ns(cpu=1) - before_ns
        charged_ns = account.blame_ns().get((Culprit.HYPERVISOR, b""), 0)

        assert 0.5 * taken_ns - 50 * MS <= charged_ns <= taken_ns + 50 * MS


class TestFullTable:
    def test_waits_without_room_are_unblamed(self, waits_program: Path) -> None:
        """Room for one culprit, and two hogs: waits behind the second are counted as dropped, and are missing nowhere else."""
        with tracer(capacities={"blame": 1}) as small, accounts.hogs(2, cpu=1):
            accounts.probe(small, waits_program)
            account = accounts.run(small, "taskset", "-c", "1", waits_program, "call", "spin", "5", "60000")
            unblamed_ns = only(small.tables.read_processes().values()).unblamed_ns
            drops = small.drops()

        assert len(account.accounts.blame) == 1
        assert drops["sched blame_full"] > 0
        assert sum(account.blame_ns().values()) + unblamed_ns == pytest.approx(
            runnable_ns(account), rel=0.01, abs=2 * MS
        )
