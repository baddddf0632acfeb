"""stacks: what the program stacks_read writes, packed by hand."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from exporter.kernel import abi
from exporter.kernel.stacks import Stack, stacks_of

Frames = Sequence[tuple[int, int]]


def row(
    *,
    tid: int = 4711,
    call_slot: int = 0x7100,
    windows: tuple[int, int, int] = (0x7000, 0, 0),
    words: Mapping[int, int] | None = None,
    frames: Frames = (),
    callers: Frames = (),
    returns: Frames = (),
) -> bytes:
    """A row as C lays it out. words: by their place among all windows' words."""
    head = struct.pack(
        "=IIIIQQQQQQIIQQQ",
        tid,
        4700,
        20,
        1,
        12,
        10,
        call_slot,
        0x1000,
        0x7000,
        0x7020,
        len(frames),
        len(callers),
        *windows,
    )
    lists = b"".join(_packed(one, room) for one, room in ((frames, 64), (callers, 64), (returns, 8)))
    values = [(words or {}).get(place, 0) for place in range(3072)]
    return head + lists + struct.pack("=16s3072Q", b"python\0rest", *values)


def _packed(frames: Frames, room: int) -> bytes:
    return b"".join(struct.pack("=QQ", *frame) for frame in frames).ljust(room * 16, b"\0")


def only(written: bytes) -> Stack:
    """The one."""
    (found,) = stacks_of(written)
    return found


class TestRow:
    """One thread."""

    def test_members_are_told(self) -> None:
        """The name up to its end."""
        assert only(row()) == Stack(
            tid=4711,
            tgid=4700,
            comm=b"python",
            operation=20,
            opened_ns=10,
            read_ns=12,
            is_running=True,
            instruction=0x1000,
            stack_pointer=0x7000,
            frame_pointer=0x7020,
            call_slot=0x7100,
            memory={},
        )

    def test_words_lie_where_their_window_begins(self) -> None:
        """Each window has 1,024; one that begins nowhere was not read."""
        memory = only(row(windows=(0x7000, 0x9000, 0), words={0: 1, 3: 2, 1024: 3, 2047: 4, 2048: 5})).memory

        assert memory == {0x7000: 1, 0x7018: 2, 0x9000: 3, 0x9000 + 1023 * 8: 4}

    def test_frames_are_linked(self) -> None:
        """Below each return address stands where the next frame is."""
        memory = only(row(frames=[(0x7028, 0x2005), (0x7048, 0x3005)], callers=[(0x7100, 0x4005)])).memory

        assert memory == {0x7028: 0x2005, 0x7020: 0x7040, 0x7048: 0x3005, 0x7100: 0x4005}

    def test_what_a_probe_took_the_place_of_is_put_back(self) -> None:
        """In a frame, and in a window; places that are not used are none."""
        memory = only(
            row(words={1: 0xFFF}, frames=[(0x7028, 0xFFF)], returns=[(0x7008, 0x2005), (0x7028, 0x3005)])
        ).memory

        assert memory == {0x7008: 0x2005, 0x7028: 0x3005}

    def test_count_beyond_the_room_is_no_frame(self) -> None:
        """What is written is checked as if a stranger wrote it."""
        broken = bytearray(row(frames=[(0x7028, 0x2005)]))
        struct.pack_into("=I", broken, abi.STACK_HEAD.size - 32, 4_000_000)

        assert 0x7028 in only(bytes(broken)).memory


class TestRows:
    """All that was written."""

    def test_one_behind_the_other(self) -> None:
        """A kernel before 6.1 tells every thread."""
        assert [one.tid for one in stacks_of(row(tid=1) + row(tid=2))] == [1, 2]

    def test_row_that_was_cut_is_left_out(self) -> None:
        """Nothing is raised."""
        assert stacks_of(row()[:-1]) == []
