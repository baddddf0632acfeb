"""stored: the explanation of a history file, and the open chain of an id."""

from __future__ import annotations

import time
from datetime import UTC
from pathlib import Path

import pytest

from exporter.causes import Cause
from exporter.chains.chain import Severity
from exporter.chains.event import ChainEvent
from exporter.errors import BadInput
from exporter.explain.explanation import Status
from exporter.explain.stored import explain_chain, explain_stored, open_chain
from exporter.explain.text import lines
from exporter.history import reader
from exporter.history.file_guard import claim
from exporter.history.store import Store
from exporter.history.window_batch import WindowBatch
from exporter.model import Identity
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


HANG: dict[str, object] = {
    "chain_id": "2" * 32,
    "tgid": 200,
    "cause": Cause.NCCL_HANG,
    "severity": Severity.CRITICAL,
    "lost_share": 1.0,
}
"""A hang of another job."""


class TestExplainStored:
    def test_open_chain_is_found(self, tmp_path: Path) -> None:
        assert explain_stored(history(tmp_path, fresh()), 300.0).status is Status.SLOW

    def test_selection_without_a_process_names_the_known_ones(self, tmp_path: Path) -> None:
        with pytest.raises(BadInput, match="no process matches 'rank=77'") as raised:
            explain_stored(history(tmp_path), 300.0, "rank=77")

        assert raised.value.remedy == "there are rank 3 (pid 100)"


class TestExplainChain:
    """What a page offers: its chain, whatever else there is."""

    def test_it_begins_with_the_chain_although_another_one_is_worse(self, tmp_path: Path) -> None:
        """That of another job is not shown at all."""
        found = explain_chain(history(tmp_path, fresh(), fresh(**HANG)), "1111")

        assert lines(found, UTC)[0].startswith("rank 3 (pod trainer-0) loses 46 % of its time to cpu_contention")
        assert "nccl_hang" not in "\n".join(lines(found, UTC))

    def test_one_that_is_over_is_found_long_after(self, tmp_path: Path) -> None:
        """Two hours later, while another job hangs: the first line is about the chain alone."""
        old = an_event((time.time_ns() - NOON) / SECOND - 7200)
        found = explain_chain(history(tmp_path, old, resolved(old, 60), fresh(**HANG)), "1" * 32)

        assert lines(found, UTC)[0].startswith(
            "rank 3 (pod trainer-0) lost up to 46 % of its time to cpu_contention, from "
        )
        assert lines(found, UTC)[0].endswith("It recovered.")

    def test_ranks_that_wait_for_it_are_named(self, tmp_path: Path) -> None:
        waiting = fresh(
            chain_id="3" * 32, tgid=300, cause=Cause.PEER_RANK, peer="3", culprits=(), identity=Identity("gpu7", "4")
        )
        found = explain_chain(history(tmp_path, fresh(), waiting), "1111")

        assert [one.rank for one in found.chains[0].waiting] == ["4"]

    @pytest.mark.parametrize(("wanted", "reason"), [("9999", "no chain"), ("111", "no chain"), ("1" * 33, "no chain")])
    def test_unknown_one_names_the_latest(self, tmp_path: Path, wanted: str, reason: str) -> None:
        """And characters that are too few for one."""
        with pytest.raises(BadInput, match=f"--chain: {reason} in the history begins with '{wanted}'") as raised:
            explain_chain(history(tmp_path, fresh()), wanted)

        assert raised.value.remedy == "the latest are 11111111 (cpu_contention)"


class TestBusyHistory:
    """A job that crashes again and again has filled it: more events than are read at once."""

    @pytest.fixture
    def busy(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """Seven older chains an hour ago, and one that is open."""
        monkeypatch.setattr(reader, "EVENTS_MAX", 8)
        hour_ago = (time.time_ns() - NOON) / SECOND - 3600
        crashes = [an_event(hour_ago, chain_id=f"{number:032x}", tgid=900 + number) for number in range(7)]
        return history(tmp_path, *(event for one in crashes for event in (one, resolved(one, 1))), fresh())

    def test_chain_of_a_page_is_found(self, busy: Path) -> None:
        assert explain_chain(busy, "1111").chains[0].event.chain_id == "1" * 32

    def test_one_that_is_as_old_as_the_others_is_found(self, busy: Path) -> None:
        """With its own events alone."""
        (chain,) = explain_chain(busy, f"{3:032x}").chains

        assert chain.event.tgid == 903

    def test_last_minutes_are_explained_without_the_hours_before(self, busy: Path) -> None:
        """What was before is read for jobs with a new normal only."""
        assert [one.event.chain_id for one in explain_stored(busy, 300.0).chains] == ["1" * 32]


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
