"""Blame: waits for a CPU are charged to the tasks that ran, and the charges add up to the waits."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import pytest

from exporter.accounting.sharing import Growth
from exporter.accounting.short_lived import MANY_NAMES, ShortLived
from exporter.kernel.abi import Culprit, ThreadState
from exporter.kernel.thread_rows import BlameKey
from tests.faults.injectors import cgroups
from tests.faults.injectors.quota import quota
from tests.support import accounts
from tests.support.accounts import UNASKED, Account
from tests.support.patience import line_of
from tests.support.traced import Tracer, eventually, only, tracer

MS = 1_000_000


@pytest.fixture
def probed(account_tracer: Tracer, waits_program: Path) -> Tracer:
    """Probes on the program that waits."""
    accounts.probe(account_tracer, waits_program)
    return account_tracer


class TestNeighbours:
    """Hogs on the CPU of a thread that computes."""

    @pytest.mark.parametrize("count", [1, 2, 4])
    def test_each_hog_is_charged_by_name(self, probed: Tracer, waits_program: Path, cpu: int, count: int) -> None:
        """Not only the last one that ran before the thread."""
        names = [f"hog-{number}" for number in range(count)]
        with accounts.named_hogs(names, cpu):
            charged_ns = _beside(probed, cpu, waits_program, "burn", "5", "20000").blame_ns()

        assert all(charged_ns[Culprit.TASK, name.encode()] > 0 for name in names)

    @pytest.mark.acceptance
    @pytest.mark.parametrize("count", [1, 2, 4])
    def test_each_hog_is_charged_its_share(self, probed: Tracer, waits_program: Path, cpu: int, count: int) -> None:
        """Equal shares."""
        with accounts.named_hogs([f"hog-{number}" for number in range(count)], cpu):
            account = _beside(probed, cpu, waits_program, "spin", "5", "120000")
        hogs_ns = [ns for (_, name), ns in account.blame_ns().items() if name.startswith(b"hog-")]

        assert sum(hogs_ns) > 0.5 * account.waited_ns()
        assert min(hogs_ns) > 0.5 * max(hogs_ns)

    def test_program_that_runs_briefly_is_charged_less_than_the_hog_after_it(
        self, probed: Tracer, waits_program: Path, cpu: int
    ) -> None:
        """It interrupts the hog again and again: what the hog takes after it is not its own."""
        nap = (
            "import time\nopen('/proc/self/comm', 'w').write('brief')\nprint(flush=True)\nwhile True: time.sleep(0.002)"
        )
        with (
            accounts.named_hogs(["hog"], cpu),
            accounts.running("taskset", "-c", str(cpu), sys.executable, "-c", nap) as brief,
        ):
            line_of(brief)
            charged_ns = _beside(probed, cpu, waits_program, "burn", "5", "20000").blame_ns()

        assert 0 < charged_ns[Culprit.TASK, b"brief"] < charged_ns[Culprit.TASK, b"hog"]

    @pytest.mark.parametrize(
        "way", [("burn", "5", "20000"), ("pipe", "50", "100"), ("yields", "50", "2000"), ("threads", "50", "100")]
    )
    def test_charges_add_up_to_the_waits(
        self, probed: Tracer, waits_program: Path, cpu: int, way: tuple[str, str, str]
    ) -> None:
        """To the nanosecond; an unknown culprit is charged as unknown."""
        with accounts.hogs(2, cpu):
            account = _beside(probed, cpu, waits_program, *way)

        assert sum(account.blame_ns().values()) == account.waited_ns() > 0
        assert account.blame_ns()[Culprit.TASK, b"sh"] > 0

    @pytest.mark.parametrize("way", ["spin", "threads"])
    def test_charges_add_up_to_the_waits_of_threads_that_move(
        self, probed: Tracer, waits_program: Path, two_cpus: tuple[int, int], way: str
    ) -> None:
        """Between two CPUs, each with a hog."""
        both = ",".join(map(str, two_cpus))
        with accounts.hogs(1, two_cpus[0]), accounts.hogs(1, two_cpus[1]):
            account = _beside(probed, both, waits_program, way, "50", "6000")

        assert sum(account.blame_ns().values()) == account.waited_ns() > 0

    def test_threads_of_the_job_are_its_own(self, probed: Tracer, waits_program: Path, cpu: int) -> None:
        """Fifty threads that wake up at the same time, on one CPU."""
        charged_ns = _beside(probed, cpu, waits_program, "crowd", "2", "5000").blame_ns()

        assert charged_ns[Culprit.OWN, b"waits"] > 0

    def test_interrupts_are_no_task(self, probed: Tracer, waits_program: Path, cpu: int) -> None:
        """The timer raises soft interrupts while the thread computes, usually within a third of a second."""

        def interrupted() -> Account | None:
            account = _beside(probed, cpu, waits_program, "burn", "5", "60000")
            return account if account.blame_ns().get((Culprit.IRQ, b"")) else None

        account = eventually(interrupted, "it is interrupted")

        assert sum(account.blame_ns().values()) == account.waited_ns()
        assert account.call_ns("cudaEventRecord").keys() <= UNASKED

    def test_no_waiter_is_left_when_all_threads_have_ended(self, probed: Tracer, waits_program: Path, cpu: int) -> None:
        """A leaked waiter would keep the ring of its CPU active forever."""
        with accounts.hogs(2, cpu):
            accounts.run(probed, waits_program, "call", "pipe", "50", "100")
            accounts.run(probed, waits_program, "call", "dies", "1", "1000")
        waiters = [int.from_bytes(value[:4], "little") for _, value in probed.kernel.maps["cpu_runs"].items()]

        assert waiters == [0] * len(waiters)


def _beside(
    probed: Tracer, cpus: int | str, program: Path, *way: str, environment: dict[str, str] | None = None
) -> Account:
    """What a program did on these CPUs, in calls."""
    return accounts.run(probed, "taskset", "-c", str(cpus), program, "call", *way, environment=environment)


# Two shells that pass the CPU to each other, so that a wait of a few milliseconds spans thousands of runs.
SWITCHING = """
mkfifo "$0/there" "$0/back"
while :; do echo; read line; done <"$0/there" >"$0/back" &
exec >"$0/there" <"$0/back"
while read line; do echo; done
"""


class TestLongWaits:
    """A thread that runs only when nothing else does."""

    IDLE: ClassVar[dict[str, str]] = {"WAITS_IDLE": "1"}

    def test_wait_of_more_runs_than_are_kept_is_charged_as_the_last_ones(
        self, probed: Tracer, waits_program: Path, tmp_path: Path, cpu: int
    ) -> None:
        """Two shells that switch all the time, and together leave the CPU idle now and then."""
        with accounts.running("taskset", "-c", str(cpu), "sh", "-c", SWITCHING, tmp_path) as shell:
            eventually((tmp_path / "back").exists, "they switch")
            account = _beside(probed, cpu, waits_program, "burn", "1", "2000", environment=self.IDLE)
            shell.kill()
        charged_ns = account.blame_ns()

        assert sum(charged_ns.values()) == account.waited_ns() > 0
        assert charged_ns[Culprit.TASK, b"sh"] > 0

    def test_open_wait_is_charged_when_threads_are_read(self, probed: Tracer, waits_program: Path, cpu: int) -> None:
        """Behind two hogs: charges grow while it goes on."""
        idle = ("env", "WAITS_IDLE=1", "taskset", "-c", str(cpu))
        with accounts.hogs(2, cpu), accounts.running(*idle, waits_program, "call", "burn", "1", "60000000"):
            charges = _charges_of_a_wait(probed)
            eventually(lambda: next(charges), "an open wait is charged")

    def test_what_was_charged_in_an_open_wait_is_charged_once(
        self, probed: Tracer, waits_program: Path, cpu: int
    ) -> None:
        """Its threads are read every 20 ms."""
        idle = ("env", "WAITS_IDLE=1", "taskset", "-c", str(cpu))
        with accounts.hogs(2, cpu), accounts.running(*idle, waits_program, "call", "burn", "1", "2000") as waiting:
            eventually(lambda: accounts.read(probed, {}) and waiting.poll() is not None, "the program has ended")
            account = accounts.read(probed, {})

        assert sum(account.blame_ns().values()) == account.waited_ns() > 0


def _charges_of_a_wait(probed: Tracer) -> Iterator[bool]:
    """Whether charges have grown between this reading and the one before, and the one thread waited for a CPU all the time."""
    before, charged_before_ns = None, 0
    while True:
        account = accounts.read(probed, {})
        waiting = [one.involuntary for one in account.accounts.threads if one.state == ThreadState.RUNNABLE]
        charged_ns = sum(account.blame_ns().values())
        yield bool(waiting) and waiting == before and charged_ns > charged_before_ns
        before, charged_before_ns = waiting, charged_ns


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

    def test_short_lived_process_has_an_ancestor(self, probed: Tracer, waits_program: Path, cpu: int) -> None:
        """The nearest one that lasts. A hog is short-lived for its first two seconds."""
        own_name = Path("/proc/self/comm").read_bytes().rstrip()

        def ancestors() -> set[bytes]:
            """Those of hogs, each of which is new."""
            with accounts.named_hogs(["hog-0"], cpu):
                blame = accounts.read(probed, {}).accounts.blame
            return {key.ancestor_comm for key in blame if key.comm == b"hog-0" and key.ancestor_tgid}

        with accounts.running("taskset", "-c", str(cpu), waits_program, "call", "burn", "1", "600000000"):
            eventually(ancestors, "a hog has an ancestor")

            assert ancestors() == {own_name}

    @pytest.mark.acceptance
    def test_real_culprit_is_named_among_three_hundred_other_names_a_minute(
        self, probed: Tracer, waits_program: Path, tmp_path: Path, cpu: int
    ) -> None:
        """It holds the CPU as often as all of them, and they share one name."""
        (tmp_path / "culprit").symlink_to("/bin/sh")
        culprit = ("taskset", "-c", str(cpu), tmp_path / "culprit", "-c", "while :; do :; done")
        names: ShortLived = ShortLived()
        growth: Growth[BlameKey] = Growth()
        charged_ns: Counter[str] = Counter()
        with accounts.running(*culprit), noise(tmp_path / "noise", cpu):
            for _ in range(4):
                charged_ns = Counter()
                account = _beside(probed, cpu, waits_program, "spin", "8", "60000")
                grown = growth.since(account.accounts.blame)
                names.observe(grown, time.monotonic_ns())
                for key, ns in grown.items():
                    charged_ns[names.name_of(key)] += ns

        noise_ns = {name: ns for name, ns in charged_ns.items() if name.startswith("tool")}
        assert charged_ns["culprit"] > 5 * sum(noise_ns.values())
        assert len(noise_ns) < MANY_NAMES


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

    def test_cpu_time_of_the_exporter_is_its_own(self, probed: Tracer, waits_program: Path, cpu: int) -> None:
        """It computes on the only CPU of the job."""
        command = ("taskset", "-c", str(cpu), waits_program, "call", "burn", "5", "20000")
        with only_on(cpu), accounts.running(*command) as job:
            while job.poll() is None:
                pass
        account = accounts.read(probed, {})
        of_exporter = [key for key in account.accounts.blame if key.culprit is Culprit.EXPORTER]

        assert sum(account.accounts.blame[key] for key in of_exporter) > 0
        assert {key.tgid for key in of_exporter} == {0}


def throttled_ns(group: cgroups.Group) -> int:
    said = dict(line.split() for line in group.read("cpu.stat").splitlines())
    return int(said["throttled_time"]) if group.version == 1 else int(said["throttled_usec"]) * 1000


class TestQuota:
    """The quota of the thread's own group."""

    def test_throttled_time_is_charged_to_no_culprit(
        self, probed: Tracer, waits_program: Path, cpu_group: cgroups.Group, cpu: int
    ) -> None:
        """A hog beside the group is charged for the other waits, to the nanosecond. The kernel counts throttled time as well."""
        with quota(cpu_group, percent=5), accounts.hogs(1, cpu):
            environment = {"WAITS_GROUP": str(cpu_group.path)}
            account = _beside(probed, cpu, waits_program, "burn", "3", "20000", environment=environment)
            is_throttled = throttled_ns(cpu_group) > 0

        assert (account.booked_ns().get(ThreadState.THROTTLED, 0) > 0) is is_throttled
        assert sum(account.blame_ns().values()) == account.waited_ns() > 0

    @pytest.mark.acceptance
    @pytest.mark.parametrize("neighbours", [0, 1])
    def test_throttled_time_is_that_of_the_kernel_beside_hogs(
        self, probed: Tracer, waits_program: Path, cpu_group: cgroups.Group, cpu: int, neighbours: int
    ) -> None:
        """cpu.stat, within 2 %: the group has one thread, so its sum is the thread's."""
        with quota(cpu_group, percent=40), accounts.hogs(neighbours, cpu):
            environment = {"WAITS_GROUP": str(cpu_group.path)}
            account = _beside(probed, cpu, waits_program, "burn", "8", "50000", environment=environment)
            expected_ns = throttled_ns(cpu_group)
        found_ns = account.call_ns("cudaEventRecord").get(ThreadState.THROTTLED, 0)

        assert found_ns == pytest.approx(expected_ns, rel=0.02, abs=(1 + 100 * account.healed) * MS)


def stolen_ns(cpu: int) -> int:
    """Steal of a CPU so far by /proc/stat, in units of 10 ms."""
    with Path("/proc/stat").open(encoding="ascii") as stat:
        fields = next(line.split() for line in stat if line.startswith(f"cpu{cpu} "))
    return int(fields[8]) * 10 * MS


class TestHypervisor:
    """Steal: time in which the hypervisor ran something else on the physical CPU."""

    @pytest.mark.acceptance
    def test_steal_is_charged_to_the_hypervisor(self, probed: Tracer, waits_program: Path, cpu: int) -> None:
        """Most steal of this CPU hits the one thread that computes on it; on real hardware there is none."""
        before_ns = stolen_ns(cpu)
        account = _beside(probed, cpu, waits_program, "spin", "20", "100000")
        taken_ns = stolen_ns(cpu) - before_ns
        charged_ns = account.blame_ns().get((Culprit.HYPERVISOR, b""), 0)

        assert 0.5 * taken_ns - 50 * MS <= charged_ns <= taken_ns + 50 * MS


class TestFullTable:
    def test_waits_without_room_are_unblamed(self, waits_program: Path, cpu: int) -> None:
        """Room for one culprit, and two hogs: waits behind the second are counted as dropped, and are missing nowhere else."""
        with tracer(capacities={"blame": 1}) as small, accounts.named_hogs(["hog-0", "hog-1"], cpu):
            accounts.probe(small, waits_program)
            account = _beside(small, cpu, waits_program, "burn", "5", "20000")
            unblamed_ns = only(small.tables.read_processes().values()).unblamed_ns
            drops = small.drops()

        assert len(account.accounts.blame) == 1
        assert drops["sched blame_full"] > 0
        assert sum(account.blame_ns().values()) + unblamed_ns == account.waited_ns()
