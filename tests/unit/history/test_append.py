"""history.append: one event added to a history that an exporter writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.chains.chain import Change
from exporter.errors import NotPossibleHere
from exporter.history.append import append_event
from exporter.history.file_guard import claim
from exporter.history.reader import opened
from exporter.history.run import RecordedEvent
from exporter.history.store import Store
from tests.support.history import NOON, an_event


class TestAppendEvent:
    def test_event_is_added_to_its_run_while_the_exporter_writes(self, tmp_path: Path) -> None:
        path = tmp_path / "state" / "history.sqlite"
        file = claim(path)
        store = Store(file, 4 << 20, began_unix_ns=NOON, version="1.0", has_chains=True)
        store.write([an_event()], [], NOON)
        confirmed = an_event(change=Change.CONFIRMED)
        append_event(path, 1, confirmed)
        with opened(path) as history:
            found = history.events(0)
        store.close()
        file.release()

        assert found == [RecordedEvent(1, an_event()), RecordedEvent(1, confirmed)]

    def test_file_that_cannot_be_written_raises(self, tmp_path: Path) -> None:
        with pytest.raises(NotPossibleHere, match="cannot write the result to"):
            append_event(tmp_path / "none.sqlite", 1, an_event())
