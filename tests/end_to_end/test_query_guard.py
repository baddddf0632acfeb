"""Statements of `query` that would write, leave the database or never end: refused in one line, within bounds.

A process is measured from the outside, its children included; the time is that beyond a statement that ends at once.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.day import make_day
from tests.support.exporter_process import COMMAND
from tests.support.hostile_files import is_clean
from tests.support.measured import Measured, Runner, runner
from tests.support.statements import ENDED, REFUSED

pytestmark = [pytest.mark.end_to_end, pytest.mark.whole_machine]
SECONDS_MAX = 1.1
PEAK_MIB_MAX = 100
WINDOWS = 60


@pytest.fixture(scope="module")
def measured() -> Iterator[Runner]:
    with runner() as found:
        yield found


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten minutes of eight ranks."""
    path = tmp_path_factory.mktemp("guarded") / "state" / "history.sqlite"
    make_day(path, time.time_ns(), windows=WINDOWS)
    return path


def queried(measured: Runner, history: Path, statement: str) -> Measured:
    return measured.run(*COMMAND, "query", "--since=1h", f"--history.path={history}", statement)


@pytest.fixture(scope="module")
def idle_seconds(measured: Runner, history: Path) -> float:
    """What a statement takes that reads a view and ends at once."""
    return min(queried(measured, history, "select count(*) from operations").seconds for _ in range(3))


class TestGuard:
    def test_there_are_at_least_forty_attacks(self) -> None:
        assert len(REFUSED) >= 40

    @pytest.mark.parametrize("name", REFUSED)
    def test_statement_is_refused_within_bounds(
        self, name: str, measured: Runner, history: Path, idle_seconds: float, tmp_path: Path
    ) -> None:
        """And leaves neither a file nor a change of the history."""
        file = tmp_path / "written"
        before = hashlib.sha256(history.read_bytes()).digest()
        done = queried(measured, history, REFUSED[name].replace("{file}", str(file)))

        assert (done.code, done.stdout, done.stderr.count("\n")) == (2, "", 1), done
        assert is_clean(done.stderr)
        assert done.seconds - idle_seconds <= SECONDS_MAX
        assert done.peak_mib <= PEAK_MIB_MAX
        assert not file.exists()
        assert hashlib.sha256(history.read_bytes()).digest() == before

    @pytest.mark.parametrize("name", ENDED)
    def test_statement_ends_within_bounds(
        self, name: str, measured: Runner, history: Path, idle_seconds: float
    ) -> None:
        done = queried(measured, history, ENDED[name])

        assert (done.code, done.stdout.count("\n"), done.stderr) == (0, 2, "")
        assert len(done.stdout) < 1000
        assert done.seconds - idle_seconds <= SECONDS_MAX
        assert done.peak_mib <= PEAK_MIB_MAX

    def test_statement_that_only_reads_is_run(self, measured: Runner, history: Path) -> None:
        """500 steps for each of eight ranks and sixty windows, give or take those at the edges of a bell."""
        done = queried(
            measured, history, "select count(distinct rank) as ranks, sum(steps) > 200000 as many from steps"
        )

        assert (done.code, done.stdout, done.stderr) == (0, "ranks  many\n    8     1\n", "")
