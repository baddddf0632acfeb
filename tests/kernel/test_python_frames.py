"""Frames of real interpreters, compared with what each says about itself; slow calls by the line that made them."""

from __future__ import annotations

import platform
import re
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from exporter.host.eh_frame import FrameRules
from exporter.host.processes import Processes
from exporter.host.symbols import CodeAddress, Symbols
from exporter.kernel.abi import OPERATION_NONE, PythonStatus
from exporter.kernel.call_site_rows import read_call_sites
from exporter.kernel.stacks import Stack, Stacks
from exporter.python.call_site import CallStack, PythonFrame
from exporter.stacks.format import PythonSection, format_stack
from exporter.stacks.python_stacks import PythonStack
from exporter.stacks.unwinding import unwind
from tests.support.direct_reads import files_of
from tests.support.held_python import TARGET, Target, as_reported, build_library, probe, running
from tests.support.interpreters import VERSIONS
from tests.support.traced import Tracer, eventually, tracer

BCC = Path("/usr/lib/python3/dist-packages/bcc")
THREADS = 50
TASK_VERSIONS = ("3.12", "3.13", "3.14")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that the programs call."""
    return build_library(tmp_path_factory.mktemp("held"))


@pytest.fixture
def traced(library: Path) -> Iterator[Tracer]:
    """Probes on the library."""
    with tracer() as found:
        probe(found, library)
        yield found


@pytest.mark.parametrize("version", VERSIONS)
class TestHeldThreads:
    @pytest.mark.parametrize("rounds", [4, pytest.param(20, marks=pytest.mark.soak)])
    def test_every_frame_is_the_one_that_python_reports(
        self, traced: Tracer, library: Path, version: str, rounds: int
    ) -> None:
        """Rounds of 50 threads in a call, below stacks of all kinds of frames: file, name and line of each are equal."""
        wrong = []
        with running(traced, library, version) as target:
            for number in range(rounds):
                reported = target.ask(f"hold {THREADS} {number}")
                if not number:
                    target.prepare()
                for tid, expected in reported.items():
                    stack = target.stacks.of_thread(target.tgid, int(tid))
                    if stack is None or as_reported(stack.frames) != expected:
                        wrong.append((expected, stack))
                target.ask("release")

        assert wrong == []


@pytest.mark.parametrize("version", VERSIONS)
class TestTasks:
    def test_coroutines_of_the_running_task_stand_between_its_functions_and_the_event_loop(
        self, traced: Tracer, library: Path, version: str
    ) -> None:
        """awaiting() is the task, and awaits coroutine(), which runs."""
        with running(traced, library, version) as target:
            ((tid, expected),) = target.ask("hold_task").items()
            target.prepare()
            stack = target.stacks.of_thread(target.tgid, int(tid))
        assert stack is not None
        functions = [frame.function.rpartition(".")[2] for frame in stack.frames]

        assert as_reported(stack.frames) == expected
        assert functions[:7] == ["held", "go", "plain", "go", "coroutine", "awaiting", "_run"]


def flattened(graph: Any, waits_for: str | None = None) -> set[tuple[str, str, str | None]]:
    """(name, place, name of the one that it waits for) of each task that waits for the first one, by the program's own graph."""
    name, frames, awaiting = graph
    found = {(name, place_of(frames), waits_for)} if waits_for and name else set()
    return found.union(*(flattened(one, name or waits_for) for one in awaiting))


def place_of(frames: list[list[Any]]) -> str:
    return CallStack("", tuple(PythonFrame(*frame) for frame in frames)).place


@pytest.mark.parametrize("version", TASK_VERSIONS)
class TestOtherTasks:
    def test_tasks_that_wait_for_the_one_that_runs_are_those_that_python_reports(
        self, traced: Tracer, library: Path, version: str
    ) -> None:
        """first and second wait for worker, the latter by gather(), third for first, and a last one for all, by wait().

        As capture_call_graph() says; before 3.14 those that wait by gather() and wait() are not found.
        """
        with running(traced, library, version) as target:
            held, graph = target.ask("hold_tasks")
            ((tid, expected),) = held.items()
            target.prepare()
            stack = target.stacks.of_thread(target.tgid, int(tid))
            assert stack is not None
            same, tasks, _ = target.tasks.around(target.tgid, int(tid), stack)
        assert tasks is not None
        names = [one.name for one in tasks.awaiting]
        found = {
            (one.name, one.place, names[one.waits_for] if one.waits_for >= 0 else tasks.running)
            for one in tasks.awaiting
        }

        assert as_reported(same.frames) == expected
        assert [frame.function for frame in same.frames[: tasks.behind]] == ["held", "go", "plain", "go", "working"]
        assert tasks.running == "worker"
        by_future = [] if version != "3.14" else ["gr\u00f6\u00dfte", f"second {'x' * 56}\u2026"]
        assert sorted(names) == sorted(["first\ufffd[31m", "third", *by_future])
        assert found <= {(shown(name), place, shown(other)) for name, place, other in flattened(graph)}
        assert len(found) == len(names)
        assert target.task_results == ["read"]

    @pytest.mark.parametrize("count", [1, 23])
    def test_tasks_of_an_event_loop_that_waits_are_those_that_python_reports(
        self, traced: Tracer, library: Path, version: str, count: int
    ) -> None:
        """Tasks that sleep or wait for an event, and the one that waits for all of them."""
        with running(traced, library, version) as target:
            tid, reported = target.ask(f"wait_tasks {count}")
            target.prepare()
            stack = eventually(
                lambda: at_rest(target.stacks.of_thread(target.tgid, tid)), "the thread waits for events"
            )
            _, tasks, _ = target.tasks.around(target.tgid, tid, stack)
        assert tasks is not None
        places = Counter(place_of(frames) for _, frames in reported)

        assert tasks.running is None
        assert {one.first.place: one.number for one in tasks.waiting} == places
        assert {(one.first.name, one.first.place) for one in tasks.waiting} <= {
            (name, place_of(frames)) for name, frames in reported
        }
        assert (tasks.total, len(places)) == (count + 1, min(count, 2) + 1)
        assert target.task_results == ["read"]


@pytest.mark.parametrize("version", [version for version in VERSIONS if version not in TASK_VERSIONS])
class TestTasksOfOlderVersions:
    def test_interpreter_that_does_not_say_where_tasks_are_is_counted(
        self, traced: Tracer, library: Path, version: str
    ) -> None:
        """Functions of the task that runs are in the stack all the same."""
        with running(traced, library, version) as target:
            (tid,) = map(int, target.ask("hold_task"))
            target.prepare()
            stack = target.stacks.of_thread(target.tgid, tid)
            assert stack is not None

            assert target.tasks.around(target.tgid, tid, stack) == (stack, None, False)
            assert target.task_results == ["version"]


def shown(name: str | None) -> str | None:
    """As a task's name is shown: printable, and not more than 64 characters."""
    if name is None:
        return None
    text = name.replace("\x1b", "\ufffd")
    return text if len(text) <= 64 else text[:63] + "\u2026"


def at_rest(stack: PythonStack | None) -> PythonStack | None:
    """The stack, if its thread waits for events."""
    return (
        stack
        if stack is not None and not stack.is_outer and stack.frames[0].function == "EpollSelector.select"
        else None
    )


def in_a_call(traced: Tracer, tid: int) -> Stack | None:
    """The stack of a thread that is in a call, and waits there."""
    stack = Stacks(traced.kernel).take(tid)
    return stack if stack and stack.operation != OPERATION_NONE else None


def functions_of(lines: tuple[str, ...]) -> list[str]:
    """Names of the functions of the target and of its library, in lines for a person."""
    names = (
        re.split(r"[+ ]", line.strip(), maxsplit=1)[0] for line in lines if TARGET.name in line or "held.so" in line
    )
    return [name.rpartition(".")[2] for name in names]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="callers are known on x86-64 alone")
@pytest.mark.skipif(not BCC.exists(), reason="no bcc: apt-get install python3-bpfcc")
@pytest.mark.parametrize("version", VERSIONS)
class TestNativeFunctions:
    def test_native_functions_stand_between_the_python_functions_that_call_them(
        self, traced: Tracer, library: Path, version: str
    ) -> None:
        """call_back() of the library has called the lambda and was called by in_native(), twice in the stack."""
        with running(traced, library, version) as target:
            tids = list(map(int, target.ask("hold_native")))
            target.prepare()
            (called_by,) = callers_of(traced, target, tids)

        through_native = ["go", "<lambda>", "call_back", "in_native"]
        assert called_by == [
            "held",
            "go",
            "generate",
            "in_generator",
            *through_native,
            "go",
            "plain",
            *through_native,
            "go",
        ]

    def test_native_function_stands_nowhere_else(self, traced: Tracer, library: Path, version: str) -> None:
        """Threads below stacks of all kinds of frames: call_back() is always between the lambda and in_native()."""
        with running(traced, library, version) as target:
            tids = list(map(int, target.ask(f"hold {THREADS} 0")))
            target.prepare()
            stacks = callers_of(traced, target, tids)
        around = [
            pair
            for names in stacks
            for name, *pair in zip(names[1:], names, names[2:], strict=False)
            if name == "call_back"
        ]

        assert [pair for pair in around if pair != ["<lambda>", "in_native"]] == []
        assert len(around) > THREADS // 10


def callers_of(traced: Tracer, target: Target, tids: Sequence[int]) -> list[list[str]]:
    """Names of the functions of the target and of its library that have led to the call of each thread, innermost first."""
    found, addresses = [], []
    with FrameRules(Processes(), target.tgid) as rules:
        for tid in tids:
            stack, python = Stacks(traced.kernel).take(tid), target.stacks.of_thread(target.tgid, tid)
            assert stack is not None
            assert python is not None
            words = target.stacks.object_words(python, (stack.stack_pointer, stack.call_slot))
            section = PythonSection(
                CallStack("/", python.frames),
                target.stacks.files_of(target.tgid),
                is_outer=False,
                entries=python.entries,
                objects=python.objects,
                object_words=words,
            )
            found.append((stack, unwind(stack, rules.at), section))
    for _, backtrace, _ in found:
        addresses += [CodeAddress(frame.address, is_return=True) for frame in (*backtrace.within, *backtrace.callers)]
    names = Symbols(Processes(), files_of(Processes())).name(target.tgid, addresses)
    lines = [format_stack(*one[:2], names.texts, one[2]) for one in found]
    return [functions_of(one[: one.index("inside cudaStreamSynchronize it is at")]) for one in lines]


@pytest.mark.parametrize("version", VERSIONS)
class TestThreadsWithoutPython:
    def test_thread_that_gave_the_work_and_waits_is_found(self, traced: Tracer, library: Path, version: str) -> None:
        """As the main thread in backward(), for a thread of autograd."""
        with running(traced, library, version) as target:
            giver, worker = target.ask("give wait")
            target.prepare()
            opened_ns = eventually(lambda: in_a_call(traced, worker), "the worker is in the call").opened_ns
            find = partial(target.stacks.of_waiting_thread, target.tgid, worker, opened_ns)
            waiting, stack = eventually(find, "a thread waits for the worker")
            assert target.stacks.of_thread(target.tgid, worker) is None

        assert waiting == giver
        assert [frame.function for frame in stack.frames[:2]] == ["wait_for_worker", "give"]

    def test_thread_that_gave_the_work_and_does_something_else_is_not(
        self, traced: Tracer, library: Path, version: str
    ) -> None:
        """It sleeps: nothing says that it waits for the worker."""
        with running(traced, library, version) as target:
            giver, worker = target.ask("give sleep")
            target.prepare()
            opened_ns = eventually(lambda: in_a_call(traced, worker), "the worker is in the call").opened_ns
            eventually(lambda: target.is_at_rest(giver), "the thread that gave it the work sleeps")

            assert target.stacks.of_waiting_thread(target.tgid, worker, opened_ns) is None


@pytest.mark.parametrize("version", VERSIONS)
class TestRunningThreads:
    @pytest.mark.parametrize("looks", [500, pytest.param(10_000, marks=pytest.mark.soak)])
    def test_no_frame_of_a_running_thread_is_wrong(
        self, traced: Tracer, library: Path, version: str, looks: int
    ) -> None:
        """Looks at threads that never rest: a leaf has its own branch as its caller, and that has run_for_ever().

        Looks that find nothing are not counted as wrong: the thread went on during them. Most show run_for_ever() at least.
        """
        callers = {
            "odd_leaf": "odd_branch",
            "even_leaf": "even_branch.<locals>.<genexpr>",
            "even_branch.<locals>.<genexpr>": "even_branch",
            "<genexpr>": "even_branch",
            "odd_branch": "run_for_ever",
            "even_branch": "run_for_ever",
            "run_for_ever": "go",
        }
        if version in ("3.9", "3.10"):
            callers["even_leaf"] = "<genexpr>"
        wrong, seen = [], 0
        with running(traced, library, version) as target:
            tids = target.ask("run 2")
            target.prepare()
            for number in range(looks):
                stack = target.stacks.of_thread(target.tgid, tids[number % len(tids)])
                if stack is None:
                    continue
                names = [frame.function for frame in stack.frames]
                seen += "run_for_ever" in names
                pairs = zip(names, [*names[1:], ""], strict=True)
                if any(callers.get(name, caller) != caller for name, caller in pairs):
                    wrong.append(stack)

        assert wrong == []
        assert seen > looks // 2


@pytest.mark.parametrize("version", VERSIONS)
class TestSlowCalls:
    def test_slow_calls_are_counted_by_the_line_that_made_them(
        self, traced: Tracer, library: Path, version: str
    ) -> None:
        """1,000 fast calls are not; then 23 of 20 ms from one line, 7 of 30 ms from another, 5 of 25 ms in other threads."""
        with running(traced, library, version, is_urgent=True) as target:
            target.ask("hold 1 0")
            target.prepare()
            lines = target.ask("slow")
            rows = [
                (target.stacks.named(target.tgid, target.tgid, row.place, row.frames), row)
                for row in read_call_sites(traced.kernel.maps["call_sites"]).values()
            ]
        # A fast call is slow if its thread loses the CPU for so long.
        by_count = {row.calls: (frames, row) for frames, row in rows if frames[1].line != lines["fast"]}

        assert sorted(by_count) == [5, 7, 23]
        assert {row.status for _, row in rows} == {PythonStatus.WALKED}
        for count, site, least_ns in (
            (23, "one_site", 20_000_000),
            (7, "other_site", 30_000_000),
            (5, "one_site", 25_000_000),
        ):
            frames, row = by_count[count]
            assert (frames[0].function, frames[0].line) == (site, lines[site])
            assert row.total_ns >= count * least_ns
            assert least_ns <= row.slowest_ns <= row.total_ns
        assert [frame.function for frame in by_count[23][0]] == ["one_site", "slow", "main", "<module>"]

    def test_function_whose_address_another_one_has_by_now_is_not_named(
        self, traced: Tracer, library: Path, version: str
    ) -> None:
        """Three slow calls of first(), which is deleted; second() lies where it was."""
        with running(traced, library, version, is_urgent=True) as target:
            target.ask("hold 1 0")
            target.prepare()
            assert target.ask("reborn")
            # A fast call, which is made by reborn() itself, is slow if its thread loses the CPU for so long.
            every = read_call_sites(traced.kernel.maps["call_sites"]).values()
            rows = [row for row in every if len(row.frames) > 4]
            named = [target.stacks.named(target.tgid, target.tgid, row.place, row.frames) for row in rows]

        assert [(row.calls, len(row.frames)) for row in rows] == [(3, 5)]
        assert named == [()]


@pytest.mark.parametrize("version", VERSIONS)
class TestEnds:
    def test_process_may_end_while_its_frames_are_read(self, traced: Tracer, library: Path, version: str) -> None:
        """Killed at some moment of a hundred looks, in ten processes: each stack is whole, or none."""
        for number in range(10):
            with running(traced, library, version) as target:
                (tid, expected), *_ = target.ask(f"hold 1 {number}").items()
                target.prepare()
                killer = threading.Timer(0.002 * number, target.process.kill)
                killer.start()
                seen = [target.stacks.of_thread(target.tgid, int(tid)) for _ in range(100)]
                killer.join()

            assert all(stack is None or as_reported(stack.frames) == expected for stack in seen)


class TestPtraceScope:
    """Yama refuses to let anyone read the memory of another process, also with all capabilities."""

    @pytest.fixture(autouse=True)
    def _skip_in_another_mode(self) -> None:
        """It can be set and not taken back: kernels that are booted for it have it."""
        scope = Path("/proc/sys/kernel/yama/ptrace_scope")
        if not scope.exists() or scope.read_text() != "3\n":
            pytest.skip("kernel.yama.ptrace_scope is not 3: boot with sysctl.kernel.yama.ptrace_scope=3")

    def test_frames_are_read_all_the_same(self, traced: Tracer, library: Path) -> None:
        """50 threads, as above."""
        with running(traced, library, "3.11") as target:
            reported = target.ask(f"hold {THREADS} 0")
            target.prepare()
            with pytest.raises(PermissionError):
                Path(f"/proc/{target.tgid}/mem").read_bytes()
            seen = {tid: target.stacks.of_thread(target.tgid, int(tid)) for tid in reported}

        assert {tid: stack and as_reported(stack.frames) for tid, stack in seen.items()} == reported
