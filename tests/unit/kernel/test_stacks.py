"""stacks: output of the program stacks_read, packed by hand."""

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
    """A row as C lays it out. words: by their index over all windows."""
    head = struct.pack(
        "=IIIHHQQQQQQIIQQQ",
        tid,
        4700,
        20,
        1,
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
    """The only stack."""
    (found,) = stacks_of(written)
    return found


class TestRow:
    def test_members_have_their_values(self) -> None:
        """comm ends at its NUL."""
        assert only(row()) == Stack(
            tid=4711,
            tgid=4700,
            comm=b"python",
            operation=20,
            opened_ns=10,
            read_ns=12,
            is_running=True,
            is_stopped=True,
            instruction=0x1000,
            stack_pointer=0x7000,
            frame_pointer=0x7020,
            call_slot=0x7100,
            memory={},
        )

    def test_words_have_addresses_from_the_begin_of_their_window(self) -> None:
        """Each window has 1,024 words; one at address 0 was not read."""
        memory = only(row(windows=(0x7000, 0x9000, 0), words={0: 1, 3: 2, 1024: 3, 2047: 4, 2048: 5})).memory

        assert memory == {0x7000: 1, 0x7018: 2, 0x9000: 3, 0x9000 + 1023 * 8: 4}

    def test_frames_are_linked(self) -> None:
        """Below each return address is the address of the next frame."""
        memory = only(row(frames=[(0x7028, 0x2005), (0x7048, 0x3005)], callers=[(0x7100, 0x4005)])).memory

        assert memory == {0x7028: 0x2005, 0x7020: 0x7040, 0x7048: 0x3005, 0x7100: 0x4005}

    def test_return_addresses_replaced_by_probes_are_restored(self) -> None:
        """In a frame, and in a window; unused entries are ignored."""
        memory = only(
            row(words={1: 0xFFF}, frames=[(0x7028, 0xFFF)], returns=[(0x7008, 0x2005), (0x7028, 0x3005)])
        ).memory

        assert memory == {0x7008: 0x2005, 0x7028: 0x3005}

    def test_frame_count_beyond_the_array_is_bounded(self) -> None:
        """Kernel output is not trusted."""
        broken = bytearray(row(frames=[(0x7028, 0x2005)]))
        struct.pack_into("=I", broken, abi.STACK_ROW.offset("frame_count"), 4_000_000)

        assert 0x7028 in only(bytes(broken)).memory


class TestRows:
    """The whole output."""

    def test_rows_are_read_one_by_one(self) -> None:
        """A kernel before 6.1 writes every thread."""
        assert [one.tid for one in stacks_of(row(tid=1) + row(tid=2))] == [1, 2]

    def test_incomplete_row_is_ignored(self) -> None:
        assert stacks_of(row()[:-1]) == []
