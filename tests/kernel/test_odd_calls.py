"""Calls that end in unusual ways: every call that returned is counted once."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from exporter.config.probes import AttachKind
from exporter.kernel.abi import Api, EventKind
from exporter.kernel.events import event_of
from tests.support.traced import Run, Tracer, tracer

SOURCE = Path(__file__).with_name("odd_calls.c")
FUNCTIONS = ("cudaEventRecord", "cudaStreamSynchronize", "cudaLaunchKernel", "cudaMemcpy")

Odd = Callable[..., Run]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled program."""
    found = tmp_path_factory.mktemp("odd") / "odd_calls"
    subprocess.run(["cc", "-O2", "-Wall", "-Werror", "-rdynamic", SOURCE, "-o", found], check=True)
    return found


@pytest.fixture(params=[AttachKind.SESSION, AttachKind.MULTI])
def traced(request: pytest.FixtureRequest, program: Path) -> Iterator[Tracer]:
    """Probes on the program's own functions."""
    with tracer(request.param) as found:
        found.attach(Api.RUNTIME, program, FUNCTIONS)
        found.attach(Api.DRIVER, program, ("cuLaunchKernel",))
        yield found


@pytest.fixture
def odd(traced: Tracer, program: Path) -> Odd:
    """Runs the program to its end."""

    def run(way: str, times: int = 1) -> Run:
        subprocess.run([program, way, str(times)], check=True, timeout=60)
        return Run([], traced.tables.read(), traced.drops())

    return run


class TestOddCalls:
    """With session links and with uprobe_multi links."""

    def test_calls_left_by_longjmp_are_counted_as_abandoned(self, odd: Odd) -> None:
        """23 jumps out of a call, each followed by a plain call."""
        run = odd("longjmp", 23)

        assert run.counts() == {"cudaEventRecord": 23}
        assert run.drops == {"cuda abandoned": 23}

    def test_calls_nested_deeper_than_four_are_dropped(self, odd: Odd) -> None:
        """Six nested calls: the outer four are recorded."""
        run = odd("recurse", 5)

        assert run.counts() == {"cudaStreamSynchronize": 4 * 5}
        assert run.drops == {"cuda nesting": 2 * 5}

    def test_child_of_a_fork_inside_a_call_closes_no_call(self, odd: Odd) -> None:
        """23 forks: parent and child both return through the call; it counts once, for the parent."""
        run = odd("fork", 23)

        assert run.counts() == {"cudaStreamSynchronize": 23}
        assert len(run.reading.processes) == 1
        assert run.drops == {}

    def test_exit_inside_a_call_counts_the_calls_before(self, odd: Odd) -> None:
        """The call that never returns is in no histogram."""
        run = odd("exit")

        assert run.counts() == {"cudaEventRecord": 1}

    def test_a_tail_call_into_the_driver_is_nested(self, odd: Odd) -> None:
        """Both have the same stack pointer; the driver's is counted without time, the runtime's with it."""
        run = odd("tail", 23)

        assert run.counts() == {"cudaLaunchKernel": 23, "cuLaunchKernel": 23}
        assert (run.row("cuLaunchKernel").timed, run.row("cudaLaunchKernel").timed) == (0, 23)

    def test_a_call_in_a_signal_handler_inside_a_call_counts_both(self, odd: Odd) -> None:
        """The handler's call is inside the interrupted one."""
        run = odd("signal", 23)

        assert run.counts() == {"cudaMemcpy": 23, "cudaEventRecord": 23}
        assert run.drops == {}


class TestProcesses:
    """Process numbers."""

    def test_exec_begins_a_new_process_with_the_same_tgid(self, traced: Tracer, odd: Odd) -> None:
        """One call before exec, 23 after it: two processes, one tgid."""
        run = odd("exec")

        calls = sorted(row.calls for row in run.reading.operations.values())

        assert calls == [1, 23]
        assert len({process.tgid for process in run.reading.processes.values()}) == 1
        assert len(run.reading.processes) == 2

    def test_start_exec_and_exit_are_events(self, traced: Tracer, odd: Odd) -> None:
        """Tracked, ended by exec, tracked again, ended by exit, each with its process number."""
        records: list[bytes] = []
        ring = traced.kernel.open_events(records)
        try:
            odd("exec")
            ring.consume()
        finally:
            ring.close()

        events = [(event.kind, event.process) for event in map(event_of, records)]

        assert events == [
            (EventKind.PROCESS_TRACKED, 1),
            (EventKind.PROCESS_ENDED, 1),
            (EventKind.PROCESS_TRACKED, 2),
            (EventKind.PROCESS_ENDED, 2),
        ]

    def test_forget_deletes_rows_of_one_process(self, traced: Tracer, odd: Odd) -> None:
        """Two runs; the rows of the second stay."""
        odd("plain", 23)
        odd("plain", 5)
        traced.tables.forget({1}, traced.tables.read())

        reading = traced.tables.read()

        assert list(reading.processes) == [2]
        assert [row.calls for row in reading.operations.values()] == [5]
