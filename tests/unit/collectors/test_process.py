"""process: rows of forks and exits to totals."""

from __future__ import annotations

import pytest

from exporter import catalog
from exporter.collectors import process
from exporter.kernel.end_rows import ExitKey
from exporter.kernel.tables import Tables
from exporter.totals import Series
from tests.support.tables import FakeTables

KILLED, SEGFAULT = 9, 11
CORE_DUMPED = 0x80


@pytest.mark.parametrize(
    ("key", "outcome", "code"),
    [
        (ExitKey(1, 0, 0, 0), "ok", "0"),
        (ExitKey(1, 3 << 8, 0, 0), "error", "3"),
        (ExitKey(1, SEGFAULT | CORE_DUMPED, 0, 0), "signal", "SIGSEGV"),
        (ExitKey(1, KILLED, 0, 1), "oom_killed", "SIGKILL"),
        (ExitKey(1, 40, 0, 0), "signal", "SIG40"),
    ],
)
def test_status_is_decoded_as_by_wait(key: ExitKey, outcome: str, code: str) -> None:
    """The exit code is the second byte, a signal the first, with a bit for the core file."""
    assert (process.outcome(key), process.code_label(key)) == (outcome, code)


class TestTotals:
    def test_forks_and_exits_of_workers_count_for_the_traced_process(self) -> None:
        """Two workers were forked and ended, one of them by the kernel; the process itself continues."""
        kernel = FakeTables()
        kernel.process(1)
        kernel.forked(1, processes=2, threads=5)
        kernel.ended(1, status=0, is_worker=True)
        kernel.ended(1, status=KILLED, is_worker=True, is_victim=True)
        totals = process.collect(Tables(kernel.maps).read())

        assert totals == {
            1: {
                Series(catalog.process.STARTS, ()): 1,
                Series(catalog.process.FORKS, ("process",)): 2,
                Series(catalog.process.FORKS, ("thread",)): 5,
                Series(catalog.process.EXITS, ("worker", "ok", "0")): 1,
                Series(catalog.process.EXITS, ("worker", "oom_killed", "SIGKILL")): 1,
            }
        }

    def test_exits_of_a_forgotten_process_are_skipped(self) -> None:
        """A worker that has outlived it."""
        kernel = FakeTables()
        kernel.ended(7, status=0, is_worker=True)

        assert process.collect(Tables(kernel.maps).read()) == {}
