"""The exporter starts while eight threads are inside calls: their time before is unknown, and not booked."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.config.probes import AttachKind
from exporter.kernel.abi import OPERATION_NONE, ThreadState
from exporter.kernel.thread_rows import ThreadRow
from tests.support import accounts
from tests.support.patience import line_of
from tests.support.traced import Run, Tracer, eventually, tracer

SOURCE = Path(__file__).with_name("late.c")
THREADS = 8
READ = {"x86_64": 0, "aarch64": 63}
"""The number of read(2)."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled program."""
    return accounts.compiled(SOURCE, tmp_path_factory.mktemp("late"))


class _Late:
    """The program, with its threads inside their calls."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.inside = THREADS
        assert self._line() == "inside"
        self._await_readers(self.inside)

    def _line(self) -> str:
        return line_of(self._process).strip()

    def _await_readers(self, threads: int) -> None:
        """Until this many threads sleep in their calls, and the main thread in its own read(2)."""
        tasks = Path(f"/proc/{self._process.pid}/task")
        reading = f"{READ[platform.machine()]} "
        eventually(
            lambda: sum(file.read_text().startswith(reading) for file in tasks.glob("*/syscall")) == threads + 1,
            f"{threads} threads are inside their calls",
        )

    def let_return(self, threads: int) -> None:
        """This many threads leave their call, and make six more."""
        assert self._process.stdin is not None
        self._process.stdin.write("x" * threads)
        self._process.stdin.flush()
        assert [self._line() for _ in range(threads)] == ["returned"] * threads
        self.inside -= threads
        if self.inside:
            self._await_readers(self.inside)


@pytest.fixture
def traced(attach_kind: AttachKind) -> Iterator[Tracer]:
    """All programs, attached to nothing yet."""
    with tracer(attach_kind) as found:
        yield found


@pytest.fixture
def late(program: Path) -> Iterator[_Late]:
    with subprocess.Popen(
        [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            yield _Late(process)
        finally:
            process.kill()


class TestLateStart:
    """For every attachment kind."""

    def test_calls_that_began_before_are_not_counted(self, traced: Tracer, late: _Late, program: Path) -> None:
        """Eight returns without an entry; then five records and a launch of each thread."""
        accounts.probe(traced, program)
        late.let_return(THREADS)
        run = Run([], traced.tables.read(), traced.drops())

        assert run.counts() == {"cudaEventRecord": 5 * THREADS, "cudaLaunchKernel": THREADS}
        assert run.drops == {}

    def test_state_since_before_the_start_is_unknown(self, traced: Tracer, late: _Late, program: Path) -> None:
        """One thread makes calls; the seven inside their calls have no known state and no open call."""
        accounts.probe(traced, program)
        late.let_return(1)
        traced.kernel.iterate("threads_adopt")
        threads = accounts.read(traced, {}).accounts.threads
        inside = [thread for thread in threads if not thread.calls]

        assert len(inside) == THREADS - 1 + 1  # and the main thread
        assert {thread.operation for thread in inside} == {OPERATION_NONE}
        assert {state for thread in inside for state in _booked(thread)} == {ThreadState.OTHER}

    def test_time_of_a_call_that_began_before_is_no_gpu_wait(self, traced: Tracer, late: _Late, program: Path) -> None:
        """From the adoption on every nanosecond is booked, but none to a call that began before."""
        accounts.probe(traced, program)
        late.let_return(1)
        traced.kernel.iterate("threads_adopt")
        late.let_return(THREADS - 1)
        account = accounts.read(traced, {})
        booked = {state for thread in account.accounts.threads for state in _booked(thread)}

        assert ThreadState.GPU_WAIT not in booked
        assert account.feeding.waits == 0


def _booked(thread: ThreadRow) -> set[ThreadState]:
    return {state for state in ThreadState if thread.booked_ns[state]}
