"""charged_since: when time was first charged to a process id."""

from __future__ import annotations

from exporter.accounting.charged_since import ChargedSince
from exporter.kernel.abi import Awaited, Culprit, ThreadState, Victim
from exporter.kernel.awaited_rows import AwaitedBy, AwaitedKey
from exporter.kernel.thread_rows import BlameKey

HOG = BlameKey(1, Victim.STEP, Culprit.TASK, 777, 0, 0, b"hog")
CHILD = BlameKey(1, Victim.STEP, Culprit.TASK, 778, 700, 0, b"cc1", b"make")
HOLDER = AwaitedKey(1, ThreadState.LOCK, AwaitedBy(900, Awaited.WORKER, b"holder"))


class TestChargedSince:
    def test_first_update_counts(self) -> None:
        """For the process, its ancestor, and what was waited for."""
        since = ChargedSince()
        since.update({HOG: 5}, {}, 100)
        since.update({HOG: 9, CHILD: 1}, {HOLDER: 1}, 200)

        assert [since.of(tgid) for tgid in (777, 778, 700, 900)] == [100, 200, 200, 200]

    def test_id_without_a_row_is_not_known(self) -> None:
        """The kernel drops rows that are not used for long."""
        since = ChargedSince()
        since.update({HOG: 5}, {}, 100)
        since.update({}, {}, 200)

        assert (since.of(777), since.of(0)) == (0, 0)
