"""Neighbours that take CPU time, as they are found on real machines."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import gpustall_standin as standin
from tests.faults.injectors import NotPossible
from tests.faults.injectors.cpu import in_groups
from tests.faults.shapes.shape import PYTHON
from tests.faults.trials.fault import Bring, OutsideFault
from tests.faults.trials.job import TrialJob
from tests.faults.trials.outside.neighbour import beside, program, scratch, taken_for, weight_for, weighted

CONTENTION = frozenset({"cpu_contention"})
STRESS = ("stress-ng:stress-ng",)
MOST_REAL_TIME_PERCENT = 85
FOR_EVER = "while :; do {}; done"
BIG_FILES = Path(sys.base_prefix, "bin")
MANY_FILES = Path("/usr/share")
COMPRESS = f"tar -C {BIG_FILES} -c . 2>/dev/null | xz -T4 --block-size=1MiB -6 >/dev/null"
NICE_PER_WEIGHT, NICE_MOST = 1024 / 110, 40
"""Programs with nice 10 that weigh as much as a usual group."""
BACK_UP = f"tar -C {MANY_FILES} -c . 2>/dev/null | zstd -q -9 -T4 >/dev/null"
CHECK = "find /usr -xdev -type f -print0 2>/dev/null | xargs -0 -n 64 -P 4 sha256sum >/dev/null 2>&1"
CRON_JOBS = "for n in $(seq 50); do awk 'BEGIN { for (i = 0; i < 300000; i++) s += i }' & done; wait; sleep 0.2"
PREPARING_WEIGHT = 0.01
LEFT_OUT = ("site-packages", "dist-packages", "test", "tests", "__pycache__", "*.so", "*.a")
CONTROL_SECONDS = 0.01
CONTROL = """
import time
begin = time.monotonic()
while True:
    while time.monotonic() < begin + {busy}: pass
    begin += {period}
    time.sleep(max(begin - time.monotonic(), 0))
"""


def _stressor(name: str, says: str, *flags: str, per_cpu: int = 2, strength: float = 1.0) -> OutsideFault:
    """So many instances for each CPU of the job. strength: below 1 where it takes more than its weight."""

    @contextmanager
    def bring(job: TrialJob, share: float) -> Iterator[None]:
        count = str(per_cpu * job.cpu_count)
        words = [count if flag == "N" else flag for flag in flags]
        with (
            scratch() as folder,
            beside(job, share * strength, "stress-ng", "--quiet", "--temp-path", str(folder), *words),
        ):
            yield

    return OutsideFault(name, says, CONTENTION, bring, ("stress-ng",), needs=STRESS)


def _shell(script: str) -> Bring:
    """A script in a folder of its own, for ever."""

    @contextmanager
    def bring(job: TrialJob, share: float) -> Iterator[None]:
        with scratch() as folder, beside(job, share, "sh", "-c", script, folder=folder):
            yield

    return bring


@contextmanager
def _compiler(job: TrialJob, share: float) -> Iterator[None]:
    """The C sources of the stand-in GPU, again and again."""
    with scratch() as folder:
        shutil.copytree(standin.source_dir() / "src", folder / "src")
        makefile = (
            "OBJECTS := $(patsubst %.c,%.o,$(shell find src -name '*.c'))\n"
            "all: $(OBJECTS)\n"
            "%.o: %.c\n\t-@cc -O2 -Isrc -c $< -o $@ 2>/dev/null\n"
        )
        (folder / "Makefile").write_text(makefile)
        script = FOR_EVER.format(f"make -B -j{4 * job.cpu_count}")
        with beside(job, share, "sh", "-c", script, folder=folder):
            yield


@contextmanager
def _second_job(job: TrialJob, share: float) -> Iterator[None]:
    """Another training job that spins while it waits for its GPU."""
    libraries = {"LD_LIBRARY_PATH": str(standin.build_dir())}
    flags = (f"--ranks={2 * job.cpu_count}", "--sync=spin", "--quiet", "--evaluate-every=0")
    with beside(job, share, str(standin.build_dir() / "trainer"), *flags, environment=libraries):
        yield


@contextmanager
def _nice_neighbours(job: TrialJob, share: float) -> Iterator[None]:
    """Polite, but many, and in no group of their own, whose weight would count instead."""
    count = min(max(round(weight_for(job, share) * NICE_PER_WEIGHT), 1), NICE_MOST)
    with program("stress-ng", "--quiet", "--cpu", str(count * job.cpu_count), cpus=job.cpus, nice=10):
        yield


@contextmanager
def _real_time(job: TrialJob, share: float) -> Iterator[None]:
    """It runs whenever it wants to: in bursts."""
    percent = min(round(100 * taken_for(job, share)), MOST_REAL_TIME_PERCENT)
    line = ("chrt", "--rr", "1", "stress-ng", "--quiet", "--cpu", str(job.cpu_count), "--cpu-load", str(percent))
    with program(*line, cpus=job.cpus):
        yield


@contextmanager
def _git(job: TrialJob, share: float) -> Iterator[None]:
    """`git gc --aggressive` in two repositories with Python's own library, which were made at a low priority."""
    with scratch() as folder:
        shutil.copytree(sysconfig.get_path("stdlib"), folder / "library", ignore=shutil.ignore_patterns(*LEFT_OUT))
        with weighted(PREPARING_WEIGHT) as group:
            for line in (
                "init --quiet",
                "add .",
                "-c user.name=rig -c user.email=rig@localhost -c gc.auto=0 commit --quiet -m all",
                "clone --quiet --bare . second.git",
            ):
                done = subprocess.run(
                    [*in_groups([group.path]), "git", *line.split()], cwd=folder, capture_output=True, check=False
                )
                if done.returncode:
                    raise NotPossible(f"git {line}: {done.stderr.decode().strip()[-200:]}")
        collect = FOR_EVER.format(f"git -c pack.threads={2 * job.cpu_count} gc --quiet --aggressive --prune=now")
        with beside(job, share, "sh", "-c", f"{collect} & cd second.git && {collect}", folder=folder):
            yield


@contextmanager
def _control_loop(job: TrialJob, share: float) -> Iterator[None]:
    """First in, first out: it computes for the same part of each 10 ms, with precedence over all others."""
    busy = min(taken_for(job, share), MOST_REAL_TIME_PERCENT / 100) * CONTROL_SECONDS
    with scratch() as folder:
        link = folder / "control-loop"
        link.symlink_to(PYTHON)
        script = CONTROL.format(busy=f"{busy:.6f}", period=CONTROL_SECONDS)
        with program("chrt", "--fifo", "50", str(link), "-S", "-c", script, cpus=job.cpus):
            yield


FAULTS = (
    _stressor("cpu-stressor", "programs that compute", "--cpu", "N"),
    _stressor(
        "switching-stressor",
        "programs that pass messages and switch all the time",
        "--switch",
        "N",
        per_cpu=1,
        strength=0.2,
    ),
    _stressor("memory-stressor", "programs that write to memory", "--vm", "N", "--vm-bytes", "64M", "--vm-keep"),
    _stressor("cache-stressor", "programs that empty the caches of the CPU", "--cache", "N"),
    _stressor("forking-stressor", "programs that start processes all the time", "--fork", "N", per_cpu=1, strength=0.5),
    OutsideFault(
        "compiler",
        "make -j of a small tree in C",
        CONTENTION,
        _compiler,
        ("cc1", "make", "as", "cc", "gcc", "sh"),
        needs=("make:make", "cc:gcc"),
    ),
    OutsideFault(
        "compressor",
        "xz with many threads, twice",
        CONTENTION,
        _shell(f"for n in 1 2; do {FOR_EVER.format(COMPRESS)} & done; wait"),
        ("xz",),
        needs=("xz:xz-utils",),
    ),
    OutsideFault(
        "archiver",
        "tar and gzip of many small files, four times",
        CONTENTION,
        _shell(f"for n in 1 2 3 4; do {FOR_EVER.format(f'tar -C {MANY_FILES} -cz . >/dev/null 2>&1')} & done; wait"),
        ("tar", "gzip"),
    ),
    OutsideFault(
        "copying",
        "rsync of many small files, with checksums",
        CONTENTION | {"block_io"},
        _shell(
            f"for n in 1 2 3 4; do {FOR_EVER.format(f'rsync -an --checksum --ignore-times {MANY_FILES}/ ./ >/dev/null 2>&1')}"
            " & done; wait"
        ),
        ("rsync",),
        needs=("rsync:rsync",),
    ),
    OutsideFault("second-job", "another training job on the same CPUs", CONTENTION, _second_job, ("trainer",)),
    OutsideFault(
        "nice-neighbours", "many programs with nice 10", CONTENTION, _nice_neighbours, ("stress-ng",), needs=STRESS
    ),
    OutsideFault(
        "real-time-neighbour",
        "a program with real-time priority, in bursts",
        CONTENTION,
        _real_time,
        ("stress-ng",),
        needs=STRESS,
    ),
    OutsideFault(
        "archive-to-zstd",
        "tar and zstd with many threads, as of a nightly backup",
        CONTENTION,
        _shell(FOR_EVER.format(BACK_UP)),
        ("zstd", "tar"),
        needs=("zstd:zstd",),
    ),
    OutsideFault("git-gc", "git gc --aggressive in two repositories", CONTENTION, _git, ("git",), needs=("git:git",)),
    OutsideFault(
        "integrity-check",
        "checksums of all files below /usr, by four at once",
        CONTENTION | {"block_io"},
        _shell(FOR_EVER.format(CHECK)),
        ("sha256sum", "xargs", "find"),
    ),
    OutsideFault(
        "cron-jobs",
        "50 short programs that start at the same moment, again and again",
        CONTENTION,
        _shell(FOR_EVER.format(CRON_JOBS)),
        ("awk", "sh", "seq"),
    ),
    OutsideFault(
        "key-search",
        "openssl speed, as of a program that searches for keys",
        CONTENTION,
        _shell("exec openssl speed -multi 4 -seconds 600 sha256"),
        ("openssl",),
        needs=("openssl:openssl",),
    ),
    _stressor(
        "mapping-stressor", "programs that map and unmap memory", "--mmap", "N", "--mmap-bytes", "32M", per_cpu=1
    ),
    OutsideFault(
        "control-loop",
        "a program with real-time priority that computes in each 10 ms",
        CONTENTION,
        _control_loop,
        ("control-loop",),
        is_of_one_cpu=True,
    ),
)
