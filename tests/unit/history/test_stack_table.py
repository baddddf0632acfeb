"""history.stack_table: stacks of call sites, each once and all within a share of the file."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from exporter.history import reader
from exporter.history.stack_table import SHARE, WRITTEN_SHARE
from exporter.history.store import SizeLimits
from exporter.history.window_batch import WindowBatch
from exporter.python.call_site import OTHER_STACKS, CallSite, CallStack, PythonFrame
from tests.support.history import NOON, SECOND, a_call_site, a_window
from tests.unit.history.test_store import MAX_BYTES, opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file that does not exist yet."""
    return tmp_path / "history" / "history.sqlite"


def with_sites(ended_seconds: float, *sites: CallSite) -> WindowBatch:
    """One process with slow calls."""
    window = a_window(ended_seconds, call_sites=sites)
    return WindowBatch(window.began_unix_ns, window.ended_unix_ns, [window])


def a_random_stack(seed: int) -> CallStack:
    """More than 500 bytes, also when it is compressed."""
    return CallStack("", (PythonFrame(f"/{random.Random(seed).randbytes(1000).hex()[:1020]}", "f", seed),) * 2)


class TestStacks:
    def test_stack_is_stored_once(self, path: Path) -> None:
        with opened(path) as store:
            store.write([], [with_sites(10.0, a_call_site(), a_call_site(7)), with_sites(20.0, a_call_site())], NOON)
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("select count(*) from stacks").fetchone() == (2,)

    def test_window_adds_few_bytes_of_stacks(self, path: Path) -> None:
        """Those with the most time in slow calls; the others are other stacks."""
        sites = [a_call_site(stack=a_random_stack(seed), total_ns=1000 - seed) for seed in range(60)]
        with opened(path) as store:
            store.write([], [with_sites(10.0, *sites)], NOON)
        with reader.opened(path) as history:
            ((window,),) = [one.windows for one in history.windows(0)]

        stacks_max = SizeLimits.of(MAX_BYTES).pages_bytes // SHARE // WRITTEN_SHARE // 500
        kept = [site.stack != OTHER_STACKS for site in window.call_sites]
        assert 2 < sum(kept) <= stacks_max
        assert kept == sorted(kept, reverse=True)

    def test_oldest_stacks_beyond_their_share_are_deleted(self, path: Path) -> None:
        with opened(path) as store:
            for number in range(1, 250):
                site = a_call_site(stack=a_random_stack(number))
                store.write([], [with_sites(10.0 * number, site)], NOON)
            store.prune(0, [])
        with reader.opened(path) as history:
            kept = [one.windows[0].call_sites[0].stack != OTHER_STACKS for one in history.windows(0)]
        with closing(sqlite3.connect(path)) as connection:
            (size_bytes,) = connection.execute("select sum(length(frames)) from stacks").fetchone()

        assert kept == sorted(kept)
        assert 0 < sum(kept) < 249
        assert size_bytes <= SizeLimits.of(MAX_BYTES).pages_bytes // SHARE

    def test_stacks_that_are_not_seen_any_more_are_deleted_with_the_windows(self, path: Path) -> None:
        with opened(path) as store:
            store.write([], [with_sites(10.0, a_call_site(7)), with_sites(3600.0, a_call_site())], NOON)
            store.prune(NOON + 3000 * SECOND, [])
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("select id from stacks").fetchall() == [(a_call_site().stack.number,)]

    def test_stack_that_is_seen_again_and_again_stays(self, path: Path) -> None:
        with opened(path) as store:
            for at_seconds in (10.0, 1800.0, 3600.0):
                store.write([], [with_sites(at_seconds, a_call_site())], NOON)
            store.prune(NOON + 3000 * SECOND, [])
        with reader.opened(path) as history:
            assert [one.windows[0].call_sites for one in history.windows(0)] == [(a_call_site(),)]

    def test_stack_with_long_names_is_left_out(self, path: Path) -> None:
        """A reader takes no larger one."""
        frame = PythonFrame("/" + "\u4e2d" * 1000, "f", 1)
        with opened(path) as store:
            store.write([], [with_sites(10.0, a_call_site(stack=CallStack("", (frame,) * 32)))], NOON)
        with reader.opened(path) as history:
            ((window,),) = [one.windows for one in history.windows(0)]

        assert window.call_sites == (a_call_site(stack=OTHER_STACKS),)
