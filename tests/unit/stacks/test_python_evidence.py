"""python_evidence: when processes are examined, and when slow calls of a chain are named."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from exporter.kernel.abi import OPERATION_NONE
from exporter.kernel.call_site_rows import CallSiteKey, CallSiteRow
from exporter.kernel.operations import NUMBERS
from exporter.kernel.python_frames import CodeFrame
from exporter.kernel.stacks import Stack
from exporter.python.call_site import CallSite, CallStack, PythonFrame
from exporter.stacks.named_sites import NamedSites
from exporter.stacks.python_evidence import PythonEvidence, SlowCallsOfChain
from exporter.stacks.python_stacks import PythonStack
from exporter.stacks.python_tasks import Around
from exporter.stacks.task_lines import TaskSection
from tests.support.call_site_rows import a_key, a_row
from tests.support.chains import a_chain
from tests.support.stacks import SECOND, a_stack

STEP = PythonFrame("/srv/job/train.py", "step", 142)
CHAIN = a_chain(began_ns=5 * SECOND, opened_ns=10 * SECOND)


class Stacks:
    """PythonStacks of processes whose threads are all in step(). stacks, waiting: by tid. prepared: tgids."""

    def __init__(self) -> None:
        self.prepared: list[int] = []
        self.final: set[int] = set()
        self.living: Container[int] = ()
        self.stacks: dict[int, PythonStack] = {}
        self.waiting: dict[int, tuple[int, PythonStack]] = {}
        self.is_gone = False
        self.samples: dict[int, tuple[PythonFrame, ...]] = {}

    def prepare(self, tgid: int, _now_ns: int) -> bool:
        self.prepared.append(tgid)
        return True

    def is_final(self, tgid: int) -> bool:
        return tgid in self.final

    def forget(self, living: Container[int]) -> None:
        self.living = living

    def of_thread(self, _tgid: int, tid: int) -> PythonStack | None:
        return self.stacks.get(tid)

    def of_waiting_thread(self, _tgid: int, tid: int, _opened_ns: int) -> tuple[int, PythonStack] | None:
        return self.waiting.get(tid)

    def sample(self, _tgid: int, tid: int) -> tuple[PythonFrame, ...]:
        return self.samples.get(tid, ())

    def object_words(self, stack: PythonStack, begins: Iterable[int]) -> dict[int, int]:
        """Each object is at the beginning of a piece."""
        return dict(zip(begins, stack.objects, strict=False))

    def named(self, _tgid: int, _tid: int, _place: int, frames: Sequence[CodeFrame]) -> tuple[PythonFrame, ...]:
        return () if self.is_gone else (STEP,) * len(frames)

    def files_of(self, _tgid: int) -> tuple[str, ...]:
        return ("python3.11",)


TASKS = TaskSection(1, "worker", (), (), 0, is_cut=False)


class Tasks:
    """PythonTasks of threads that all run the same task; a stack is one frame longer when they have been read."""

    def around(self, _tgid: int, _tid: int, stack: PythonStack) -> Around:
        return Around(stack._replace(frames=(*stack.frames, STEP)), TASKS)


class Bench:
    """PythonEvidence of process 4700. tgids, rows: what the kernel has."""

    def __init__(self) -> None:
        self.stacks = Stacks()
        self.tgids = {4700}
        self.rows: dict[CallSiteKey, CallSiteRow] = {}
        fake: Any = self.stacks
        named_sites = NamedSites(fake, lambda _tgid: "/srv/job")
        self.evidence = PythonEvidence(
            fake, named_sites, lambda: self.tgids, self._rows, Tasks(), sleep=lambda _seconds: None
        )  # type: ignore[arg-type]

    def _rows(self) -> Mapping[CallSiteKey, CallSiteRow]:
        return self.rows

    def tick(self, at_seconds: float) -> None:
        """Does at once what the thread of the collector does."""
        run = self.evidence.due(round(at_seconds * SECOND))
        if run is not None:
            run()

    def lines(self, at_seconds: float, *states: Stack) -> tuple[str, ...]:
        """The lines of the chain at a time. states: of threads at each sample."""
        (slow,) = self.evidence.slow_calls([CHAIN], round(at_seconds * SECOND))
        by_tid = {state.tid: state for state in states}
        return self.evidence.lines_of(slow, 4700, tuple(by_tid), by_tid.get)

    def given(self, at_seconds: float) -> list[int]:
        """Calls of each stack that is named now."""
        found = self.evidence.slow_calls([CHAIN], round(at_seconds * SECOND))
        return [one.calls for slow in found for one in slow.calls]


class TestProcesses:
    def test_process_is_examined_every_two_seconds_until_the_result_is_final(self) -> None:
        bench = Bench()
        for at_seconds in (0, 1, 2, 3):
            bench.tick(at_seconds)

        assert bench.stacks.prepared == [4700, 4700]

        bench.stacks.final = {4700}
        bench.tick(4)

        assert bench.stacks.prepared == [4700, 4700]

    def test_processes_that_ended_are_forgotten(self) -> None:
        bench = Bench()
        bench.tick(0)
        bench.tgids = {4701}
        bench.tick(1)

        assert bench.stacks.living == {4701}


class TestSlowCalls:
    def test_slow_calls_since_the_onset_are_named_two_and_twenty_seconds_after_the_opening(self) -> None:
        """4 calls before the onset, 23 by 12 s, 30 more by 30 s."""
        bench = Bench()
        bench.rows = {a_key(): a_row(4, 100)}
        bench.tick(4)
        bench.rows = {a_key(): a_row(27, 900)}
        bench.tick(11)

        assert bench.given(11) == []
        assert bench.given(12) == [23]
        assert bench.given(13) == []

        bench.rows = {a_key(): a_row(57, 900)}
        bench.tick(30)

        assert bench.given(30) == [53]
        assert bench.given(60) == []

    def test_chain_without_slow_calls_is_there_as_well(self) -> None:
        """Its time may go to lines between calls."""
        bench = Bench()
        bench.tick(11)

        assert bench.evidence.slow_calls([CHAIN], 12 * SECOND) == [SlowCallsOfChain(CHAIN, (), 7 * SECOND)]


class TestLines:
    def test_five_lines_are_named_and_the_others_counted(self) -> None:
        """Two threads at a line each, and five stacks with slow calls."""
        bench = Bench()
        bench.rows = {a_key(stack): a_row(stack, (stack + 10) * SECOND // 10) for stack in range(1, 6)}
        bench.tick(11)
        bench.stacks.samples = {4711: (STEP._replace(line=9),), 4712: (STEP._replace(line=10),)}
        lines = bench.lines(12, a_stack(operation=OPERATION_NONE), a_stack(tid=4712, operation=OPERATION_NONE))

        assert lines[3] == "  cudaMalloc: 1.5 s in 5 slow calls, 0.05 s at most, from step (train.py:142)"
        assert (len(lines), lines[-1]) == (7, "  and 2 more")

    def test_slow_calls_with_little_of_the_time_are_left_out(self) -> None:
        """0.3 s of 7 s."""
        bench = Bench()
        bench.rows = {a_key(): a_row(23, 3 * SECOND // 10)}
        bench.tick(11)

        assert bench.lines(12) == ()

    def test_line_between_calls_is_named_by_its_samples(self) -> None:
        """Before a slow call that takes less of the time."""
        bench = Bench()
        bench.rows = {a_key(): a_row(23, 2 * SECOND)}
        bench.tick(11)
        bench.stacks.samples = {4711: (STEP._replace(function="load", line=9),)}

        assert bench.lines(12, a_stack(operation=OPERATION_NONE)) == (
            "lines of Python with the most time since the chain began:",
            "  between calls: 25 of 25 samples, at load (train.py:9)",
            "  cudaMalloc: 2 s in 23 slow calls, 0.05 s at most, from step (train.py:142)",
        )

    def test_stack_without_code_of_the_job_comes_last(self) -> None:
        """A thread of a library's pool waits for work all the time."""
        bench = Bench()
        idle = STEP._replace(file="/usr/lib/python3.11/concurrent/futures/thread.py", function="_worker", line=81)
        bench.stacks.samples = {4711: (idle,), 4712: (STEP,)}
        lines = bench.lines(12, a_stack(operation=OPERATION_NONE), a_stack(tid=4712, operation=OPERATION_NONE))

        assert lines[1:] == (
            "  between calls: 25 of 25 samples, at step (train.py:142)",
            "  between calls: 25 of 25 samples, at _worker (concurrent/futures/thread.py:81)",
        )

    def test_samples_in_slow_calls_are_not_named_twice(self) -> None:
        bench = Bench()
        bench.rows = {a_key(): a_row(23, 5 * SECOND)}
        bench.tick(11)
        bench.stacks.samples = {4711: (STEP,)}

        assert len(bench.lines(12, a_stack(operation=NUMBERS["cudaMalloc"]))) == 2

    def test_thread_without_python_has_the_lines_of_the_thread_that_waits_for_it(self) -> None:
        """As one of autograd, for which the training loop waits."""
        bench = Bench()
        waiting = PythonStack((STEP._replace(function="backward"),), 3, is_outer=False)
        bench.stacks.waiting = {4711: (4700, waiting)}

        assert bench.lines(12, a_stack(operation=OPERATION_NONE))[1].endswith("at backward (train.py:142)")

    def test_process_that_ended_keeps_the_names_that_were_read(self) -> None:
        bench = Bench()
        bench.rows = {a_key(): a_row(1, 5 * SECOND)}
        bench.tick(11)
        bench.stacks.is_gone = True

        assert "from step (train.py:142)" in bench.lines(12)[1]

    def test_process_that_ended_before_they_were_read_has_no_lines(self) -> None:
        bench = Bench()
        bench.stacks.is_gone = True
        bench.rows = {a_key(): a_row(1, 5 * SECOND)}
        bench.tick(11)

        assert bench.lines(12) == ()


class TestCallSites:
    def test_those_since_a_moment_have_the_growth_and_the_names(self) -> None:
        """4 calls before 10 s, 23 more by 12 s."""
        bench = Bench()
        bench.rows = {a_key(): a_row(4, 100)}
        bench.tick(9)
        bench.rows = {a_key(): a_row(27, 900)}
        bench.tick(12)

        stack = CallStack("/srv/job", (STEP,))
        assert bench.evidence.call_sites_since(1, 10 * SECOND) == (
            CallSite("runtime", "cudaMalloc", 200_000, 23, 800, stack),
        )
        assert bench.evidence.named_sites.call_sites(1)[0].calls == 27


class TestSections:
    def test_frames_of_another_call_are_left_out(self) -> None:
        """It was opened between the two looks at the thread."""
        bench = Bench()
        bench.stacks.stacks = {4711: PythonStack((STEP,), 10 * SECOND, is_outer=False)}

        assert bench.evidence.of_stacks(4700, [a_stack()])[4711].stack.frames == (STEP, STEP)
        assert bench.evidence.of_stacks(4700, [a_stack(opened_ns=11 * SECOND)]) == {}

    def test_frame_objects_are_searched_from_the_thread_s_place_and_from_its_call_on(self) -> None:
        """Not outside of calls, where native functions are not shown between those of Python."""
        bench = Bench()
        bench.stacks.stacks = {4711: PythonStack((STEP,), 10 * SECOND, is_outer=False, objects=(0x500, 0x600))}
        section = bench.evidence.of_stacks(4700, [a_stack()])[4711]
        outside = bench.evidence.of_stacks(4700, [a_stack(call_slot=0)])[4711]

        assert (section.objects, section.object_words) == ((0x500, 0x600), {0x7000: 0x500, 0x7100: 0x600})
        assert (outside.objects, outside.object_words) == ((), {})

    def test_thread_without_python_has_the_frames_of_the_thread_that_waits_for_it(self) -> None:
        """As one of autograd."""
        bench = Bench()
        bench.stacks.waiting = {4711: (4700, PythonStack((STEP,), 3, is_outer=False))}
        section = bench.evidence.of_stacks(4700, [a_stack()])[4711]

        assert (section.waiting_tid, section.stack.frames) == (4700, (STEP, STEP))

    def test_tasks_are_those_of_the_moment_of_the_stack(self) -> None:
        """Which is a later one if the thread has run while they were read."""
        bench = Bench()
        bench.stacks.stacks = {4711: PythonStack((STEP,), 10 * SECOND, is_outer=False)}
        section = bench.evidence.of_stacks(4700, [a_stack()])[4711]

        assert (section.tasks, section.stack.frames) == (TASKS, (STEP, STEP))

    def test_thread_without_python_for_which_no_thread_is_known_to_wait_has_no_section(self) -> None:
        """Frames of another thread would be a guess."""
        bench = Bench()
        bench.stacks.stacks = {4700: PythonStack((STEP,), 3, is_outer=False)}

        assert bench.evidence.of_stacks(4700, [a_stack()]) == {}

    def test_process_without_python_has_no_sections(self) -> None:
        assert Bench().evidence.of_stacks(4700, [a_stack()]) == {}
