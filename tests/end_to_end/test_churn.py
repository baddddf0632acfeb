"""`run` beside programs that start and end: every call is counted, no counter goes back, and nothing grows."""

from __future__ import annotations

import itertools
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import gpustall_standin as standin
from tests.support.accounts import compiled
from tests.support.exporter_process import Exporter, running
from tests.support.held_calls import fresh_rank, held_calls, without_rank
from tests.support.patience import PATIENCE_SECONDS
from tests.support.requirements import need_tracing
from tests.support.traced import STANDIN_LIBRARIES, eventually

pytestmark = pytest.mark.end_to_end
OPERATIONS = "gpustall_cuda_operations_total"
INFO = "gpustall_workload_info"
TICKS = "gpustall_exporter_ticks_total"
TICKS_PER_SECOND = 4
ENTRIES = "gpustall_exporter_map_entries"
REBORN = Path(__file__).parent.parent / "kernel" / "reborn.c"
STARTS_PER_SECOND = 50
KILLED_EVERY = 10  # the others exit
GROWTH = 1.05
START_TIME_SECONDS = 0.01  # resolution of starts in /proc: of one tgid, two in the same hundredth are the same process
READINGS = 10


@pytest.fixture(scope="module", autouse=True)
def _possible_here() -> None:
    """Skip with a reason where something is missing."""
    need_tracing()


@dataclass
class _Churn:
    """Programs that make 23 calls each. made: calls of those that have ended.

    Most are gone before their rank can be read: they are counted under no rank, and here whatever the rank.
    """

    exporter: Exporter
    folders: tuple[Path, Path]
    made: int = 0
    _running: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _versions: dict[Path, int] = field(default_factory=dict)
    _seen: float = 0

    def upgrade(self) -> None:
        """Replace the library files that are not in use, wait until the new ones are probed, and use them from then on."""
        folder = self.folders[1]
        self._versions[folder] = version = self._versions.get(folder, 0) + 1
        for name in STANDIN_LIBRARIES.values():
            shutil.copy(standin.build_dir() / name, folder / "new")
            (folder / "new").rename(folder / name)
        with held_calls("cudaEventRecord:1", libraries=folder) as first:
            eventually(lambda: self._attachments(folder) == version, f"version {version} in {folder} is probed")
            first.make()
            first.end()
        self.made += 1
        self.folders = (folder, self.folders[0])

    def _attachments(self, folder: Path) -> int:
        logs = self.exporter.logs
        return min(logs.count(f"attached to {folder / name}:") for name in STANDIN_LIBRARIES.values())

    def start(self, starts: int) -> None:
        """Start so many more, STARTS_PER_SECOND or as fast as the machine can."""
        begun_at = time.monotonic()
        for number in range(starts):
            time.sleep(max(0, begun_at + number / STARTS_PER_SECOND - time.monotonic()))
            if number % KILLED_EVERY == 0:
                with held_calls("cudaEventRecord:23", libraries=self.folders[0]) as killed:
                    killed.make()
                self.made += 23
            else:
                self._running.append(self._program())
            self._reap()

    def _program(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [standin.build_dir() / "calls", "cudaEventRecord:23"],
            env={**without_rank(), "LD_LIBRARY_PATH": str(self.folders[0])},
            stdout=subprocess.DEVNULL,
        )

    def _reap(self) -> None:
        for program in [one for one in self._running if one.poll() is not None]:
            assert program.returncode == 0
            self._running.remove(program)
            self.made += 23

    def settle(self) -> None:
        """Wait until every program has ended."""
        for program in self._running:
            program.wait(PATIENCE_SECONDS)
        self._reap()

    def counted(self) -> float:
        """The exporter's count, which never goes back."""
        counted = self.exporter.scrape().total(OPERATIONS, operation="cudaEventRecord")
        assert counted >= self._seen
        self._seen = counted
        return counted


@dataclass(frozen=True)
class _Holdings:
    """Resources of the exporter: descriptors, kernel objects, and memory in KiB."""

    descriptors: int
    kernel_things: int
    rss_kib: int

    @classmethod
    def of(cls, exporter: Exporter) -> _Holdings:
        folder = Path(f"/proc/{exporter.process.pid}")
        rss = next(line for line in (folder / "status").read_text().splitlines() if line.startswith("VmRSS"))
        return cls(sum(1 for _ in (folder / "fd").iterdir()), len(exporter.kernel_things()), int(rss.split()[1]))


def _held_by(exporter: Exporter) -> tuple[int, int]:
    """Descriptors and kernel objects of the exporter."""
    holdings = _Holdings.of(exporter)
    return holdings.descriptors, holdings.kernel_things


def _held_at_rest(exporter: Exporter) -> tuple[int, int]:
    """The same, once no connection comes or goes: equal in READINGS readings."""

    def is_at_rest() -> bool:
        held.append(_held_by(exporter))
        return len(held) >= READINGS and len(set(held[-READINGS:])) == 1

    held: list[tuple[int, int]] = []
    eventually(is_at_rest, "it is at rest")
    return held[-1]


def _given_back(exporter: Exporter, before: tuple[int, int]) -> None:
    """Wait until it holds what it held before."""
    held = before

    def is_given_back() -> bool:
        nonlocal held
        held = _held_by(exporter)
        return held == before

    try:
        eventually(is_given_back, f"it holds {before} again")
    except AssertionError as failure:
        raise AssertionError(f"{failure}, but {held}") from None


class TestChurn:
    """Fifty programs a second, every tenth of them killed, and libraries replaced under them."""

    def test_counts_are_exact_and_all_is_given_back(self, tmp_path: Path) -> None:
        """Ten seconds with four upgrades; then no row, descriptor or attachment is left."""
        with running("--probes.discovery-interval=1s", "--tick.interval=100ms") as exporter:
            before = _held_at_rest(exporter)
            churn = _Churn(exporter, _folders(tmp_path))
            for _ in range(4):
                churn.upgrade()
                churn.start(125)
                churn.counted()
            churn.settle()
            eventually(lambda: churn.counted() == churn.made, f"{churn.made} calls are counted")
            eventually(lambda: _all_zero(exporter), "the tables are empty")
            _given_back(exporter, before)

            assert churn.made == 4 + 500 * 23
            assert exporter.scrape().losses() == {}

    @pytest.mark.soak
    @pytest.mark.timeout(3600)
    def test_half_an_hour(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Memory is flat within 5 %, from the third minute to the last two; counts are exact; nothing else is left over."""
        with running("--probes.discovery-interval=1s") as exporter:
            before = _held_at_rest(exporter)
            churn, minutes = _Churn(exporter, _folders(tmp_path)), []
            begun_at = time.monotonic()
            while time.monotonic() - begun_at < 1800:
                held = []
                for _ in range(6):
                    churn.upgrade()
                    churn.start(10 * STARTS_PER_SECOND)
                    churn.counted()
                    held.append(_Holdings.of(exporter))
                minutes.append(held)
                with capsys.disabled():
                    print(len(minutes), churn.made, held[-1])
            churn.settle()
            eventually(lambda: churn.counted() == churn.made, f"{churn.made} calls are counted")
            eventually(lambda: _all_zero(exporter), "the tables are empty")
            _given_back(exporter, before)
            losses = exporter.scrape().losses()
        starts_per_second = churn.made / 23 / (time.monotonic() - begun_at)
        with capsys.disabled():
            print(f"{churn.made} calls, {starts_per_second:.1f} programs a second, losses {losses}")

        assert losses == {}
        assert _median(minutes[-2:], _rss) <= GROWTH * _median(minutes[2:4], _rss)
        assert _median(minutes[-2:], _descriptors) <= _median(minutes[2:4], _descriptors)
        assert _median(minutes[-2:], _things) <= _median(minutes[2:4], _things)


def _folders(folder: Path) -> tuple[Path, Path]:
    first, second = folder / "first", folder / "second"
    first.mkdir()
    second.mkdir()
    return first, second


def _all_zero(exporter: Exporter) -> bool:
    return not any(exporter.scrape().by("map", ENTRIES).values())


def _rss(held: _Holdings) -> int:
    return held.rss_kib


def _descriptors(held: _Holdings) -> int:
    return held.descriptors


def _things(held: _Holdings) -> int:
    return held.kernel_things


def _median(minutes: list[list[_Holdings]], figure: Callable[[_Holdings], int]) -> float:
    return statistics.median(map(figure, itertools.chain.from_iterable(minutes)))


@pytest.mark.whole_machine  # tests beside it would take the CPUs from the ticks
class TestMultiprocessing:
    """Workers of Python's multiprocessing, eight at a time, beside a job of 23 calls."""

    @pytest.mark.parametrize(("method", "workers"), [("forkserver", 400), ("spawn", 40)])
    def test_counts_are_exact_and_ticks_go_on(self, method: str, workers: int) -> None:
        """Labels are bounded: the ranks of the workers, or none for those that were gone before theirs could be read.

        The workers take CPU from the exporter; a quarter of its ticks is left even where the hypervisor takes CPUs away.
        """
        rank = fresh_rank()
        command = [sys.executable, "-m", "tests.support.short_workers", method, str(workers), "8"]
        with held_calls("cudaMalloc:23", rank=rank) as job, running() as exporter:
            before, begun_at = exporter.scrape().total(TICKS), time.monotonic()
            job.begin()
            subprocess.run(command, env=standin.environment(without_rank()), check=True)
            job.made()
            ticks, took_seconds = exporter.scrape().total(TICKS) - before, time.monotonic() - begun_at
            eventually(
                lambda: exporter.scrape().total(OPERATIONS, operation="cudaEventRecord") == 3 * workers,
                f"{3 * workers} calls are counted",
            )
            scrape = exporter.scrape()

        assert scrape.total(OPERATIONS, operation="cudaMalloc", rank=rank) == 23
        ranks = {one.labels["rank"] for one in scrape.matching(OPERATIONS, operation="cudaEventRecord")}
        assert ranks <= {"", *map(str, range(8))}
        assert ticks > took_seconds * TICKS_PER_SECOND / 4
        assert scrape.losses() == {}


class TestReused:
    """A tgid that is used again by another process."""

    @pytest.mark.parametrize("is_seen", [False, True])
    def test_the_calls_of_one_are_not_the_others(self, tmp_path: Path, *, is_seen: bool) -> None:
        """23 calls of the first rank and 29 of the second, under one tgid; is_seen: after the first was exported."""
        reborn, rank, other_rank = compiled(REBORN, tmp_path), fresh_rank(), fresh_rank()
        with running("--probes.discovery-interval=1s") as exporter, held_calls("cudaEventRecord:0"):
            eventually(lambda: exporter.logs.count("attached to") == len(STANDIN_LIBRARIES), "the libraries are probed")
            with held_calls("cudaEventRecord:23", rank=rank) as first:
                first.make()
                if is_seen:
                    eventually(lambda: self._counted(exporter, rank) == 23, "the first is exported")
                time.sleep(5 * START_TIME_SECONDS)
                first.end()
            before = (str(reborn), str(first.tgids[0]))
            with held_calls("cudaEventRecord:29", rank=other_rank, before=before) as second:
                second.make()
                eventually(lambda: self._counted(exporter, other_rank) == 29, "the second is exported")
                second.end()
            eventually(lambda: not exporter.scrape().matching(INFO, rank=other_rank), "the second is forgotten")

            assert second.tgids == first.tgids
            assert self._counted(exporter, other_rank) == 29
            assert self._counted(exporter, rank) in ({23} if is_seen else {0, 23})

    @staticmethod
    def _counted(exporter: Exporter, rank: str) -> float:
        return exporter.scrape().total(OPERATIONS, operation="cudaEventRecord", rank=rank)
