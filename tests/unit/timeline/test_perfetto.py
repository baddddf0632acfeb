"""perfetto: the bytes of packets, byte by byte; tests/contract/test_trace_processor.py has Perfetto read whole traces."""

from __future__ import annotations

from exporter.timeline.item import Argument, Instant, Slice, Track, Value
from exporter.timeline.perfetto import _INTERNED_MAX, encoded

NODE = Track(1, "node", is_process=True)
LOCK = Track(2, "lock", NODE, order=3)
STEPS = Track(3, "steps", NODE, "1/s")


def packets(trace: bytes) -> list[bytes]:
    """Bodies of the packets, each shorter than 16 KiB."""
    found = []
    while trace:
        assert trace[0] == 0x0A
        size, at = trace[1], 2
        if size > 127:
            size, at = size - 128 + (trace[2] << 7), 3
        found.append(trace[at : at + size])
        trace = trace[at + size :]
    return found


def slice_of(arguments: dict[str, Argument], name: str = "a") -> Slice:
    return Slice(LOCK, "c", name, 5, 9, arguments)


class TestPackets:
    def test_slice(self) -> None:
        """Clocks, the track's group, the track, the begin with the names that it interns, the end."""
        clocks, group, track, begin, end = packets(b"".join(encoded([slice_of({})])))

        assert clocks == b"\x50\x01\x68\x01" + b"\x32\x0c" + b"\x0a\x04\x08\x06\x10\x05" + b"\x0a\x04\x08\x01\x10\x05"
        assert group == b"\x50\x01" + b"\xe2\x03\x0c" + b"\x08\x01" + b"\x12\x04node" + b"\x58\x03\x60\x00"
        assert (
            track == b"\x50\x01" + b"\xe2\x03\x0e" + b"\x08\x02" + b"\x12\x04lock" + b"\x28\x01" + b"\x58\x03\x60\x03"
        )
        assert begin == (
            b"\x40\x05\x50\x01\x68\x02"
            + (b"\x62\x0e" + b"\x0a\x05\x08\x01\x12\x01c" + b"\x12\x05\x08\x01\x12\x01a")
            + (b"\x5a\x08" + b"\x48\x01" + b"\x58\x02" + b"\x18\x01" + b"\x50\x01")
        )
        assert end == b"\x40\x09\x50\x01\x68\x02" + b"\x5a\x04" + b"\x48\x02" + b"\x58\x02"

    def test_value_of_a_counter(self) -> None:
        *_, track, value = packets(b"".join(encoded([Value(STEPS, 7, 1.5)])))

        assert b"\x42\x05\x32\x031/s" in track
        assert value == (
            b"\x40\x07\x50\x01\x68\x02"
            + b"\x5a\x0e"
            + b"\x48\x04\x58\x03"
            + b"\xe1\x02\x00\x00\x00\x00\x00\x00\xf8\x3f"
        )

    def test_instant(self) -> None:
        *_, instant = packets(b"".join(encoded([Instant(LOCK, "c", "a", 7, {})])))

        assert instant.endswith(b"\x5a\x08" + b"\x48\x03" + b"\x58\x02" + b"\x18\x01" + b"\x50\x01")

    def test_arguments_of_every_kind(self) -> None:
        arguments: dict[str, Argument] = {"i": 3, "f": 1.5, "s": "x", "b": True, "l": ("y", "z")}
        *_, begin, _ = packets(b"".join(encoded([slice_of(arguments)])))

        assert begin.endswith(
            b"\x22\x04\x08\x01\x18\x03"
            + b"\x22\x0b\x08\x02\x29\x00\x00\x00\x00\x00\x00\xf8\x3f"
            + b"\x22\x05\x08\x03\x32\x01x"
            + b"\x22\x04\x08\x04\x10\x01"
            + b"\x22\x0c\x08\x05\x62\x03\x32\x01y\x62\x03\x32\x01z"
        )

    def test_name_is_interned_once(self) -> None:
        trace = b"".join(encoded([slice_of({}, "again"), slice_of({}, "again")]))

        assert trace.count(b"again") == 1

    def test_names_beyond_the_limit_are_written_out(self) -> None:
        """A source of unknown origin may hold any number of names."""
        trace = b"".join(encoded(slice_of({}, f"name {number}") for number in range(_INTERNED_MAX + 1)))

        assert f"\xba\x01\x09name {_INTERNED_MAX}".encode("latin-1") in trace

    def test_timeline_without_items_is_empty(self) -> None:
        assert list(encoded([])) == []

    def test_long_timeline_comes_in_pieces(self) -> None:
        """So that a day takes no more memory than an hour."""
        pieces = list(encoded(slice_of({}) for _ in range(10_000)))

        assert len(pieces) == 5
        assert max(map(len, pieces)) < 70_000
