"""Rows that sealed segments have."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from exporter.cluster.folder import StoreFolder
from exporter.cluster.known_rows import KnownRows
from tests.support.cluster_rows import HOUR, NOON, batch, chain_event, chain_span, store_at, window


class TestKnownRows:
    def test_rows_of_any_sealed_segment_are_known(self, tmp_path: Path) -> None:
        """More segments than are open at a time. A window is its node, the number of its process and its begin."""
        hours = range(6)
        with store_at(tmp_path) as store:
            for hour in hours:
                store.add([batch(window(3600 * hour))], NOON + hour * HOUR)
            store.add([batch(events=(chain_event(),), spans=(chain_span(),))], NOON)
            store.seal()
        asked = [window(3600 * hour, run="00000000000000bb") for hour in hours]
        others = [window(5), window(0, node="gpu2"), window(0, process=7)]

        with closing(StoreFolder(tmp_path)) as folder, closing(KnownRows(folder)) as known:
            assert known.without_windows([*asked, *others]) == others
            assert known.without_chains([chain_event(), chain_event("escalated")], [chain_span()]) == (
                [chain_event("escalated")],
                [],
            )

    def test_empty_store_knows_nothing(self, tmp_path: Path) -> None:
        with closing(StoreFolder(tmp_path)) as folder, closing(KnownRows(folder)) as known:
            assert known.without_windows([window()]) == [window()]
            assert known.without_chains([chain_event()], []) == ([chain_event()], [])
            assert known.without_chains([], []) == ([], [])
