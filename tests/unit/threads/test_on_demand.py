"""on_demand: a thread that exists while there is work."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from exporter.threads.on_demand import OnDemandThread
from tests.support.patience import PATIENCE_SECONDS
from tests.support.traced import eventually

NAME = "under test"


def is_running() -> bool:
    return any(thread.name == NAME for thread in threading.enumerate())


class Held:
    """Work that has begun and goes on until the end of the test, or until go_on()."""

    def __init__(self) -> None:
        self._begun, self._may_end = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self._begun.set()
        self._may_end.wait(PATIENCE_SECONDS)

    def has_begun(self) -> bool:
        return self._begun.is_set()

    def go_on(self) -> None:
        self._may_end.set()


@pytest.fixture
def held() -> Iterator[Held]:
    work = Held()
    yield work
    work.go_on()


def test_work_is_done_in_order() -> None:
    done: list[int] = []
    thread = OnDemandThread(NAME, 3)
    for number in range(3):
        thread.run(lambda number=number: done.append(number))  # type: ignore[misc]

    assert eventually(lambda: len(done) == 3 and done, "all is done") == [0, 1, 2]


def test_work_is_refused_while_too_much_waits(held: Held) -> None:
    """One piece has begun, two wait."""
    thread = OnDemandThread(NAME, 2)
    thread.run(held)
    eventually(held.has_begun, "it has begun")

    assert [thread.run(lambda: None) for _ in range(3)] == [True, True, False]


def test_thread_ends_without_work_and_comes_back(held: Held) -> None:
    """Each time it says that it is idle."""
    idle: list[str] = []
    thread = OnDemandThread(NAME, 1, lambda: idle.append("idle"))
    for times in (1, 2):
        thread.run(lambda: None)
        eventually(lambda times=times: len(idle) == times and not is_running(), "it has ended")  # type: ignore[misc]


def test_work_after_a_failure_is_done(caplog: pytest.LogCaptureFixture) -> None:
    """The failure is logged under the thread's name."""
    done: list[str] = []
    thread = OnDemandThread(NAME, 2)
    thread.run(lambda: next(iter([])))
    eventually(lambda: not is_running(), "it has failed")
    thread.run(lambda: done.append("done"))
    eventually(lambda: done, "the next one is done")

    assert [record.getMessage() for record in caplog.records] == ["under test: failed: internal error (bug)"]


def test_work_that_waits_is_dropped_at_the_end(held: Held) -> None:
    """What has begun is waited for."""
    done: list[str] = []
    thread = OnDemandThread(NAME, 2)
    thread.run(held)
    thread.run(lambda: done.append("late"))
    eventually(held.has_begun, "the first one has begun")
    thread.close()
    held.go_on()
    thread.join()

    assert not is_running()
    assert done == []
