"""task_lines: tasks of asyncio as text for a person."""

from __future__ import annotations

from exporter.stacks.task_lines import TaskAt, TasksAt, TaskSection, awaiting_lines, most_common, waiting_lines


def awaited(*awaiting: TaskAt, running: str = "worker", is_cut: bool = False) -> tuple[str, ...]:
    """Lines about a task that runs."""
    return awaiting_lines(TaskSection(3, running, awaiting, (), 0, is_cut=is_cut))


def waiting(total: int, *tasks: TasksAt, is_cut: bool = False) -> tuple[str, ...]:
    """Lines about tasks while none runs."""
    return waiting_lines(TaskSection(0, None, (), tasks, total, is_cut=is_cut))


class TestAwaiting:
    def test_task_that_runs_is_named_without_others_as_well(self) -> None:
        assert awaited() == ("  in task worker",)

    def test_each_waits_for_the_one_before_it(self) -> None:
        assert awaited(TaskAt("fetch", "fetch (app.py:7)"), TaskAt("main", "main (app.py:20)", 0)) == (
            "  in task worker",
            "  awaited by task fetch at fetch (app.py:7)",
            "  awaited by task main at main (app.py:20)",
        )

    def test_one_that_waits_for_an_earlier_one_says_for_which(self) -> None:
        """first and second wait for the task that runs, third for first."""
        lines = awaited(TaskAt("first", "a (a.py:1)"), TaskAt("third", "c (a.py:3)", 0), TaskAt("second", "b (a.py:2)"))

        assert lines[1:] == (
            "  awaited by task first at a (a.py:1)",
            "  awaited by task third at c (a.py:3)",
            "  task worker also awaited by task second at b (a.py:2)",
        )

    def test_one_that_waits_beside_another_says_for_which(self) -> None:
        lines = awaited(TaskAt("first", ""), TaskAt("second", "", 0), TaskAt("third", "", 0))

        assert lines[3] == "  task first also awaited by task third"

    def test_task_without_a_name_or_a_line_is_there_as_well(self) -> None:
        assert awaited(TaskAt("", ""), TaskAt("", "f (a.py:1)", -1), running="") == (
            "  in a task",
            "  awaited by a task",
            "  a task also awaited by a task at f (a.py:1)",
        )

    def test_more_are_mentioned(self) -> None:
        assert awaited(TaskAt("fetch", ""), is_cut=True)[-1] == "  and more"

    def test_there_are_none_while_no_task_runs(self) -> None:
        assert awaiting_lines(TaskSection(0, None, (), (), 3, is_cut=False)) == ()


class TestWaiting:
    def test_tasks_at_a_line_are_counted(self) -> None:
        lines = waiting(24, TasksAt(TaskAt("nap", "sleep (a.py:9)"), 23), TasksAt(TaskAt("main", "main (a.py:20)"), 1))

        assert lines == (
            "no task runs; 24 tasks wait:",
            "  23 tasks, such as task nap at sleep (a.py:9)",
            "  task main at main (a.py:20)",
        )

    def test_others_are_counted(self) -> None:
        assert waiting(7, TasksAt(TaskAt("nap", "sleep (a.py:9)"), 3))[-1] == "  and 4 more"

    def test_more_than_were_counted_are_at_least_so_many(self) -> None:
        assert waiting(512, is_cut=True)[0] == "no task runs; at least 512 tasks wait:"

    def test_one_is_no_plural(self) -> None:
        assert waiting(1, TasksAt(TaskAt("main", ""), 1)) == ("no task runs; 1 task waits:", "  task main")

    def test_event_loop_without_tasks_has_no_line(self) -> None:
        assert waiting(0) == ()

    def test_there_are_none_while_a_task_runs(self) -> None:
        assert waiting_lines(TaskSection(3, "worker", (), (), 0, is_cut=False)) == ()


class TestMostCommon:
    def test_lines_with_the_most_tasks_are_first(self) -> None:
        """Three at b, two at a, one at c; two lines are wanted."""
        tasks = [TaskAt(name, name[0]) for name in ("a1", "b1", "a2", "c1", "b2", "b3")]

        assert most_common(tasks, 2) == (TasksAt(TaskAt("b1", "b"), 3), TasksAt(TaskAt("a1", "a"), 2))
