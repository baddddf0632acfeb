"""python_stacks: which processes are examined and how often, and frames of threads that rest or run. The memory is made up."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from types import SimpleNamespace

import pytest

from exporter.errors import NoAnswer, NotReadable
from exporter.host.interpreters import MappedInterpreter
from exporter.kernel.abi import PYTHON_IDENTITY_BYTES, PYTHON_LAYOUT, PythonStatus
from exporter.kernel.python_frames import CodeFrame, WalkedFrames
from exporter.python.code_objects import identity_of
from exporter.python.code_type import CodeType
from exporter.python.interpreter import Interpreter, interpreter_of
from exporter.python.layout import ABSENT, IDENTITY_BYTES_MAX, PythonLayout, oldest_layout
from exporter.stacks import python_stacks
from exporter.stacks.python_stacks import RETRIES_MAX, RETRY_NS, TABLE_BYTES_MAX, PythonStack, PythonStacks, packed
from tests.unit.python.made_interpreter import MadeInterpreter, layout_of

MAPPED = MappedInterpreter("/usr/lib/libpython3.11.so.1.0", 0x5000, 0x6000, 0x7000)


class Kernel:
    """PythonFrames whose memory cannot be read. walks: what walk() gives, in order."""

    def __init__(self, walks: Iterable[WalkedFrames | None] = ()) -> None:
        self.walks = list(walks)
        self.removed: list[int] = []

    def walk(self, _tid: int) -> WalkedFrames | None:
        return self.walks.pop(0)

    def read(self, _tid: int, _address: int, _size: int) -> bytes:
        raise NotReadable("nothing is mapped")

    def add(self, _tgid: int, _place: int, _layout: bytes) -> None:
        raise AssertionError("no interpreter can be read")

    def remove(self, tgid: int) -> None:
        self.removed.append(tgid)


class Bench:
    """PythonStacks over a Kernel, with the process 4700. examined: how often files were examined."""

    def __init__(self, mapped: Sequence[MappedInterpreter] = (MAPPED,), *, is_complete: bool = True) -> None:
        self.kernel = Kernel()
        self.results: list[str] = []
        self.examined = 0
        self.start_ticks = 7
        self.is_silent = False
        self.mapped, self.is_complete = list(mapped), is_complete
        self.stacks = PythonStacks(self.kernel, self._examine, lambda _tgid: self.start_ticks, self.results.append)  # type: ignore[arg-type]

    def _examine(self, _tgid: int) -> tuple[list[MappedInterpreter], bool]:
        self.examined += 1
        if self.is_silent:
            raise NoAnswer("a file does not answer")
        return self.mapped, self.is_complete


class TestPreparing:
    def test_process_without_python_is_examined_once(self) -> None:
        bench = Bench(())

        assert not bench.stacks.prepare(4700, 0)
        assert bench.stacks.is_final(4700)

        bench.stacks.prepare(4700, 10 * RETRY_NS)

        assert (bench.examined, bench.results) == (1, [])

    def test_interpreter_that_cannot_be_read_is_tried_five_times_and_counted_once(self) -> None:
        """It may be in the middle of its start."""
        bench = Bench()
        for number in range(2 * RETRIES_MAX):
            bench.stacks.prepare(4700, number * RETRY_NS)

        assert (bench.examined, bench.results) == (RETRIES_MAX, ["unreadable"])
        assert bench.stacks.is_final(4700)

    def test_next_try_is_two_seconds_later(self) -> None:
        bench = Bench()
        bench.stacks.prepare(4700, 0)
        bench.stacks.prepare(4700, RETRY_NS - 1)

        assert bench.examined == 1

        bench.stacks.prepare(4700, RETRY_NS)

        assert bench.examined == 2

    def test_files_that_were_not_all_examined_are_examined_again(self) -> None:
        bench = Bench((), is_complete=False)
        bench.stacks.prepare(4700, 0)

        assert not bench.stacks.is_final(4700)

    def test_process_whose_files_cannot_be_read_in_time_is_tried_five_times(self) -> None:
        """Each try may cost the reader's patience."""
        bench = Bench()
        bench.is_silent = True
        for number in range(2 * RETRIES_MAX):
            bench.stacks.prepare(4700, number * RETRY_NS)

        assert bench.examined == RETRIES_MAX

    def test_process_with_the_same_number_is_another_one(self) -> None:
        """By its start."""
        bench = Bench(())
        bench.stacks.prepare(4700, 0)
        bench.start_ticks = 8
        bench.stacks.prepare(4700, 1)

        assert bench.examined == 2

    def test_ended_processes_are_removed_from_the_kernel_s_table(self) -> None:
        bench = Bench(())
        bench.stacks.prepare(4700, 0)
        bench.stacks.forget({4701})

        assert bench.kernel.removed == [4700]
        assert not bench.stacks.is_final(4700)


class TestPacked:
    def test_layout_is_packed_for_the_kernel(self) -> None:
        """A member that is absent is 0xffff; the mask has the bits that are kept; a frame of 3.10 is larger.

        The first line of code objects is at 68, in the word at 64, and their line table ends at 144.
        """
        layout = PythonLayout(
            runtime=0x5000,
            code_type=0x6000,
            interpreters_head=40,
            interpreter_next=0,
            interpreter_threads_head=16,
            thread_next=8,
            thread_native_id=ABSENT,
            thread_id=152,
            thread_frame=56,
            cframe_frame=ABSENT,
            frame_code=32,
            frame_previous=48,
            frame_instruction=56,
            frame_instruction_size=8,
            frame_owner=ABSENT,
            skip_owner_from=3,
            frame_is_entry=68,
            thread_cframe=48,
            code_pointer_mask=7,
            object_type=8,
        )
        expected = struct.pack(
            "=QQQ20H",
            0x5000,
            77,
            2**64 - 8,
            *(40, 0, 16, 8, 0xFFFF, 152, 56, 0xFFFF, 32, 48, 56, 8, 0xFFFF, 3, 112, 68, 48),
            *(64, 80, 0),
        )

        assert packed(layout, layout_of((3, 12)), 77) == expected
        assert len(expected) == PYTHON_LAYOUT.size
        assert IDENTITY_BYTES_MAX == PYTHON_IDENTITY_BYTES


def walked(*frames: tuple[int, int], status: PythonStatus = PythonStatus.RUNNING, opened_ns: int = 1) -> WalkedFrames:
    """Frames of thread 4711."""
    return WalkedFrames(4711, 4700, 0, status, 2, opened_ns, tuple(CodeFrame(*frame, 0) for frame in frames))


def of_version(version: tuple[int, int]) -> SimpleNamespace:
    """An interpreter of which the layout is known."""
    found = oldest_layout(version, 0x1000, CodeType(0x2000, 200, {}))
    assert found is not None
    layout, _ = found
    return SimpleNamespace(layout=layout)


class TestRunningThreads:
    """Eight walks are made: frames that all of them found, from the outermost one on, are shown."""

    @pytest.fixture
    def shown(self, monkeypatch: pytest.MonkeyPatch) -> list[tuple[CodeFrame, ...]]:
        """Frames that were named."""
        frames: list[tuple[CodeFrame, ...]] = []
        monkeypatch.setattr(PythonStacks, "_interpreters", lambda _self, _tgid: (object(),))
        monkeypatch.setattr(PythonStacks, "named", lambda _self, _tgid, _tid, _place, found: frames.append(found) or ())
        return frames

    def test_frames_that_all_walks_found_are_shown(self, shown: list[tuple[CodeFrame, ...]]) -> None:
        """The caller of what changes is at changing instructions itself: it has no line."""
        bench = Bench()
        bench.kernel.walks = [walked((90 + number, 1), (20, number), (10, 5)) for number in range(8)]
        bench.stacks.of_thread(4700, 4711)

        assert shown == [(CodeFrame(20, python_stacks.NO_INSTRUCTION, 0), CodeFrame(10, 5, 0))]

    def test_walks_of_different_calls_show_nothing(self, shown: list[tuple[CodeFrame, ...]]) -> None:
        bench = Bench()
        bench.kernel.walks = [walked((10, 5)), walked((10, 5), opened_ns=3)]
        bench.stacks.of_thread(4700, 4711)

        assert shown == [()]

    def test_thread_at_rest_is_walked_once(self, shown: list[tuple[CodeFrame, ...]]) -> None:
        bench = Bench()
        bench.kernel.walks = [walked((90, 1), (10, 5), status=PythonStatus.WALKED)]
        bench.stacks.of_thread(4700, 4711)

        assert shown == [(CodeFrame(90, 1, 0), CodeFrame(10, 5, 0))]

    @pytest.mark.parametrize("status", [PythonStatus.NO_FRAMES, PythonStatus.UNREADABLE])
    def test_thread_without_frames_shows_none(self, shown: list[tuple[CodeFrame, ...]], status: PythonStatus) -> None:
        bench = Bench()
        bench.kernel.walks = [walked(status=status)]

        assert bench.stacks.of_thread(4700, 4711) is None
        assert shown == []


class TestObjects:
    """The address of a frame object is on the stack of its thread, before Python 3.10."""

    def words(
        self, monkeypatch: pytest.MonkeyPatch, pages: dict[int, bytes], *begins: int, opened_ns: int = 1
    ) -> dict[int, int]:
        """With objects at 0x500 and 0x600. opened_ns: of the call that the thread is in afterwards."""
        bench = Bench()

        def read(_tid: int, address: int, _size: int) -> bytes:
            if address not in pages:
                raise NotReadable("nothing is mapped")
            return pages[address].ljust(4096, b"\0")

        monkeypatch.setattr(bench.kernel, "read", read)
        one = walked((90, 1), status=PythonStatus.WALKED)
        bench.kernel.walks = [one._replace(opened_ns=opened_ns)]
        stack = PythonStack((), 1, is_outer=False, walked=one, objects=(0x500, 0x600))
        return bench.stacks.object_words(stack, begins)

    def test_words_are_found_in_the_pages_of_each_piece(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A piece begins within a page; a page that cannot be read ends it."""
        pages = {
            0x7000: struct.pack("<QQQ", 0x400, 0x500, 0),
            0x8000: struct.pack("<Q", 0x600),
            0x2_A000: struct.pack("<Q", 0x500),
            0x2_C000: struct.pack("<Q", 0x500),
        }

        assert self.words(monkeypatch, pages, 0x7100, 0x2_A010) == {0x7008: 0x500, 0x8000: 0x600, 0x2_A000: 0x500}

    def test_piece_ends_after_16_kib(self, monkeypatch: pytest.MonkeyPatch) -> None:
        pages = {0x1000 * number: struct.pack("<Q", 0x500) for number in range(7, 20)}

        assert list(self.words(monkeypatch, pages, 0x7000)) == [0x7000, 0x8000, 0x9000, 0xA000]

    def test_thread_in_another_call_by_now_has_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert self.words(monkeypatch, {0x7000: struct.pack("<Q", 0x500)}, 0x7000, opened_ns=2) == {}

    @pytest.mark.parametrize(
        ("version", "has_objects"), [((3, 9), True), ((3, 10), False), ((3, 11), False), ((3, 12), False)]
    )
    def test_versions_without_a_list_of_functions_have_objects_instead_of_entries(
        self, monkeypatch: pytest.MonkeyPatch, version: tuple[int, int], has_objects: bool
    ) -> None:
        bench = Bench()
        frame = CodeFrame(90, 1, 0, entry=0x500)
        bench.kernel.walks = [walked(status=PythonStatus.WALKED)._replace(frames=(frame,))]
        monkeypatch.setattr(PythonStacks, "_interpreters", lambda _self, _tgid: (of_version(version),))
        monkeypatch.setattr(PythonStacks, "named", lambda _self, _tgid, _tid, _place, found: found)
        stack = bench.stacks.of_thread(4700, 4711)
        assert stack is not None

        assert (stack.objects, stack.entries) == (((0x500,), ()) if has_objects else ((), (0x500,)))


class TestNames:
    """Frames of a made interpreter."""

    def named(
        self, made: MadeInterpreter, frames: Sequence[CodeFrame], monkeypatch: pytest.MonkeyPatch
    ) -> list[int | None]:
        """The lines of the frames; [] if they have no names."""
        interpreter = interpreter_of(made.memory, made.symbols)
        assert isinstance(interpreter, Interpreter)
        bench = Bench()
        bench.stacks.prepare(4700, 0)
        monkeypatch.setattr(bench.kernel, "read", lambda _tid, address, size: made.memory(address, size))
        monkeypatch.setattr(PythonStacks, "_interpreters", lambda _self, _tgid: (interpreter,))
        return [frame.line for frame in bench.stacks.named(4700, 4711, 0, frames)]

    def made(self, *tables: bytes) -> tuple[MadeInterpreter, list[CodeFrame]]:
        """Functions of these line tables, and frames at their beginnings."""
        made = MadeInterpreter((3, 12))
        file, name = made.text("train.py"), made.text("step")
        codes = [made.code(file, name, 7, table, len(table)) for table in tables]
        made.link(codes)
        begin_at, (identity_at, identity_bytes) = made.code_bytes, layout_of((3, 12)).identity
        identities = [identity_of(made.memory(code + identity_at, identity_bytes)) for code in codes]
        return made, [CodeFrame(code, code + begin_at, one) for code, one in zip(codes, identities, strict=True)]

    def test_frame_has_its_line(self, monkeypatch: pytest.MonkeyPatch) -> None:
        made, frames = self.made(b"\xd9\x04\x08")

        assert self.named(made, frames, monkeypatch) == [8]

    def test_another_code_object_at_the_address_has_no_name(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """It was made after the frame was read, from a later line of the same file."""
        made, frames = self.made(b"\xd9\x04\x08")
        made.memory.set_word(frames[0].code + made.members["co_firstlineno"], 9)

        assert self.named(made, frames, monkeypatch) == []

    def test_frames_behind_long_line_tables_have_no_line(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A process that has them only to cost time: 64 KiB each, and 256 KiB are read."""
        made, frames = self.made(*[b"\x80\x00" * 32_768] * 5)

        assert TABLE_BYTES_MAX == 4 * 65_536
        assert self.named(made, frames, monkeypatch) == [7, 7, 7, 7, None]


def waker(**changes: object) -> WalkedFrames:
    """Thread 4700, which waits for a signal since 9, in one function."""
    return walked((10, 5), status=PythonStatus.WALKED)._replace(tid=4700, waiting_ns=9)._replace(**changes)  # type: ignore[arg-type]


class TestWaitingThread:
    """Thread 4711 runs no Python, and was woken by thread 4700 at 8."""

    @pytest.fixture(autouse=True)
    def _named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Every frame has a name."""
        monkeypatch.setattr(PythonStacks, "_interpreters", lambda _self, _tgid: (of_version((3, 12)),))
        monkeypatch.setattr(PythonStacks, "named", lambda _self, _tgid, _tid, _place, found: found)

    def found(self, other: WalkedFrames, opened_ns: int = 1, **changes: object) -> int:
        """Thread that waits, 0 for none."""
        bench = Bench()
        own = walked(status=PythonStatus.NO_FRAMES)._replace(waker_tid=4700, woken_ns=8)._replace(**changes)  # type: ignore[arg-type]
        bench.kernel.walks = [own, other, other]
        one = bench.stacks.of_waiting_thread(4700, 4711, opened_ns)
        return one[0] if one else 0

    def test_thread_that_woke_it_and_waits_since_then_is_the_one(self) -> None:
        assert self.found(waker()) == 4700

    def test_thread_that_waits_since_before_it_woke_the_other_is_not(self) -> None:
        """It has done something else since then."""
        assert self.found(waker(waiting_ns=7)) == 0

    def test_thread_that_does_not_wait_for_a_signal_is_not(self) -> None:
        assert self.found(waker(waiting_ns=0)) == 0

    def test_thread_of_another_process_is_not(self) -> None:
        """It has the number of one that has ended."""
        assert self.found(waker(tgid=4800)) == 0

    def test_thread_that_no_other_woke_has_none(self) -> None:
        assert self.found(waker(), waker_tid=0) == 0

    def test_thread_that_runs_python_has_none(self) -> None:
        assert self.found(waker(), status=PythonStatus.WALKED) == 0

    def test_thread_in_another_call_by_now_has_none(self) -> None:
        assert self.found(waker(), opened_ns=2) == 0
