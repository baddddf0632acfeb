"""python_frames: output of the programs python_walk and python_read, packed by hand."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from exporter.errors import KernelRefused, NotReadable
from exporter.kernel.abi import PythonStatus
from exporter.kernel.python_frames import CodeFrame, PythonFrames, WalkedFrames
from tests.support.tables import FakeMap


def row(tid: int, frames: Sequence[tuple[int, int]], status: int = 0) -> bytes:
    """A row as C lays it out, of process 4700; the frames behind the counted ones are those of an earlier walk.

    Each frame after the first is one that a function of the interpreter began with, at 0x100 times its number.
    """
    head = struct.pack("=IIIIQQQQQQII", tid, 4700, 1, status, 12, 10, 8, 9, 0x9000, 77, 4700, len(frames))
    shown = [*frames, *[(0xDEAD, 0xDEAD)] * (64 - len(frames))]
    entries = struct.pack("=64Q", *(0x100 * number for number in range(64)))
    return head + b"".join(struct.pack("=QQQ", *frame, 0x77) for frame in shown) + entries


@dataclass
class Kernel:
    """written: what the iterator gives; None: the thread has ended."""

    written: bytes | None
    programs: dict[str, int] = field(default_factory=lambda: {"python_walk": 1})
    maps: dict[str, FakeMap] = field(default_factory=lambda: {"interpreters": FakeMap(), "python_request": FakeMap()})

    def iterate_thread(self, _name: str, _tid: int) -> bytes:
        """As loader.Kernel."""
        if self.written is None:
            raise KernelRefused("cannot attach")
        return self.written


def frames_of(written: bytes | None) -> tuple[PythonFrames, Kernel]:
    """The reader, and its fake kernel."""
    kernel = Kernel(written)
    return PythonFrames(kernel), kernel  # type: ignore[arg-type]


class TestWalk:
    def test_row_has_the_frames_that_it_counts(self) -> None:
        """Two frames, innermost first."""
        reader, _ = frames_of(row(4711, [(0x1000, 0x1010), (0x2000, 0x2020)]))

        assert reader.walk(4711) == WalkedFrames(
            4711,
            4700,
            1,
            PythonStatus.WALKED,
            12,
            10,
            (CodeFrame(0x1000, 0x1010, 0x77), CodeFrame(0x2000, 0x2020, 0x77, 0x100)),
            waker_tid=4700,
            woken_ns=8,
            waiting_ns=9,
            state=0x9000,
            switches=77,
        )

    def test_thread_that_ended_has_no_frames(self) -> None:
        """The kernel refuses to iterate over it, or gives another one that has its tid by now."""
        assert frames_of(None)[0].walk(4711) is None
        assert frames_of(row(4712, []))[0].walk(4711) is None
        assert frames_of(b"")[0].walk(4711) is None


class TestMoments:
    @pytest.mark.parametrize(
        ("changes", "is_same"), [({"read_ns": 13}, True), ({"switches": 78}, False), ({"opened_ns": 11}, False)]
    )
    def test_thread_that_has_run_is_at_another_moment(self, changes: dict[str, int], is_same: bool) -> None:
        """It has left a CPU in between, or is in another call."""
        walked = frames_of(row(4711, []))[0].walk(4711)
        assert walked is not None

        assert walked.is_same_moment(walked._replace(**changes)) == is_same  # type: ignore[arg-type]


class TestRead:
    def test_bytes_are_requested_by_address_and_size(self) -> None:
        reader, kernel = frames_of(b"abcd")

        assert reader.read(4711, 0x5000, 4) == b"abcd"
        assert kernel.maps["python_request"].rows == {bytes(4): struct.pack("=QII", 0x5000, 4, 0)}

    @pytest.mark.parametrize("written", [b"", b"abc", None])
    def test_memory_that_cannot_be_read_is_an_error(self, written: bytes | None) -> None:
        """Nothing, less than requested, or a thread that has ended."""
        with pytest.raises(NotReadable):
            frames_of(written)[0].read(4711, 0x5000, 4)


class TestInterpreters:
    def test_layouts_are_kept_by_process_and_place(self) -> None:
        """remove() forgets all places of the process."""
        reader, kernel = frames_of(b"")
        reader.add(4700, 0, b"first")
        reader.add(4700, 3, b"second")
        reader.add(4701, 0, b"other")

        assert kernel.maps["interpreters"].rows == {
            struct.pack("=II", 4700, 0): b"first",
            struct.pack("=II", 4700, 3): b"second",
            struct.pack("=II", 4701, 0): b"other",
        }

        reader.remove(4700)

        assert kernel.maps["interpreters"].rows == {struct.pack("=II", 4701, 0): b"other"}

    def test_walks_are_possible_only_with_the_program(self) -> None:
        reader, kernel = frames_of(b"")

        assert reader.is_possible

        kernel.programs.clear()

        assert not reader.is_possible
