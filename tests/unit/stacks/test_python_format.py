"""format: lines of Python among native functions."""

from __future__ import annotations

from exporter.python.call_site import CallStack, PythonFrame
from exporter.stacks.call_sites import SlowCalls
from exporter.stacks.format import PythonSection, format_stack, slow_call_line
from exporter.stacks.task_lines import TaskAt, TasksAt, TaskSection
from exporter.stacks.unwinding import Backtrace
from tests.support.call_site_rows import a_key, a_row
from tests.support.stacks import a_stack, frames

NAMES = {
    0x1000: "read+0xd (libc.so.6)",
    0x2000: "at::copy_+0x9 (libtorch_cpu.so)",
    0x3000: "cfunction_call+0x30 (libpython3.11.so.1.0)",
    0x4000: "main+0x9 (python3.11)",
}
FORWARD = PythonFrame("/opt/venv/lib/python3.11/site-packages/torch/nn/linear.py", "Linear.forward", 114)
STEP = PythonFrame("/srv/job/train.py", "Trainer.step", 142)
STACK = CallStack("/srv/job", (FORWARD, STEP))


def section(**changes: object) -> PythonSection:
    """Two frames of a job in /srv/job."""
    known = PythonSection(STACK, ("libpython3.11.so.1.0",), is_outer=False)
    return known._replace(**changes)  # type: ignore[arg-type]


def slow(calls: int = 23) -> SlowCalls:
    """Calls of cudaMalloc: 1.1 s in all, 50 ms at most."""
    return SlowCalls(a_key(), calls, 1_100_000_000, a_row())


class TestStack:
    def test_frames_of_python_stand_for_the_native_ones_of_the_interpreter(self) -> None:
        """Only the library's own functions between the call and Python remain."""
        assert format_stack(a_stack(), Backtrace((), frames(0x2000, 0x3000, 0x4000)), NAMES, section()) == (
            "thread 4711 (pt_main_thread) has been in cudaStreamSynchronize for 2.3 s, called by",
            "  at::copy_+0x9 (libtorch_cpu.so)",
            "  Linear.forward (torch/nn/linear.py:114)",
            "  Trainer.step (train.py:142)",
            "inside cudaStreamSynchronize it is at",
            "  read+0xd (libc.so.6)",
        )

    def test_native_function_between_python_functions_is_shown_there(self) -> None:
        """at::copy_ has called FORWARD and was called by STEP; the interpreter's own function runs both."""
        python = section(entries=(0x7210, 0x7410))
        lines = format_stack(a_stack(), Backtrace((), frames(0x3000, 0x2000, 0x3000, 0x4000)), NAMES, python)

        assert lines[1:4] == (
            "  Linear.forward (torch/nn/linear.py:114)",
            "  at::copy_+0x9 (libtorch_cpu.so)",
            "  Trainer.step (train.py:142)",
        )

    def test_native_function_is_shown_there_before_python_310_as_well(self) -> None:
        """Each Python function is run by one of the interpreter, which is known by its name."""
        names = NAMES | {0x3000: "_PyEval_EvalFrameDefault+0x30 (libpython3.11.so.1.0)"}
        python = section(objects=(0x500, 0x600), object_words={0x7280: 0x500, 0x7480: 0x600})
        lines = format_stack(a_stack(), Backtrace((), frames(0x3000, 0x2000, 0x3000, 0x4000)), names, python)

        assert lines[1:4] == (
            "  Linear.forward (torch/nn/linear.py:114)",
            "  at::copy_+0x9 (libtorch_cpu.so)",
            "  Trainer.step (train.py:142)",
        )

    def test_native_function_whose_place_is_not_known_is_left_out(self) -> None:
        names = NAMES | {0x3000: "_PyEval_EvalFrameDefault+0x30 (libpython3.11.so.1.0)"}
        python = section(objects=(0x500, 0x600), object_words={0x7280: 0x500})
        lines = format_stack(a_stack(), Backtrace((), frames(0x3000, 0x2000, 0x3000, 0x4000)), names, python)

        assert lines[1:3] == ("  Linear.forward (torch/nn/linear.py:114)", "  Trainer.step (train.py:142)")

    def test_list_of_both_is_truncated_after_48_functions(self) -> None:
        python = section(stack=CallStack("/srv/job", (STEP,) * 50), entries=(0x7210,) * 50)
        lines = format_stack(a_stack(), Backtrace((), frames(0x3000, 0x3000)), NAMES, python)

        assert (lines[48], lines[49]) == ("  Trainer.step (train.py:142)", "  and 2 more")

    def test_thread_outside_of_calls_shows_both_in_one_list(self) -> None:
        lines = format_stack(a_stack(), Backtrace(frames(0x3000), ()), NAMES, section())

        assert lines[1:] == (
            "  read+0xd (libc.so.6)",
            "  Linear.forward (torch/nn/linear.py:114)",
            "  Trainer.step (train.py:142)",
        )

    def test_thread_without_python_shows_where_the_thread_is_that_waits_for_it(self) -> None:
        """As one of autograd, which the main thread gives its work."""
        lines = format_stack(a_stack(), Backtrace((), frames(0x2000, 0x4000)), NAMES, section(waiting_tid=4700))

        assert lines[1:5] == (
            "  at::copy_+0x9 (libtorch_cpu.so)",
            "  main+0x9 (python3.11)",
            "it runs no Python function; the main thread, which has given it its work and waits since then, is at",
            "  Linear.forward (torch/nn/linear.py:114)",
        )

    def test_waiting_thread_that_is_not_the_main_thread_has_its_number(self) -> None:
        lines = format_stack(a_stack(), Backtrace((), frames(0x2000)), NAMES, section(waiting_tid=4712))

        assert (
            lines[2]
            == "it runs no Python function; thread 4712, which has given it its work and waits since then, is at"
        )

    def test_thread_that_runs_shows_only_what_did_not_change(self) -> None:
        lines = format_stack(
            a_stack(),
            Backtrace((), frames(0x3000)),
            NAMES,
            section(stack=CallStack("/srv/job", (STEP,)), is_outer=True),
        )

        assert lines[1:3] == ("  Python functions that change, called by", "  Trainer.step (train.py:142)")

    def test_list_is_truncated_after_24_frames_of_python(self) -> None:
        lines = format_stack(
            a_stack(), Backtrace((), frames(0x3000)), NAMES, section(stack=CallStack("/srv/job", (STEP,) * 30))
        )

        assert (lines[24], lines[25]) == ("  Trainer.step (train.py:142)", "  and 6 more of Python")


SERVE = "Server.serve (serve.py:33)"
AWAITED = TaskSection(1, "worker", (TaskAt("main", SERVE),), (), 0, is_cut=False)
"""FORWARD runs in a task for which another one waits; STEP is outside of both."""


class TestTasks:
    def test_tasks_that_wait_stand_behind_the_functions_of_the_one_that_runs(self) -> None:
        lines = format_stack(a_stack(), Backtrace((), frames(0x2000, 0x3000, 0x4000)), NAMES, section(tasks=AWAITED))

        assert lines[1:7] == (
            "  at::copy_+0x9 (libtorch_cpu.so)",
            "  Linear.forward (torch/nn/linear.py:114)",
            "  in task worker",
            f"  awaited by task main at {SERVE}",
            "  Trainer.step (train.py:142)",
            "inside cudaStreamSynchronize it is at",
        )

    def test_they_do_so_among_native_functions(self) -> None:
        python = section(entries=(0x7210, 0x7410), tasks=AWAITED)
        lines = format_stack(a_stack(), Backtrace((), frames(0x3000, 0x2000, 0x3000, 0x4000)), NAMES, python)

        assert lines[1:6] == (
            "  Linear.forward (torch/nn/linear.py:114)",
            "  in task worker",
            f"  awaited by task main at {SERVE}",
            "  at::copy_+0x9 (libtorch_cpu.so)",
            "  Trainer.step (train.py:142)",
        )

    def test_they_are_behind_the_last_function_that_is_shown(self) -> None:
        """24 of 30, all of the task."""
        python = section(stack=CallStack("/srv/job", (STEP,) * 30), tasks=AWAITED._replace(behind=30))
        lines = format_stack(a_stack(), Backtrace((), frames(0x3000)), NAMES, python)

        assert lines[24:28] == (
            "  Trainer.step (train.py:142)",
            "  in task worker",
            f"  awaited by task main at {SERVE}",
            "  and 6 more of Python",
        )

    def test_where_none_runs_those_that_wait_come_last(self) -> None:
        waiting = TaskSection(0, None, (), (TasksAt(TaskAt("main", SERVE), 1),), 1, is_cut=False)
        lines = format_stack(a_stack(), Backtrace((), frames(0x3000)), NAMES, section(tasks=waiting))

        assert lines[-3:] == (
            "  read+0xd (libc.so.6)",
            "no task runs; 1 task waits:",
            f"  task main at {SERVE}",
        )


class TestSlowCalls:
    def test_line_has_the_time_the_calls_and_the_place(self) -> None:
        assert slow_call_line(slow(), STACK) == (
            "  cudaMalloc: 1.1 s in 23 slow calls, 0.05 s at most, from Trainer.step (train.py:142)"
            " through Linear.forward (torch/nn/linear.py:114)"
        )

    def test_one_call_is_no_plural(self) -> None:
        assert "1.1 s in 1 slow call, 0.05 s at most" in slow_call_line(slow(1), STACK)
