"""Which rows of batches are stored."""

from __future__ import annotations

from exporter.cluster.new_rows import NewRows
from exporter.cluster.records import Stored
from exporter.cluster.seen import CHAIN_RECORDS_MAX, PROCESSES_OF_SENDER_MAX, SeenIds
from tests.support.cluster_rows import NOON, batch, chain_event, chain_span, window


class TestNewRows:
    def test_row_begins_with_arrival_and_sender(self) -> None:
        new = NewRows((SeenIds(),))

        assert new.add(batch(window(), sender="gpu1")) == Stored(1, 0, 0)
        assert new.windows == [(NOON, "gpu1", *window())]

    def test_duplicate_within_the_batches_is_stored_once(self) -> None:
        """Sent again before the first one was written."""
        new = NewRows((SeenIds(),))
        first = new.add(batch(window(0), window(0), events=(chain_event(),), spans=(chain_span(),)))
        again = new.add(batch(window(0), events=(chain_event(),), spans=(chain_span(),)))

        assert (first, again) == (Stored(3, 1, 0), Stored(0, 3, 0))

    def test_duplicate_of_an_earlier_segment_is_not_stored(self) -> None:
        earlier = SeenIds()
        earlier.add_window("node", window(0))
        new = NewRows((earlier, SeenIds()))

        assert new.add(batch(window(0), window(10))) == Stored(1, 1, 0)

    def test_nothing_is_remembered_before_it_is_stored(self) -> None:
        """A commit that failed leaves no trace: the rows are new when they are sent again."""
        seen = SeenIds()
        NewRows((seen,)).add(batch(window(0)))
        assert not seen.has_window(window(0))

        new = NewRows((seen,))
        new.add(batch(window(0), events=(chain_event(),)))
        new.remember(seen)

        assert seen.has_window(window(0))
        assert seen.has_chain_record(chain_event())

    def test_process_beyond_the_limit_is_refused(self) -> None:
        """A million jobs that a sender makes up take no more memory than that."""
        seen = SeenIds()
        for process in range(PROCESSES_OF_SENDER_MAX):
            seen.add_windows("hostile", "00000000000000bb", process, (1,))
        new = NewRows((seen,))

        assert new.add(batch(window(), sender="hostile")) == Stored(0, 0, 1)
        assert new.add(batch(window(), sender="node")) == Stored(1, 0, 0)

    def test_chain_records_beyond_the_limit_are_refused(self) -> None:
        seen = SeenIds()
        for number in range(CHAIN_RECORDS_MAX):
            seen.add_chain_record(number)
        new = NewRows((seen,))

        assert new.add(batch(events=(chain_event(),))) == Stored(0, 0, 1)
        assert new.is_empty
