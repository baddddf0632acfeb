"""Ids of one segment."""

from __future__ import annotations

from exporter.cluster.seen import PROCESSES_OF_SENDER_MAX, SeenIds, chain_record_id
from tests.support.cluster_rows import chain_event, chain_span, window


class TestWindows:
    def test_only_the_same_id_is_a_duplicate(self) -> None:
        seen = SeenIds()
        seen.add_window("a", window(0))

        assert seen.has_window(window(0))
        assert not seen.has_window(window(10))
        assert not seen.has_window(window(0, process=2))
        assert not seen.has_window(window(0, run="00000000000000bb"))

    def test_window_that_arrives_late_is_new_once(self) -> None:
        """A Collector sends batches in another order, and the clock of a node may be set back."""
        seen = SeenIds()
        for began_seconds in (0, 20, 10, -3600):
            assert not seen.has_window(window(began_seconds))
            seen.add_window("a", window(began_seconds))

        assert all(seen.has_window(window(began_seconds)) for began_seconds in (-3600, 0, 10, 20))
        assert seen.window_count == 4

    def test_one_sender_has_half_of_the_room(self) -> None:
        """Others still bring new processes, and its known ones go on."""
        seen = SeenIds()
        for process in range(PROCESSES_OF_SENDER_MAX):
            seen.add_windows("hostile", "00000000000000bb", process, (1,))

        assert not seen.has_room("hostile", window(process=99_999))
        assert seen.has_room("hostile", window(run="00000000000000bb", process=5))
        assert seen.has_room("node", window())


class TestChainRecords:
    def test_same_change_at_the_same_time_is_a_duplicate(self) -> None:
        seen = SeenIds()
        seen.add_chain_record(chain_record_id(chain_event()))

        assert seen.has_chain_record(chain_event())
        assert not seen.has_chain_record(chain_event("escalated"))
        assert not seen.has_chain_record(chain_event(observed_unix_ns=1))
        assert not seen.has_chain_record(chain_span())
