"""timeline.node_trace: the timelines of nodes in one, and traces that are none."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from exporter.text.untrusted import Untrusted
from exporter.timeline import perfetto
from exporter.timeline.item import Instant, Item, Slice, Track, Value
from exporter.timeline.node_trace import NodeTrace, has_items, merged
from exporter.timeline.wire import fields, message
from tests.support.history import a_window, an_event
from tests.support.timelines import a_source, items_of

NODE = Track(1, "node gpu7", is_process=True, order=1)
RANK = Track(2, "rank 3 (pid 100)", NODE, is_process=True, order=8)
CHAINS = Track(3, "chains", RANK, order=1)
STEPS = Track(4, "steps", RANK, unit="1/s", order=5)
CLOCK = "clock 1.4 ms behind, ± 410 us"
ARGUMENTS = {"cause": "lock", "lost_seconds": 0.5, "chronic": True, "pid": 100, "culprits": ("cron 1 s", "sshd 2 s")}


def trace(*items: Item, name: str = "gpu7") -> NodeTrace:
    return NodeTrace(name, bytearray(b"".join(perfetto.encoded(items))), CLOCK)


def path(track: Track) -> list[str]:
    """Names from the top down."""
    return [*path(track.parent), track.name] if track.parent else [track.name]


def without_track(item: Item) -> tuple[object, ...]:
    return tuple(item)[1:]


class TestMerged:
    def test_items_are_as_the_node_has_written_them(self) -> None:
        items: list[Item] = [
            Slice(CHAINS, "chain", "lock", 1000, 2000, ARGUMENTS),
            Instant(CHAINS, "stack", "step (train.py:142)", 1500, {"stack": ("a", "b")}),
            Value(STEPS, 1000, 49.5),
        ]
        found = list(merged([trace(*items)]))

        assert [without_track(one) for one in found] == [without_track(one) for one in items]
        assert [path(one.track)[1:] for one in found] == [path(one.track)[1:] for one in items]

    def test_timeline_of_a_history_survives(self) -> None:
        items = items_of(a_source([a_window()], [an_event()]))
        found = list(merged([trace(*items)]))

        assert [without_track(one) for one in found] == [without_track(one) for one in items]
        assert [(one.track.unit, one.track.order) for one in found if isinstance(one, Value)] == [
            (one.track.unit, one.track.order) for one in items if isinstance(one, Value)
        ]

    def test_each_node_has_a_group_of_its_own_with_its_clock(self) -> None:
        """Both call themselves gpu7, as clones of a machine do."""
        found = list(merged([trace(Value(STEPS, 1, 1.0), name="n1"), trace(Value(STEPS, 1, 2.0), name="n2")]))

        assert [path(one.track) for one in found] == [
            [f"node n1 ({CLOCK})", "node gpu7", "rank 3 (pid 100)", "steps"],
            [f"node n2 ({CLOCK})", "node gpu7", "rank 3 (pid 100)", "steps"],
        ]
        assert found[0].track.number != found[1].track.number

    def test_group_of_the_node_itself_is_not_repeated(self) -> None:
        (found,) = merged([trace(Value(STEPS, 1, 1.0), name="gpu7")])

        assert path(found.track) == [f"node gpu7 ({CLOCK})", "rank 3 (pid 100)", "steps"]

    def test_nodes_and_workloads_are_processes_for_formats_without_groups(self) -> None:
        (found,) = merged([trace(Slice(CHAINS, "chain", "lock", 1, 2, {}), name="n1")])
        chains = found.track
        assert chains.parent is not None
        assert chains.parent.parent is not None

        assert [chains.is_process, chains.parent.is_process, chains.parent.parent.is_process] == [False, True, True]

    def test_more_names_than_are_interned(self) -> None:
        items = [Slice(CHAINS, "chain", f"name {number}", number, number, {}) for number in range(5000)]

        assert [one.name for one in merged([trace(*items)]) if isinstance(one, Slice)] == [one.name for one in items]


class TestItems:
    def test_trace_of_a_node_without_traced_calls_has_none(self) -> None:
        assert has_items(NodeTrace("gpu7", bytearray(), CLOCK)) is False

    def test_trace_with_items(self) -> None:
        assert has_items(trace(Value(STEPS, 1, 1.0))) is True


def hostile(*items: Item) -> Iterable[bytearray]:
    """The trace with each of many changes: cut, with a changed byte, with a part left out."""
    whole = trace(*items).body
    chosen = random.Random(7)
    for _ in range(300):
        at = chosen.randrange(len(whole))
        yield whole[:at]
        changed = bytearray(whole)
        changed[at] = chosen.randrange(256)
        yield changed
        yield whole[:at] + whole[at + chosen.randrange(20) :]


class TestHostileNodes:
    def test_whatever_comes_is_read_or_refused(self) -> None:
        refused = 0
        for body in hostile(*items_of(a_source([a_window()], [an_event()]))):
            try:
                has_items(NodeTrace("gpu7", body, CLOCK))
            except Untrusted:
                refused += 1

        assert refused > 100

    @pytest.mark.parametrize("body", [b"<html>", b"\x08\x01", b"\x0a\x02\x5a\x00", b"\xff" * 100])
    def test_what_is_no_trace_is_refused(self, body: bytes) -> None:
        with pytest.raises(Untrusted):
            has_items(NodeTrace("gpu7", bytearray(body), CLOCK))

    def test_trace_that_ends_within_a_slice_is_refused(self) -> None:
        """Without its last packet: a slice is two."""
        whole = trace(Slice(CHAINS, "chain", "lock", 1000, 2000, {})).body
        *_, (_, last) = fields(memoryview(bytes(whole)))
        tag_and_length = 2

        with pytest.raises(Untrusted, match="ends within a slice"):
            has_items(NodeTrace("gpu7", whole[: -len(message(last)) - tag_and_length], CLOCK))

    def test_names_are_printable_and_bounded(self) -> None:
        (found,) = merged([trace(Slice(CHAINS, "chain", "\x1b[2J" + "x" * 5000, 1, 2, {}))])
        assert isinstance(found, Slice)

        assert found.name.startswith("\ufffd[2J")
        assert len(found.name) == 1024
