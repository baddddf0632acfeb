"""merge: what stays apart, what is taken once, and what is refused."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from exporter.errors import BadInput, NotPossibleHere
from exporter.explain.explanation import Status
from exporter.explain.stored import explain_stored
from exporter.history.collective_mark import CollectiveMark
from exporter.history.file_guard import claim
from exporter.history.reader import opened
from exporter.history.store import INSERT_MEMBERSHIP, SCHEMA_VERSION, Store
from exporter.history.window_batch import WindowBatch
from exporter.investigate.clocks import ClockDifference
from exporter.investigate.merge import MergedCounts, merge
from exporter.investigate.query import query
from exporter.investigate.tables import QuerySpan
from exporter.model import Identity
from tests.support.history import NOON, SECOND, a_call_site, a_membership, a_window, an_event, process_labels, resolved
from tests.support.investigated import an_hour

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def a_node(folder: Path, node: str, began_seconds: float, collectives: Sequence[CollectiveMark] = ()) -> Path:
    """A run with one process, a window of it and a resolved chain. began_seconds: before now."""
    path = folder / node / "history.sqlite"
    now_unix_ns = time.time_ns()
    began_unix_ns = now_unix_ns - int(began_seconds * SECOND)
    ended_seconds = (began_unix_ns - NOON) / SECOND + 20
    labels = process_labels()._replace(identity=Identity(node=node, rank="3"))
    window = a_window(ended_seconds, labels=labels, call_sites=(a_call_site(),))
    chain = an_event(ended_seconds - 10, chain_id=node.encode().hex().ljust(32, "0"), identity=Identity(node=node))
    file = claim(path)
    store = Store(file, 4 << 20, began_unix_ns=began_unix_ns, version="1.0", has_chains=True)
    store.write(
        [chain, resolved(chain, 5)],
        [WindowBatch(window.began_unix_ns, window.ended_unix_ns, [window], collectives)],
        began_unix_ns + 30 * SECOND,
    )
    store.close(began_unix_ns + 30 * SECOND)
    file.release()
    return path


def asked(path: Path, statement: str) -> list[list[object]]:
    now_unix_ns = time.time_ns()
    return [*query(path, statement, QuerySpan(now_unix_ns - 3600 * SECOND, now_unix_ns, None), 20.0).rows()]


def content(path: Path) -> list[list[tuple[object, ...]]]:
    """All rows of all tables."""
    with closing(sqlite3.connect(path)) as connection:
        tables = ("runs", "windows", "events", "stacks")
        return [connection.execute(f"select * from {table} order by 1").fetchall() for table in tables]  # noqa: S608


class TestMerge:
    def test_processes_and_runs_of_nodes_stay_apart(self, tmp_path: Path) -> None:
        """Both are process 1 of run 1, pid 100 and rank 3. Runs are numbered by their begin."""
        sources = [a_node(tmp_path, "b", 600), a_node(tmp_path, "a", 900)]
        output = tmp_path / "cluster.sqlite"

        assert merge(sources, output) == MergedCounts(runs=2, intervals=2, events=4)
        assert asked(output, "select run, node, steps from workloads order by run") == [[1, "a", 500], [2, "b", 500]]
        assert asked(output, "select run, node, state from chains order by run") == [
            [1, "a", "resolved"],
            [2, "b", "resolved"],
        ]

    def test_stack_of_several_nodes_is_there_once(self, tmp_path: Path) -> None:
        """By the hash of its frames; both nodes have its lines."""
        output = tmp_path / "cluster.sqlite"
        merge([a_node(tmp_path, "a", 900), a_node(tmp_path, "b", 600)], output)

        assert len(content(output)[3]) == 1
        assert asked(output, "select node, place like 'step (train.py:142)%' from call_sites order by node") == [
            ["a", 1],
            ["b", 1],
        ]

    def test_file_that_is_named_twice_changes_nothing(self, tmp_path: Path) -> None:
        node = a_node(tmp_path, "a", 900)
        merge([node], tmp_path / "once.sqlite")
        merge([node, node], tmp_path / "twice.sqlite")
        merge([tmp_path / "twice.sqlite", node], tmp_path / "again.sqlite")

        assert (
            content(tmp_path / "once.sqlite")
            == content(tmp_path / "twice.sqlite")
            == content(tmp_path / "again.sqlite")
        )

    def test_older_copy_adds_nothing_to_a_newer_one(self, tmp_path: Path) -> None:
        """The run ended later, and has more windows."""
        newer = a_node(tmp_path, "a", 900)
        older = tmp_path / "older.sqlite"
        older.write_bytes(newer.read_bytes())
        with closing(sqlite3.connect(older)) as connection, connection:
            connection.execute("update runs set ended_unix_ns = null, seen_unix_ns = seen_unix_ns - 1")
            connection.execute("delete from windows")
        merge([newer], tmp_path / "expected.sqlite")
        merge([older, newer], tmp_path / "merged.sqlite")

        assert content(tmp_path / "merged.sqlite")[:3] == content(tmp_path / "expected.sqlite")[:3]

    def test_times_are_not_corrected(self, tmp_path: Path) -> None:
        node = a_node(tmp_path, "a", 900)
        merge([node], tmp_path / "merged.sqlite")
        with opened(node) as before, opened(tmp_path / "merged.sqlite") as after:
            assert [one[1:3] for one in before.packed_windows(0)] == [one[1:3] for one in after.packed_windows(0)]

    def test_difference_of_clocks_is_stated(self, tmp_path: Path) -> None:
        """The ranks of both nodes entered ten collectives a second apart, which b dates a quarter of a second later."""
        began_unix_ns = time.time_ns() - 600 * SECOND
        ours = [CollectiveMark(77, number, began_unix_ns + number * SECOND) for number in range(10)]
        theirs = [mark._replace(at_unix_ns=mark.at_unix_ns + SECOND // 4) for mark in ours]
        sources = [a_node(tmp_path, "a", 600, ours), a_node(tmp_path, "b", 590, theirs)]

        assert merge(sources, tmp_path / "cluster.sqlite").clocks == (ClockDifference("b", "a", SECOND // 4, 0, 10),)

    def test_newest_state_of_a_rank_is_kept(self, tmp_path: Path) -> None:
        """A copy of before knows of 41 collectives, the history itself of 99."""
        newer = a_node(tmp_path, "a", 600)
        with closing(sqlite3.connect(newer)) as connection, connection:
            values = (1, *a_membership(collectives=99).to_row(), NOON)
            connection.execute(INSERT_MEMBERSHIP, values)
        older = tmp_path / "older.sqlite"
        older.write_bytes(newer.read_bytes())
        with closing(sqlite3.connect(older)) as connection, connection:
            connection.execute("update memberships set collectives = 41, seen_unix_ns = seen_unix_ns - 1")
        merge([newer, older], tmp_path / "merged.sqlite")

        with opened(tmp_path / "merged.sqlite") as merged:
            assert [one.membership.collectives for one in merged.memberships(0)] == [99]

    def test_explain_reads_it(self, tmp_path: Path) -> None:
        """An open chain whose exporter was seen a moment ago."""
        output = tmp_path / "cluster.sqlite"
        merge([a_node(tmp_path, "a", 900), an_hour(tmp_path)], output)
        found = explain_stored(output, 3600.0)

        assert found.status is Status.SLOW
        assert {process.labels.identity.node for process in found.processes} == {"a", "gpu7"}

    def test_file_of_version_1_is_read_with_what_it_has(self, tmp_path: Path) -> None:
        """It has no stacks."""
        node = a_node(tmp_path, "a", 900)
        with closing(sqlite3.connect(node)) as connection:
            connection.executescript("drop table stacks; drop table memberships; pragma user_version = 1;")
        merge([node], tmp_path / "merged.sqlite")

        assert asked(tmp_path / "merged.sqlite", "select place from call_sites") == [["other stacks"]]


class TestRefusal:
    def test_output_that_exists_is_not_changed(self, tmp_path: Path) -> None:
        node = a_node(tmp_path, "a", 900)
        before = node.read_bytes()

        with pytest.raises(BadInput, match=r"history\.sqlite exists"):
            merge([node], node)
        assert node.read_bytes() == before

    def test_link_at_the_output_is_not_followed(self, tmp_path: Path) -> None:
        (tmp_path / "out.sqlite").symlink_to(tmp_path / "elsewhere")

        with pytest.raises(BadInput, match=r"out\.sqlite exists"):
            merge([a_node(tmp_path, "a", 900)], tmp_path / "out.sqlite")
        assert not (tmp_path / "elsewhere").exists()

    def test_missing_folder(self, tmp_path: Path) -> None:
        with pytest.raises(BadInput, match=r"cannot write .*: No such file or directory"):
            merge([a_node(tmp_path, "a", 900)], tmp_path / "missing" / "out.sqlite")

    @pytest.mark.parametrize(
        ("statement", "reason"),
        [
            (f"pragma user_version = {SCHEMA_VERSION + 1}", "newer version"),
            ("update windows set processes = 'text'", "not compressed"),
            ("update windows set run = 77", "records of a run that it does not list"),
            ("update events set document = '{}'", "cannot read the history"),
            ("update stacks set frames = 5", "a stack has another number than its frames"),
            ("update stacks set id = id + 1", "a stack has another number than its frames"),
            ("drop table windows", "no table windows"),
            ("drop table collectives", "no table collectives"),
            ("insert into collectives values (1, 'seven', 1, 1)", "cannot read the history"),
            ("insert into collectives values (77, 7, 1, 1)", "records of a run that it does not list"),
        ],
    )
    def test_bad_source_leaves_no_file(self, statement: str, reason: str, tmp_path: Path) -> None:
        good, bad = a_node(tmp_path, "a", 900), a_node(tmp_path, "b", 600)
        with closing(sqlite3.connect(bad)) as connection, connection:
            connection.execute(statement)
        output = tmp_path / "out" / "cluster.sqlite"
        output.parent.mkdir()

        with pytest.raises(NotPossibleHere, match=reason):
            merge([good, bad], output)
        assert list(output.parent.iterdir()) == []
