"""chrome: the events of the JSON document."""

from __future__ import annotations

import json
from typing import Any

from exporter.timeline.chrome import encoded
from exporter.timeline.item import Instant, Item, Slice, Track, Value

NODE = Track(1, "node gpu7", is_process=True)
RANK = Track(2, "rank 3", NODE, is_process=True)
GROUP = Track(3, "lost time", RANK)
LOCK = Track(4, "lock", GROUP)
STEPS = Track(5, "steps", RANK, "1/s")
A_SLICE = Slice(LOCK, "lost_time", "lock", 5_999, 9_000, {"culprits": ("a", "b")})


def events(*items: Item) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(b"".join(encoded(items)))["traceEvents"]
    return found


class TestEvents:
    def test_slice_is_a_complete_event_in_microseconds(self) -> None:
        assert events(A_SLICE)[-1] == {
            "ph": "X",
            "cat": "lost_time",
            "name": "lock",
            "ts": 5,
            "dur": 4,
            "pid": 2,
            "tid": 4,
            "args": {"culprits": ["a", "b"]},
        }

    def test_workload_is_a_process_and_a_track_its_thread(self) -> None:
        names = [one["args"]["name"] for one in events(A_SLICE) if one["name"].endswith("_name")]

        assert names == ["node gpu7, rank 3", "lost time: lock"]

    def test_names_are_given_once(self) -> None:
        assert [one["ph"] for one in events(A_SLICE, A_SLICE)] == ["M", "M", "M", "M", "X", "X"]

    def test_track_that_is_a_process_has_both_names(self) -> None:
        named = [one for one in events(A_SLICE._replace(track=NODE)) if one["name"].endswith("_name")]

        assert [(one["name"], one["pid"], one["tid"]) for one in named] == [
            ("process_name", 1, 1),
            ("thread_name", 1, 1),
        ]

    def test_value_is_a_counter_with_its_unit(self) -> None:
        assert events(Value(STEPS, 7_000, 1.5))[-1] == {
            "ph": "C",
            "name": "steps",
            "ts": 7,
            "pid": 2,
            "tid": 5,
            "args": {"1/s": 1.5},
        }

    def test_instant_is_of_its_track(self) -> None:
        found = events(Instant(LOCK, "stack", "a", 7_000, {}))[-1]

        assert (found["ph"], found["s"], found["ts"]) == ("i", "t", 7)

    def test_timeline_without_items_is_empty(self) -> None:
        assert list(encoded([])) == []

    def test_long_timeline_comes_in_pieces(self) -> None:
        pieces = list(encoded(A_SLICE for _ in range(1_000)))

        assert len(pieces) == 5
        assert len(json.loads(b"".join(pieces))["traceEvents"]) == 1_004

    def test_text_is_ascii(self) -> None:
        """Whatever the encoding of the viewer."""
        assert b"".join(encoded([A_SLICE._replace(name="caf\u00e9\ud800")])).isascii()

    def test_backslash_stays_one(self) -> None:
        """Written as a number, since Perfetto reads no text that ends with an escaped one."""
        text = 'a\\"\\\\\n\\'
        written = b"".join(encoded([A_SLICE._replace(name=text)]))

        assert b"\\\\" not in written
        assert json.loads(written)["traceEvents"][-1]["name"] == text
