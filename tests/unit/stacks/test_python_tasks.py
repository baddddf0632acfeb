"""python_tasks: tasks of the moment of a stack, and why there are none. The memory is made up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from exporter.errors import ProcessGone
from exporter.kernel.abi import PythonStatus
from exporter.kernel.python_frames import CodeFrame, WalkedFrames
from exporter.python.call_site import CallStack, PythonFrame
from exporter.python.interpreter import Interpreter
from exporter.python.memory import BoundedMemory
from exporter.python.task_objects import CodeAt, TaskObjects
from exporter.stacks.python_stacks import PythonStack
from exporter.stacks.python_tasks import PLACES_MAX, TRIES_MAX, PythonTasks
from exporter.stacks.task_lines import TaskAt, TasksAt
from tests.unit.python.made_registered import MadeRegistered
from tests.unit.python.made_tasks import LOOP, TASKS, MadeTasks

EVENTS = PythonFrame("/usr/lib/python3.14/asyncio/events.py", "Handle._run", 84)
STEP = PythonFrame("/srv/job/serve.py", "step", 12)


class PlainBench:
    """PythonTasks of thread 4711 of process 4700, which waits in one place. walks: what follows the first look."""

    def __init__(self, made: MadeTasks | MadeRegistered) -> None:
        self.memory = made.memory
        self.found: Interpreter | None = made.interpreter()
        self.walked = WalkedFrames(
            4711, 4700, 0, PythonStatus.WALKED, 2, 1, (CodeFrame(0x5000, 0x5010, 9),), state=made.state, switches=7
        )
        self.walks: list[WalkedFrames | None] = []
        self.sections: list[int] = []
        self.is_gone = False
        self.results: list[str] = []
        self.named_stacks: list[tuple[CodeFrame, ...]] = []
        fake: Any = self
        self.tasks = PythonTasks(fake, fake, self._sections_of, self._shown, self.results.append)

    def walk(self, _tid: int) -> WalkedFrames | None:
        return self.walks.pop(0) if self.walks else self.walked

    def read(self, _tid: int, address: int, size: int) -> bytes:
        return self.memory(address, size)

    def interpreter(self, _tgid: int, _place: int) -> Interpreter | None:
        return self.found

    def of_thread(self, _tgid: int, _tid: int) -> PythonStack | None:
        walked = self.walk(4711)
        return None if walked is None else self.stack(walked)

    def named(self, _tgid: int, _tid: int, _place: int, frames: Sequence[CodeFrame]) -> tuple[PythonFrame, ...]:
        """Functions called after their addresses."""
        self.named_stacks.append(tuple(frames))
        return tuple(PythonFrame("serve.py", f"at_{one.code:x}", one.instruction) for one in frames)

    def _sections_of(self, _tgid: int) -> list[int]:
        if self.is_gone:
            raise ProcessGone("process 4700 has ended")
        return self.sections

    def _shown(self, _tgid: int, frames: tuple[PythonFrame, ...]) -> CallStack:
        return CallStack("", frames)

    def stack(self, walked: WalkedFrames, frames: tuple[PythonFrame, ...] = (STEP, EVENTS)) -> PythonStack:
        is_outer = walked.status is PythonStatus.RUNNING
        return PythonStack(frames, walked.opened_ns, is_outer, walked=walked)

    def around(self, frames: tuple[PythonFrame, ...] = (STEP, EVENTS)) -> Any:
        """The tasks."""
        stack = self.stack(self.walked, frames)
        found, tasks, _ = self.tasks.around(4700, 4711, stack)
        assert found.walked is not None
        assert tasks is not None or found is stack
        return tasks


class Bench(PlainBench):
    """With an interpreter of 3.14."""

    def __init__(self) -> None:
        self.made = MadeTasks()
        super().__init__(self.made)
        self.sections = [self.made.section]


class RegisteredBench(PlainBench):
    """With an interpreter of 3.13."""

    def __init__(self) -> None:
        self.made = MadeRegistered((3, 13))
        super().__init__(self.made)


class TestRunning:
    def test_frames_of_the_task_are_those_up_to_its_coroutine(self) -> None:
        """Two inside of it, and the event loop around it."""
        bench = Bench()
        frames = tuple(CodeFrame(code, code + 16, 9) for code in (0x5000, 0x6000, 0x7000))
        bench.walked = bench.walked._replace(frames=frames)
        bench.made.run(bench.made.task("worker", bench.made.coroutine(0x6000, 0x6010, state=0)))
        tasks = bench.around()

        assert (tasks.behind, tasks.running, bench.results) == (2, "worker", ["read"])

    def test_all_frames_are_its_own_if_its_coroutine_is_not_among_them(self) -> None:
        """The innermost ones of a deep stack are walked."""
        bench = Bench()
        bench.walked = bench.walked._replace(status=PythonStatus.TRUNCATED)
        bench.made.run(bench.made.task("worker", bench.made.coroutine(0x6000, 0x6010, state=0)))

        assert bench.around().behind == 1

    def test_task_without_a_coroutine_of_python_is_there_as_well(self) -> None:
        bench = Bench()
        bench.made.run(bench.made.task("worker"))

        assert (bench.around().behind, bench.around().running) == (1, "worker")

    def test_those_that_wait_have_their_lines(self) -> None:
        bench = Bench()
        worker, main = bench.made.task("worker"), bench.made.task("main", bench.made.coroutine(0x6000, 33))
        bench.made.await_by(worker, main)
        bench.made.run(worker)

        assert bench.around().awaiting == (TaskAt("main", "at_6000 (serve.py:33)", -1),)


class TestWaiting:
    def test_tasks_with_equal_stacks_are_named_once(self) -> None:
        bench = Bench()
        naps = [bench.made.task(number, bench.made.coroutine(0x6000, 33)) for number in range(3)]
        bench.made.list(*naps, bench.made.task("main", bench.made.coroutine(0x7000, 44)))
        tasks = bench.around()

        assert tasks.waiting == (
            TasksAt(TaskAt("Task-0", "at_6000 (serve.py:33)"), 3),
            TasksAt(TaskAt("main", "at_7000 (serve.py:44)"), 1),
        )
        assert (tasks.total, len(bench.named_stacks)) == (4, 2)

    def test_eight_different_stacks_are_named(self) -> None:
        """Those that the most tasks have: here the last one."""
        bench = Bench()
        tasks = [
            bench.made.task(number, bench.made.coroutine(0x6000 + 16 * min(number, 11), 33)) for number in range(13)
        ]
        bench.made.list(*tasks)
        found = bench.around()

        assert (len(bench.named_stacks), len(found.waiting)) == (PLACES_MAX, PLACES_MAX)
        assert found.waiting[0] == TasksAt(TaskAt("Task-11", "at_60b0 (serve.py:33)"), 2)


class TestMoments:
    def test_thread_that_has_run_is_looked_at_again(self) -> None:
        """The stack is then the later one."""
        bench = Bench()
        bench.made.list(bench.made.task("nap"))
        later = bench.walked._replace(switches=8)
        bench.walks = [later, later, later]
        stack, tasks, has_gone_on = bench.tasks.around(4700, 4711, bench.stack(bench.walked))

        assert tasks is not None
        assert (stack.walked, bench.results, has_gone_on) == (later, ["read"], False)

    def test_thread_that_runs_all_the_time_is_given_up(self) -> None:
        bench = Bench()
        bench.walks = [bench.walked._replace(switches=number) for number in range(100, 120)]

        assert bench.around() is None
        assert (bench.results, len(bench.walks)) == (["changed"], 20 - 2 * TRIES_MAX)

    def test_thread_in_another_call_by_now_is_given_up(self) -> None:
        """Its stack is that of the call before: it may be taken again."""
        bench = Bench()
        bench.walks = [bench.walked._replace(opened_ns=5)] * 2
        stack = bench.stack(bench.walked)

        assert bench.tasks.around(4700, 4711, stack) == (stack, None, True)
        assert bench.results == ["changed"]

    def test_offsets_are_searched_once(self) -> None:
        """Also if the thread has gone on by the time they were found: to search them takes longer than to read the tasks."""
        bench = Bench()
        bench.made.list(bench.made.task("nap"))
        bench.walks = [bench.walked._replace(opened_ns=5)] * 2
        bench.around()
        bench.sections = []

        assert (bench.around().total, bench.results) == (1, ["changed", "read"])

    def test_offsets_that_are_elsewhere_by_now_are_searched_again(self) -> None:
        """A later process has the number of the first one."""
        bench = Bench()
        bench.made.list(bench.made.task("nap"))
        bench.around()
        former = bench.made.section
        bench.sections = [bench.memory.put(bench.memory(former, 104))]
        bench.memory.set_word(former, 0)

        assert (bench.around().total, bench.results) == (1, ["read", "read"])

    def test_thread_that_ended_is_given_up(self) -> None:
        bench = Bench()
        bench.walks = [None, None]

        assert (bench.around(), bench.results) == (None, ["changed"])

    def test_tasks_of_a_thread_that_computes_are_not_read(self) -> None:
        bench = Bench()
        bench.walked = bench.walked._replace(status=PythonStatus.RUNNING)

        assert (bench.around(), bench.results) == (None, [])


class TestRefusals:
    def test_older_interpreter_is_counted_where_there_is_an_event_loop(self) -> None:
        bench = Bench()
        assert bench.found is not None
        bench.found = bench.found._replace(version=(3, 11))

        assert (bench.around(), bench.around((STEP,)), bench.results) == (None, None, ["version"])

    def test_interpreter_that_is_not_known_is_not_counted(self) -> None:
        bench = Bench()
        bench.found = None

        assert (bench.around(), bench.results) == (None, [])

    def test_thread_without_an_event_loop_is_not_counted(self) -> None:
        bench = Bench()
        bench.made.memory.set_word(bench.made.state + LOOP, 0)

        assert (bench.around(), bench.results) == (None, [])

    def test_module_without_offsets_is_counted(self) -> None:
        """No section, one whose numbers cannot be right, and a process that has ended."""
        bench = Bench()
        bench.sections = []
        bench.around()
        bench.sections = [bench.made.state]
        bench.around()
        bench.is_gone = True
        bench.around()

        assert bench.results == ["offsets"] * 3

    def test_second_section_is_tried_if_the_first_one_is_none(self) -> None:
        """A process may map another module of that name."""
        bench = Bench()
        bench.made.list(bench.made.task("nap"))
        bench.sections = [bench.made.state, bench.made.section]

        assert (bench.around().total, bench.results) == (1, ["read"])

    def test_list_that_leads_nowhere_is_counted(self) -> None:
        bench = Bench()
        bench.made.memory.set_word(bench.made.state + TASKS, 0xDEAD_BEE8)

        assert (bench.around(), bench.results) == (None, ["unreadable"])


class TestRegisteredTasks:
    def test_running_task_has_its_frames_and_those_that_wait_for_it(self) -> None:
        bench = RegisteredBench()
        made = bench.made
        worker = made.task("worker", made.coroutine(0x5000, state=0))
        (instruction,) = (one.instruction for one in _frames_of(made, worker))
        frames = tuple(CodeFrame(code, instruction, 9) for code in (0x4000, 0x5000, 0x6000))
        bench.walked = bench.walked._replace(frames=frames)
        main = made.task("main", made.coroutine(0x6000), waits_for=worker)
        made.register(worker, main)
        made.run(worker)
        tasks = bench.around()

        assert (tasks.behind, tasks.running) == (2, "worker")
        assert [(one.name, one.place.partition(" ")[0]) for one in tasks.awaiting] == [("main", "at_6000")]
        assert bench.results == ["read"]

    def test_module_is_searched_once(self) -> None:
        """Then it is no longer found by its name."""
        bench = RegisteredBench()
        bench.made.register(bench.made.task("nap"))
        bench.around()
        bench.memory.set_word(bench.made.modules_at, bench.made.dict([]))

        assert (bench.around().total, bench.results) == (1, ["read", "read"])

    def test_module_that_is_another_one_by_now_is_searched_again(self) -> None:
        """A later process has the number of the first one: its module lies elsewhere."""
        bench = RegisteredBench()
        bench.around()
        made, former = bench.made, bench.made.module
        module = made.object(made.module_type, made.memory(former + 16, 64))
        made.register(made.task("nap"))
        made.memory.set_word(made.modules_at, made.dict([(made.text("_asyncio"), module)]))
        made.memory.set_word(former + 8, made.none_type)
        tasks = bench.around(), bench.around()

        assert bench.results == ["read", "offsets", "read"]
        assert (tasks[0], tasks[1].total) == (None, 1)

    def test_thread_without_an_event_loop_is_not_counted(self) -> None:
        bench = RegisteredBench()
        bench.made.run_loop(0)

        assert (bench.around(), bench.results) == (None, [])

    def test_interpreter_without_the_module_is_counted(self) -> None:
        bench = RegisteredBench()
        bench.memory.set_word(bench.made.modules_at, bench.made.dict([]))

        assert (bench.around(), bench.results) == (None, ["offsets"])

    def test_set_that_leads_nowhere_is_counted(self) -> None:
        bench = RegisteredBench()
        bench.memory.set_word(bench.made.registered + 40, 0xDEAD_BEE8)

        assert (bench.around(), bench.results) == (None, ["unreadable"])

    def test_thread_that_runs_all_the_time_is_given_up(self) -> None:
        bench = RegisteredBench()
        bench.walks = [bench.walked._replace(switches=number) for number in range(100, 120)]

        assert (bench.around(), bench.results) == (None, ["changed"])


def _frames_of(made: MadeRegistered, task: int) -> tuple[CodeAt, ...]:
    return TaskObjects(BoundedMemory(made.memory, 100), made.layout().objects, made.code()).task(task).frames
