"""stored: the explanation of a history file, and the open chain of an id."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from exporter.chains.event import ChainEvent
from exporter.errors import BadInput
from exporter.explain.explanation import Status
from exporter.explain.stored import explain_stored, open_chain
from exporter.history.file_guard import claim
from exporter.history.store import Store
from exporter.history.window_batch import WindowBatch
from tests.support.history import NOON, SECOND, a_window, an_event, resolved


def history(folder: Path, *events: ChainEvent) -> Path:
    """A history that is being written now, with one window."""
    path = folder / "state" / "history.sqlite"
    now_unix_ns = time.time_ns()
    file = claim(path)
    store = Store(file, 4 << 20, began_unix_ns=now_unix_ns - 60 * SECOND, version="1.0", has_chains=True)
    window = a_window((now_unix_ns - NOON) / SECOND)
    store.write(events, [WindowBatch(window.began_unix_ns, window.ended_unix_ns, [window])], now_unix_ns)
    store.close()
    file.release()
    return path


def fresh(**changes: object) -> ChainEvent:
    """A chain that began ten seconds ago."""
    return an_event((time.time_ns() - NOON) / SECOND - 10, **changes)


class TestExplainStored:
    def test_open_chain_is_found(self, tmp_path: Path) -> None:
        assert explain_stored(history(tmp_path, fresh()), 300.0).status is Status.SLOW

    def test_selection_without_a_process_names_the_known_ones(self, tmp_path: Path) -> None:
        with pytest.raises(BadInput, match="no process matches 'rank=77'") as raised:
            explain_stored(history(tmp_path), 300.0, "rank=77")

        assert raised.value.remedy == "there are rank 3 (pid 100)"


class TestAt:
    """What was known at an earlier time."""

    def test_chain_that_has_been_resolved_since_was_open_then(self, tmp_path: Path) -> None:
        path = history(tmp_path, fresh(), resolved(fresh(), 8))
        now_unix_ns = time.time_ns()

        assert explain_stored(path, 300.0).status is Status.WAS_SLOW
        assert explain_stored(path, 300.0, at_unix_ns=now_unix_ns - 5 * SECOND).status is Status.SLOW

    def test_what_was_recorded_later_is_left_out(self, tmp_path: Path) -> None:
        found = explain_stored(history(tmp_path, fresh()), 300.0, at_unix_ns=time.time_ns() - 30 * SECOND)

        assert (found.status, found.chains, found.processes) == (Status.NO_DATA, (), ())
        assert found.is_live

    def test_time_before_the_history_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(BadInput, match="nothing had been recorded at ") as raised:
            explain_stored(history(tmp_path), 300.0, at_unix_ns=time.time_ns() - 3600 * SECOND)

        assert raised.value.remedy.startswith("the history begins at ")


class TestOpenChain:
    def test_first_characters_of_its_id_are_enough(self, tmp_path: Path) -> None:
        assert open_chain(history(tmp_path, fresh()), "1111").event.chain_id == "1" * 32

    @pytest.mark.parametrize("given", ["111", "2222"])
    def test_short_or_unknown_id_names_the_open_chains(self, given: str, tmp_path: Path) -> None:
        with pytest.raises(BadInput, match="no open chain begins with") as raised:
            open_chain(history(tmp_path, fresh()), given)

        assert raised.value.remedy == "open chains: 11111111 (cpu_contention)"

    def test_chain_without_a_culprit_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(BadInput, match="has no culprit that could be paused"):
            open_chain(history(tmp_path, fresh(culprit_tgids=())), "1111")

    def test_history_without_start_times_is_refused(self, tmp_path: Path) -> None:
        """One that an older version wrote."""
        with pytest.raises(BadInput, match="the history does not say when the culprits of chain 1111 were started"):
            open_chain(history(tmp_path, fresh(culprit_start_ticks=())), "1111")
