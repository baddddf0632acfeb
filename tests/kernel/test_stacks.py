"""Stacks of threads stuck in known functions, with and without frame pointers. Nothing is mocked."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from exporter.host.eh_frame import FrameRules
from exporter.host.processes import Processes
from exporter.host.symbols import CodeAddress, Symbols
from exporter.kernel.abi import OPERATION_NONE
from exporter.kernel.operations import OPERATIONS
from exporter.kernel.stacks import Stack, Stacks
from exporter.stacks.unwinding import Backtrace, unwind
from tests.support import accounts
from tests.support.direct_reads import files_of
from tests.support.patience import line_of
from tests.support.priority import high_priority
from tests.support.traced import Tracer, eventually, tracer

SOURCE = Path(__file__).with_name("stuck.c")
BCC = Path("/usr/lib/python3/dist-packages/bcc")

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="callers are known on x86-64 alone")


@pytest.fixture(scope="module", params=["-fno-omit-frame-pointer", "-fomit-frame-pointer"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled program."""
    path = tmp_path_factory.mktemp("stuck") / "stuck"
    options = ("-O2", "-Wall", "-Werror", "-rdynamic", "-pthread", request.param)
    subprocess.run(["cc", *options, SOURCE, "-o", path], check=True)
    return path


@pytest.fixture
def traced(program: Path) -> Iterator[Tracer]:
    """Probes on its functions."""
    with tracer() as found:
        accounts.probe(found, program)
        yield found


class Seen(NamedTuple):
    """One thread. within, callers: names of functions."""

    stack: Stack
    within: list[str]
    callers: list[str]


@contextmanager
def stuck(program: Path, manner: str, threads: int = 1) -> Iterator[int]:
    """Starts the program; yields its tgid when its threads are stuck. Each prints just before it waits."""
    process = subprocess.Popen(
        [program, manner], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        for _ in range(threads):
            assert line_of(process) == "inside\n"
        if manner != "spin":
            eventually(lambda: are_asleep(process.pid, threads), "they wait")
        yield process.pid
    finally:
        process.kill()
        process.communicate()


def are_asleep(tgid: int, threads: int) -> bool:
    """Whether it has so many threads, all of them asleep."""
    stats = [path.read_text().rpartition(") ")[2] for path in Path(f"/proc/{tgid}/task").glob("*/stat")]
    return [stat[0] for stat in stats] == ["S"] * threads


def symbols(*options: str) -> Symbols:
    return Symbols(Processes(), files_of(Processes()), *options)


def look(traced: Tracer, tgid: int, tid: int) -> Seen:
    """As the stack collector does it; functions without offsets."""
    stack = Stacks(traced.kernel).take(tid)
    assert stack is not None
    return named(tgid, stack)


def named(tgid: int, stack: Stack) -> Seen:
    """The functions of a stack."""
    with FrameRules(Processes(), tgid) as rules:
        backtrace = unwind(stack, rules.at)
    within, callers = ([frame.address for frame in frames] for frames in backtrace)
    return Seen(stack, _named(tgid, [stack.instruction, *within]), _named(tgid, callers))


def _named(tgid: int, addresses: list[int]) -> list[str]:
    texts = symbols().name(tgid, [CodeAddress(address, is_return=True) for address in addresses]).texts
    return [texts.get(address, "?").partition("+")[0] for address in addresses]


def is_running(stack: Stack | None) -> bool:
    """Whether the thread was on a CPU when its stack was read."""
    return stack is not None and stack.is_running


def only_own(names: list[str]) -> list[str]:
    """Without libc's functions, whose names differ between versions."""
    own = ("wait_for_a_byte", "cudaStreamSynchronize", "inner", "middle", "outer", "main", "second")
    return [name for name in names if name in own or name.startswith(("other_", "odd_", "inner_", "outer_"))]


needs_bcc = pytest.mark.skipif(not BCC.exists(), reason="no bcc: apt-get install python3-bpfcc")


@needs_bcc
class TestCallers:
    """All functions in order."""

    def test_call_names_its_callers(self, program: Path, traced: Tracer) -> None:
        """A thread in cudaStreamSynchronize has the callers inner, middle, outer and main, and its current function."""
        with stuck(program, "call") as tgid:
            seen = look(traced, tgid, tgid)

        assert seen.callers[:4] == ["inner", "middle", "outer", "main"]
        assert only_own(seen.callers) == ["inner", "middle", "outer", "main"]
        assert only_own(seen.within) == ["wait_for_a_byte", "cudaStreamSynchronize"]
        assert OPERATIONS[seen.stack.operation].name == "cudaStreamSynchronize"
        assert not seen.stack.is_running

    def test_thread_of_a_stopped_process_is_marked(self, program: Path, traced: Tracer) -> None:
        """Its functions are the same ones."""
        with stuck(program, "call") as tgid:
            before = look(traced, tgid, tgid)
            os.kill(tgid, signal.SIGSTOP)
            os.waitid(os.P_PID, tgid, os.WSTOPPED | os.WNOWAIT)
            seen = look(traced, tgid, tgid)

        assert (before.stack.is_stopped, seen.stack.is_stopped) == (False, True)
        assert seen.callers == before.callers

    def test_each_thread_has_its_own_callers(self, program: Path, traced: Tracer) -> None:
        """Two threads in the same call by different paths."""
        with stuck(program, "two", threads=2) as tgid:
            (other,) = (int(tid) for tid in os.listdir(f"/proc/{tgid}/task") if int(tid) != tgid)  # noqa: PTH208
            seen = {tid: look(traced, tgid, tid) for tid in (tgid, other)}

        assert only_own(seen[tgid].callers) == ["inner", "middle", "outer", "main"]
        assert only_own(seen[other].callers) == ["other_inner", "other_outer", "second"]

    def test_thread_outside_calls_has_its_current_functions(self, program: Path, traced: Tracer) -> None:
        """It has made one call and waits elsewhere."""
        with stuck(program, "gap") as tgid:
            seen = look(traced, tgid, tgid)

        assert seen.stack.operation == OPERATION_NONE
        assert only_own(seen.within) == ["wait_for_a_byte", "inner_gap", "outer_gap", "main"]
        assert seen.callers == []

    def test_thread_on_a_cpu_has_callers_too(self, program: Path, traced: Tracer, two_cpus: tuple[int, int]) -> None:
        """It is marked as running, while this test runs on another CPU."""
        with high_priority(), stuck(program, "spin") as tgid:
            stacks = Stacks(traced.kernel)
            running = eventually(lambda: next(filter(is_running, [stacks.take(tgid)]), None), "it runs")
            seen = named(tgid, running)

        assert only_own(seen.callers) == ["inner", "middle", "outer", "main"]

    def test_invalid_frame_pointer_ends_the_walk(self, program: Path, traced: Tracer) -> None:
        """After the caller, for which there is no unwinding rule either."""
        with stuck(program, "odd") as tgid:
            seen = look(traced, tgid, tgid)

        assert seen.callers == ["odd_outer"]
        assert only_own(seen.within) == ["wait_for_a_byte", "cudaStreamSynchronize"]


class TestFiles:
    """Without bcc."""

    def test_callers_are_located(self, program: Path, traced: Tracer) -> None:
        """At four places of the program."""
        with stuck(program, "call") as tgid:
            stack = Stacks(traced.kernel).take(tgid)
            assert stack is not None
            with FrameRules(Processes(), tgid) as rules:
                way = unwind(stack, rules.at)
            located = symbols("/nonexistent").name(tgid, [CodeAddress(one.address, True) for one in way.callers])
            texts = [located.texts[one.address] for one in way.callers]

        assert not located.by_bcc
        assert all(text.startswith("stuck+0x") for text in texts[:4])
        assert len(set(texts[:4])) == 4


class TestPrivacy:
    """Privacy."""

    def test_words_that_are_no_addresses_are_zero(self, program: Path, traced: Tracer) -> None:
        """All other words are addresses of the stack or of code."""
        with stuck(program, "call") as tgid:
            stack = Stacks(traced.kernel).take(tgid)
            assert stack is not None
            maps = [line.split() for line in Path(f"/proc/{tgid}/maps").read_text().splitlines()]
            places = [(*(int(part, 16) for part in one[0].split("-")), "x" in one[1]) for one in maps]
        strangers = [
            word
            for word in stack.memory.values()
            if not 0 <= word - stack.stack_pointer < 8 << 20
            and not any(first <= word < end and is_code for first, end, is_code in places)
        ]

        assert len(stack.memory) > 10
        assert strangers == []


class TestEnds:
    """Missing threads."""

    def test_thread_that_ended_has_no_stack(self, program: Path, traced: Tracer) -> None:
        with stuck(program, "call") as tgid:
            pass

        assert Stacks(traced.kernel).take(tgid) is None

    def test_zombie_has_no_stack(self, program: Path, traced: Tracer) -> None:
        """Its memory is gone."""
        process = subprocess.Popen(
            [program, "call"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        assert line_of(process) == "inside\n"
        process.send_signal(signal.SIGKILL)
        eventually(lambda: " Z " in Path(f"/proc/{process.pid}/stat").read_text(), "it is a zombie")
        stack = Stacks(traced.kernel).take(process.pid)
        process.communicate()

        assert stack is None

    def test_untracked_thread_has_no_stack(self, traced: Tracer) -> None:
        """The thread of this test."""
        assert Stacks(traced.kernel).take(os.getpid()) is None

    def test_process_may_end_while_its_stack_is_read(self, program: Path, traced: Tracer) -> None:
        """Twenty processes, killed at some moment of twenty readings; each stack is of that thread."""
        stacks = Stacks(traced.kernel)
        for number in range(20):
            with stuck(program, "call") as tgid:
                for attempt in range(20):
                    if attempt == number:
                        os.kill(tgid, signal.SIGKILL)
                    stack = stacks.take(tgid)
                    assert stack is None or stack.tid == tgid
                    assert stack is None or isinstance(unwind(stack, lambda _address: None), Backtrace)


class TestDuration:
    def test_opened_ns_is_the_entry_of_the_call(self, program: Path, traced: Tracer) -> None:
        """Between two clock readings."""
        before_ns = time.monotonic_ns()
        with stuck(program, "call") as tgid:
            stack = Stacks(traced.kernel).take(tgid)
            after_ns = time.monotonic_ns()
        assert stack is not None

        assert before_ns <= stack.opened_ns <= stack.read_ns <= after_ns


class TestKinds:
    """Each attachment kind may replace return addresses."""

    @needs_bcc
    def test_callers_are_the_same_for_every_attachment_kind(self, program: Path, attach_kind: object) -> None:
        with tracer(attach_kind) as found:  # type: ignore[arg-type]
            accounts.probe(found, program)
            with stuck(program, "call") as tgid:
                seen = look(found, tgid, tgid)

        assert only_own(seen.callers) == ["inner", "middle", "outer", "main"]


class TestWithoutTheProgram:
    """A kernel that cannot load the program."""

    def test_no_stack_is_read_and_nothing_fails(self) -> None:
        """The rest works."""
        with tracer(subjects=("process", "cuda", "sched")) as found:
            assert not Stacks(found.kernel).is_possible
            assert Stacks(found.kernel).take(os.getpid()) is None
