"""What looks like a fault and makes no step longer: nothing of it may be blamed."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from tests.faults.injectors import NotPossible, cgroups, memory
from tests.faults.injectors.quota import quota
from tests.faults.trials.extra import Extra
from tests.faults.trials.fault import Bring, OutsideFault
from tests.faults.trials.job import TrialJob
from tests.faults.trials.outside.limits import by_turns
from tests.faults.trials.outside.neighbour import GROUP, program, scratch, weighted

LEAST_WEIGHT = 0.002
HARDLY = "0.00005"
STRESS = ("stress-ng:stress-ng",)
NAMES_A_SECOND = 200 / 60
THREADS, CONNECTIONS = 500, 300
SPARE_BYTES = 4 << 30
PACKETS_EACH, PACKET_SECONDS = 5, 0.01
LITTLE_PERCENT, LITTLE_BYTES = 3, 48 << 20
PAUSE_SECONDS = 0.5

SLEEPERS = f"import threading\nfor _ in range({THREADS}): threading.Thread(target=threading.Event().wait).start()"
FEW_MIB = "for n in range(10**9):\n file.seek(n % 64 << 20)\n file.write(bytes(1 << 20))\n time.sleep(0.2)"
BURSTS = "while True:\n end = time.monotonic() + 0.02\n while time.monotonic() < end: pass\n time.sleep(2)"
TICKS = "import time\nwhile True: time.sleep(0.01)"
ROTATE = "seq 4000000 >log; while :; do gzip --keep --force log; sleep 1; done"
BACK_UP = "while :; do ionice -c 3 tar -C /usr/share -c . 2>/dev/null | zstd -q -3 >/dev/null; done"
INVENTORY = "while :; do ps aux; df; cat /proc/meminfo /proc/net/dev /proc/diskstats; sleep 1; done"
READ_LIBRARIES = "while :; do cat /usr/lib/*/*.so* >/dev/null 2>&1; done"
TRICKLE = f"while True:\n for _ in range({PACKETS_EACH}): s.sendto(bytes(100), ('127.0.0.1', 9))\n time.sleep({PACKET_SECONDS})"


def _decoy(name: str, says: str, bring: Bring, **others: object) -> OutsideFault:
    return OutsideFault(name, says, frozenset(), bring, **others)  # type: ignore[arg-type]


def _beside(*line: str, nice: int = 0) -> Bring:
    """A command with the least weight, wherever the scheduler puts it."""

    @contextmanager
    def bring(job: TrialJob, share: float) -> Iterator[None]:
        with (
            scratch() as folder,
            weighted(LEAST_WEIGHT) as group,
            program(*line, groups=[group.path], nice=nice, folder=folder),
        ):
            yield

    return bring


def _elsewhere(*line: str, nice: int = 0) -> Bring:
    """A command on the CPUs that the job does not use. N stands for how many these are."""

    @contextmanager
    def bring(job: TrialJob, share: float) -> Iterator[None]:
        cpus = _other_cpus(job)
        words = [cpus.partition("-")[2] if word == "N" else word for word in line]
        with (
            scratch() as folder,
            weighted(1) as group,
            program(*words, groups=[group.path], cpus=cpus, nice=nice, folder=folder),
        ):
            yield

    return bring


def _other_cpus(job: TrialJob) -> str:
    """All but CPU 0, which is that of the job."""
    count = len(os.sched_getaffinity(0)) - 1
    if count < 1 or job.cpus != "0":
        raise NotPossible("needs a CPU beside that of the job")
    return f"1-{count}"


def _python(script: str) -> Bring:
    return _beside(sys.executable, "-c", script)


def _again(each_seconds: float, act: Callable[[TrialJob], None]) -> Bring:
    """The rig does something to the job again and again."""

    @contextmanager
    def bring(job: TrialJob, share: float) -> Iterator[None]:
        over = threading.Event()

        def turn() -> None:
            while not over.wait(each_seconds):
                act(job)

        thread = threading.Thread(target=turn, name="decoy", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    return bring


def _wink(job: TrialJob) -> None:
    for tgid in job.tgids():
        with suppress(ProcessLookupError):
            os.kill(tgid, signal.SIGWINCH)


def _look(job: TrialJob) -> None:
    """As monitoring agents do."""
    for tgid in job.tgids():
        for name in ("stat", "status", "io", "schedstat", "limits"):
            with suppress(OSError):
                Path(f"/proc/{tgid}/{name}").read_bytes()


def _thaw(job: TrialJob) -> None:
    group = job.groups["freezer"]
    group.write(*(("freezer.state", "THAWED") if group.version == 1 else ("cgroup.freeze", "0")))


def _let_run_anywhere(job: TrialJob) -> None:
    """It was allowed to anyway."""
    for tgid in job.tgids():
        with suppress(OSError):
            os.sched_setaffinity(tgid, os.sched_getaffinity(tgid))


@contextmanager
def _wide_quota(job: TrialJob, share: float) -> Iterator[None]:
    with quota(job.groups["cpu"], 1000 * len(os.sched_getaffinity(0))):
        yield


@contextmanager
def _wide_memory(job: TrialJob, share: float) -> Iterator[None]:
    group = job.groups["memory"]
    with memory.limit(group, memory.used_bytes(group) + SPARE_BYTES):
        yield


@contextmanager
def _orders(job: TrialJob, share: float) -> Iterator[None]:
    """It answers a little later."""
    assert job.extra.program is not None
    with job.extra.program.order(HARDLY):
        yield


@contextmanager
def _reader_that_keeps_up(job: TrialJob, share: float) -> Iterator[None]:
    reader = job.extra.reader
    assert reader is not None
    with by_turns(lambda: reader.send_signal(signal.SIGSTOP), lambda: reader.send_signal(signal.SIGCONT), 0.003, 1.0):
        yield


@contextmanager
def _idle_connections(job: TrialJob, share: float) -> Iterator[None]:
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=CONNECTIONS))
        for _ in range(CONNECTIONS):
            stack.enter_context(socket.create_connection(listener.getsockname()))
        yield


@contextmanager
def _tracer(job: TrialJob, share: float) -> Iterator[None]:
    """It traces a process that sleeps."""
    with program("sleep", "600") as sleeper, program("strace", "-f", "-p", str(sleeper.pid)):
        yield


@contextmanager
def _ticking_real_time(job: TrialJob, share: float) -> Iterator[None]:
    """It is served at once, and has hardly anything to do."""
    with program("chrt", "--fifo", "10", sys.executable, "-S", "-c", TICKS):
        yield


@contextmanager
def _paused_neighbour(job: TrialJob, share: float) -> Iterator[None]:
    """Another container is paused by turns."""
    with (
        program("sleep", "600") as sleeper,
        by_turns(
            lambda: sleeper.send_signal(signal.SIGSTOP), lambda: sleeper.send_signal(signal.SIGCONT), 1.0, PAUSE_SECONDS
        ),
    ):
        yield


@contextmanager
def _throttled_neighbour(job: TrialJob, share: float) -> Iterator[None]:
    """Another container has used up its own quota."""
    with (
        weighted(LEAST_WEIGHT) as group,
        quota(group, LITTLE_PERCENT),
        program("sh", "-c", "while :; do :; done", groups=[group.path]),
    ):
        yield


@contextmanager
def _reclaiming_neighbour(job: TrialJob, share: float) -> Iterator[None]:
    """Another container has reached its own memory limit."""
    with (
        cgroups.group("memory", f"{GROUP}-memory") as group,
        memory.limit(group, LITTLE_BYTES),
        program("sh", "-c", READ_LIBRARIES, groups=[group.path], cpus=_other_cpus(job), nice=19),
    ):
        yield


_NEW_NAMES = (
    'n=0; while :; do n=$((n+1)); ln -sf "$(command -v true)" "./job-$$-$n"; "./job-$$-$n"; rm "./job-$$-$n"; '
    f"sleep {1 / NAMES_A_SECOND:.2f}; done"
)

DECOYS = (
    _decoy("stress-elsewhere", "programs that compute on other CPUs", _elsewhere("stress-ng", "--quiet", "--cpu", "N"),
           needs=STRESS, is_of_one_cpu=True),
    _decoy("switching-elsewhere", "programs that switch on other CPUs",
           _elsewhere("stress-ng", "--quiet", "--switch", "N"), needs=STRESS, is_of_one_cpu=True),
    _decoy("compressor-elsewhere", "xz on other CPUs",
           _elsewhere("sh", "-c", "while :; do head -c 64M /dev/urandom | xz -1 >/dev/null; done", nice=5),
           needs=("xz:xz-utils",), is_of_one_cpu=True),
    _decoy("search-elsewhere", "find over the whole disk, on other CPUs",
           _elsewhere("sh", "-c", "while :; do find / -xdev >/dev/null 2>&1; done", nice=19), is_of_one_cpu=True),
    _decoy("idle-class", "programs that run only while a CPU is idle",
           _beside("chrt", "--idle", "0", "sh", "-c", "while :; do :; done")),
    _decoy("cached-reads", "files read from the page cache, at low priority",
           _elsewhere("sh", "-c", "while :; do cat /usr/bin/* >/dev/null 2>&1; done", nice=19), is_of_one_cpu=True),
    _decoy("many-names", "200 short programs a minute, each with another name", _beside("sh", "-c", _NEW_NAMES)),
    _decoy("sleeping-tracer", "strace of a process that sleeps", _tracer, needs=("strace:strace",)),
    _decoy("wide-quota", "a CPU quota that is never used up", _wide_quota),
    _decoy("wide-memory-limit", "a memory limit that is never reached", _wide_memory),
    _decoy("slow-fio", "fio that reads 2 MiB a second",
           _beside("fio", "--name=slow", "--filename=data", "--size=64M", "--rw=randread", "--bs=64k", "--rate=2m",
                   "--time_based", "--runtime=600"), needs=("fio:fio",)),
    _decoy("ignored-signals", "SIGWINCH 50 times a second", _again(0.02, _wink)),
    _decoy("monitoring", "an agent that reads /proc of the job", _again(1.0, _look)),
    _decoy("thawing", "a group that is not frozen is thawed", _again(0.1, _thaw)),
    _decoy("same-affinity", "the job is allowed the CPUs that it had", _again(0.5, _let_run_anywhere)),
    _decoy("quick-proxy", "a proxy that holds answers back for 50 us", _orders, extra=Extra.SERVER),
    _decoy("quick-files", "a file system in user space that answers 50 us later", _orders, extra=Extra.FUSE),
    _decoy("brief-log-reader", "the reader of the job's log stops for 3 ms", _reader_that_keeps_up, extra=Extra.LOG),
    _decoy("sleeping-threads", f"{THREADS} threads that sleep", _python(SLEEPERS)),
    _decoy("idle-connections", f"{CONNECTIONS} connections without traffic", _idle_connections),
    _decoy("bursts", "20 ms of computation every two seconds", _python(f"import time\n{BURSTS}")),
    _decoy("slow-writer", "5 MiB a second written to a file",
           _python(f"import time\nfile = open('data', 'wb', 0)\n{FEW_MIB}")),
    _decoy("packet-trickle", "500 packets a second",
           _python(f"import socket, time\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n{TRICKLE}")),
    _decoy("containers", "namespaces made and removed twice a second",
           _beside("sh", "-c", "while :; do unshare --mount --pid --fork true; sleep 0.5; done")),
    _decoy("slow-copying", "rsync of 1 MiB a second",
           _beside("sh", "-c", "while :; do rsync -a --bwlimit=1m /usr/bin/ ./copy/; rm -r copy; done"),
           needs=("rsync:rsync",)),
    _decoy("log-rotation", "gzip of a log every second", _beside("sh", "-c", ROTATE)),
    _decoy("idle-backup", "tar and zstd on other CPUs, at the lowest priorities", _elsewhere("sh", "-c", BACK_UP, nice=19),
           needs=("zstd:zstd",), is_of_one_cpu=True),
    _decoy("inventory", "an agent that runs ps, df and cat every second", _beside("sh", "-c", INVENTORY)),
    _decoy("ticking-real-time", "a real-time program that wakes up 100 times a second", _ticking_real_time),
    _decoy("paused-neighbour", "another program is stopped and continued", _paused_neighbour),
    _decoy("throttled-neighbour", "another group has used up its quota", _throttled_neighbour),
    _decoy("reclaiming-neighbour", "another group has reached its memory limit", _reclaiming_neighbour,
           is_of_one_cpu=True),
)  # fmt: skip
