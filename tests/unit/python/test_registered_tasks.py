"""python.registered_tasks: the tasks of an event loop of 3.12 and 3.13, in memory that is made."""

from __future__ import annotations

import pytest

from exporter.errors import NotReadable
from exporter.python.registered_tasks import COUNTED_MAX, READS_MAX, registered_tasks
from exporter.python.task_objects import ThreadTasks
from tests.unit.python.made_registered import MadeRegistered

DONE = 2


@pytest.fixture(params=[(3, 12), (3, 13)], ids=["3.12", "3.13"])
def made(request: pytest.FixtureRequest) -> MadeRegistered:
    """A thread that runs an event loop without tasks."""
    return MadeRegistered(request.param)


def waiting(made: MadeRegistered) -> set[str]:
    found = made.found()
    assert found.running is None
    assert found.total == len(found.waiting)
    return {one.name for one in found.waiting}


def awaiting(made: MadeRegistered) -> list[tuple[str, int]]:
    return [(one.task.name, one.waits_for) for one in made.found().awaiting]


class TestThread:
    @pytest.mark.parametrize("is_none", [False, True])
    def test_thread_without_an_event_loop_has_none(self, made: MadeRegistered, is_none: bool) -> None:
        """It never had one, or it has ended: then there is None instead."""
        made.run_loop(made.none if is_none else 0)

        assert made.tasks() is None

    def test_thread_without_a_dict_has_none(self) -> None:
        made = MadeRegistered((3, 12))
        made.memory.set_word(made.state + 112, 0)

        assert made.tasks() is None

    def test_event_loop_without_tasks_has_none_that_waits(self, made: MadeRegistered) -> None:
        assert made.found() == ThreadTasks(None, (), (), 0, is_cut=False)


class TestWaiting:
    def test_those_of_the_event_loop_that_are_not_done_wait(self, made: MadeRegistered) -> None:
        """Not one that is done, not that of another event loop, and not one that is no more."""
        others = made.task("done", state=DONE), made.task("elsewhere", loop=made.none)
        made.register(made.task("fetch"), *others, made.none, made.task("main"))

        assert waiting(made) == {"fetch", "main"}

    def test_task_of_a_derived_type_is_one(self, made: MadeRegistered) -> None:
        own = made.type("OwnTask", base=made.task_type)
        made.register(made.task("fetch", kind=own), made.task("none", kind=made.future_type))

        assert waiting(made) == {"fetch"}

    def test_types_whose_bases_have_no_end_are_no_tasks(self, made: MadeRegistered) -> None:
        endless = made.type("Endless")
        made.memory.set_word(endless + 256, endless)
        made.register(made.task("none", kind=endless))

        assert waiting(made) == set()

    def test_all_are_counted_and_64_are_read(self, made: MadeRegistered) -> None:
        made.register(*(made.task(str(number)) for number in range(100)), size=512)
        found = made.found()

        assert (len(found.waiting), found.total, found.is_cut) == (64, 100, False)

    def test_more_than_512_are_cut(self, made: MadeRegistered) -> None:
        """Each of 16 coroutines; some thousand reads are enough."""
        own = made.coroutine(0x6000)
        made.memory.set_word(own + 72 + 72 + 16, own)
        made.register(*(made.task("load", own) for _ in range(600)), size=1024)
        layout, code = made.layout(), made.code()
        before = made.memory.reads
        found = registered_tasks(made.memory, layout, code, made.loop, made.module)
        assert found is not None

        assert (found.total, found.is_cut) == (COUNTED_MAX, True)
        assert [len(one.frames) for one in found.waiting] == [16] * 64
        assert made.memory.reads - before < READS_MAX


class TestRunning:
    def test_it_is_that_of_the_event_loop(self, made: MadeRegistered) -> None:
        worker = made.task("worker", made.coroutine(0x7000, state=0))
        made.register(worker, made.task("fetch"))
        made.run(worker)
        found = made.found()
        assert found.running is not None

        assert (found.running.name, [frame.code for frame in found.running.frames]) == ("worker", [0x7000])
        assert (found.awaiting, found.waiting) == ((), ())

    def test_task_of_another_event_loop_is_not(self, made: MadeRegistered) -> None:
        made.register(made.task("fetch"))
        made.run()

        assert waiting(made) == {"fetch"}

    def test_object_that_is_no_task_is_refused(self, made: MadeRegistered) -> None:
        made.run(made.none)

        with pytest.raises(NotReadable):
            made.tasks()

    def test_those_that_wait_for_it_are_behind_it(self, made: MadeRegistered) -> None:
        """Two wait for it, one for one of them, one for a future that is no task."""
        worker = made.task("worker")
        first, second = made.task("first", waits_for=worker), made.task("second", waits_for=worker)
        third, fourth = made.task("third", waits_for=first), made.task("fourth", waits_for=made.none)
        made.register(worker, first, second, third, fourth)
        made.run(worker)

        assert awaiting(made) == [("first", -1), ("third", 0), ("second", -1)]

    def test_tasks_that_wait_for_each_other_are_given_once(self, made: MadeRegistered) -> None:
        worker = made.task("worker")
        other = made.task("other", waits_for=worker)
        made.memory.set_word(worker + made.waiter_at, other)
        made.register(worker, other)
        made.run(worker)

        assert awaiting(made) == [("other", -1)]

    def test_eight_are_given(self, made: MadeRegistered) -> None:
        worker = made.task("worker")
        made.register(worker, *(made.task("other", waits_for=worker) for _ in range(9)), size=16)
        made.run(worker)

        assert awaiting(made) == [("other", -1)] * 8
        assert made.found().is_cut


class TestRefusals:
    def test_task_of_another_size_is_that_of_another_version(self, made: MadeRegistered) -> None:
        made.memory.set_word(made.task_type + 32, made.task_bytes + 8)

        assert made.tasks() is None

    def test_module_of_another_name_is_not_asked(self, made: MadeRegistered) -> None:
        layout, code = made.layout(), made.code()
        made.memory.set_word(made.module + 48, made.text("_asyncia"))

        assert registered_tasks(made.memory, layout, code, made.loop, made.module) is None

    @pytest.mark.parametrize("address", ["loop", "none", "task_type"])
    def test_object_that_is_no_module_is_not_asked(self, made: MadeRegistered, address: str) -> None:
        layout, code = made.layout(), made.code()
        made.memory.set_word(made.task_type + 8, made.set_type)

        assert registered_tasks(made.memory, layout, code, made.loop, getattr(made, address)) is None

    def test_module_without_tasks_is_not_asked(self, made: MadeRegistered) -> None:
        made.memory.set_word(made.module + 16, made.dict([(made.text("Task"), made.task_type)]))

        assert made.tasks() is None

    def test_interpreter_without_the_module_has_no_tasks(self, made: MadeRegistered) -> None:
        made.memory.set_word(made.modules_at, made.dict([(made.text("asyncio"), made.module)]))

        assert made.tasks() is None

    @pytest.mark.parametrize("name", ["registered", "weak_set", "current"])
    def test_object_of_another_type_is_refused(self, made: MadeRegistered, name: str) -> None:
        made.memory.set_word(getattr(made, name) + 8, made.text_type)

        with pytest.raises(NotReadable):
            made.tasks()

    def test_entry_that_is_no_reference_is_refused(self, made: MadeRegistered) -> None:
        made.register(made.task("fetch"))
        made.memory.set_word(made.reference_type + 24, made.memory.put(b"weakproxy\0"))

        with pytest.raises(NotReadable):
            made.tasks()

    def test_set_of_a_hundred_thousand_is_refused(self, made: MadeRegistered) -> None:
        made.memory.set_word(made.registered + 32, (1 << 18) - 1)

        with pytest.raises(NotReadable):
            made.tasks()

    def test_set_whose_attributes_are_in_a_dict_is_refused(self, made: MadeRegistered) -> None:
        """The program has read its `__dict__`, or given it other attributes."""
        if made.is_312:
            made.memory.set_word(made.weak_set - 24, made.dict([]))
        else:
            made.memory.set_word(made.weak_set + 16, 0)

        with pytest.raises(NotReadable):
            made.tasks()
