"""call_timeout: a call that hangs is abandoned with its thread; the next one runs in another."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from exporter.gpu.call_timeout import BeforeCall, CallThreads, CallTimedOut, Stopping
from tests.support.gpus import Clock, Held
from tests.support.patience import PATIENCE_SECONDS


@pytest.fixture
def held() -> Iterator[Held]:
    """An event that hanging calls wait for; set at the end."""
    event = Held()
    yield event
    event.release()


@pytest.fixture
def threads(held: Held) -> Iterator[CallThreads]:
    """Time passes only while a call hangs."""
    clock = Clock(held)
    found = CallThreads(clock, clock.wait)
    yield found
    found.stop()


def current_thread(before_call: BeforeCall) -> threading.Thread:
    before_call("nvmlInit")
    return threading.current_thread()


class TestRun:
    def test_result_is_returned(self, threads: CallThreads) -> None:
        assert threads.run(lambda _: 23, 1.0) == 23

    def test_exception_is_raised_in_the_caller(self, threads: CallThreads) -> None:
        def fail(_: BeforeCall) -> None:
            raise ValueError("no handle")

        with pytest.raises(ValueError, match="no handle"):
            threads.run(fail, 1.0)

    def test_calls_share_one_thread(self, threads: CallThreads) -> None:
        first, second = (threads.run(current_thread, 1.0) for _ in range(2))

        assert first is second
        assert first is not threading.current_thread()


class TestTimeout:
    def test_error_names_the_function_and_the_timeout(self, threads: CallThreads, held: Held) -> None:
        def hang(before_call: BeforeCall) -> None:
            before_call("nvmlDeviceGetUUID")
            held.wait()

        with pytest.raises(CallTimedOut) as caught:
            threads.run(hang, 2.0)

        assert str(caught.value) == "NVML call nvmlDeviceGetUUID timed out after 2 s; skipped until it returns"

    def test_next_call_has_another_thread(self, threads: CallThreads, held: Held) -> None:
        before = threads.run(current_thread, 1.0)
        with pytest.raises(CallTimedOut):
            threads.run(lambda _: held.wait(), 1.0)

        assert threads.run(current_thread, 1.0) is not before

    def test_each_driver_call_has_the_whole_timeout(self, held: Held) -> None:
        """Two calls of 0.75 s each with a timeout of 1 s."""
        clock = Clock(held)
        threads = CallThreads(clock, clock.wait)

        def two_calls(before_call: BeforeCall) -> int:
            for function in ("nvmlDeviceGetName", "nvmlDeviceGetUUID"):
                before_call(function)
                clock.pass_seconds(0.75)
            return 23

        assert threads.run(two_calls, 1.0) == 23
        threads.stop()

    def test_abandoned_function_makes_no_further_call(self, threads: CallThreads, held: Held) -> None:
        made: list[str] = []

        def hang_then_call(before_call: BeforeCall) -> None:
            before_call("nvmlDeviceGetName")
            held.wait()
            before_call("nvmlDeviceGetUUID")
            made.append("nvmlDeviceGetUUID")

        with pytest.raises(CallTimedOut) as caught:
            threads.run(hang_then_call, 1.0)
        held.release()
        assert caught.value.hung.changed.wait(PATIENCE_SECONDS)

        assert (caught.value.hung.has_returned, made) == (True, [])


class TestStop:
    def test_run_after_stop_does_not_wait_for_a_hanging_call(self, threads: CallThreads, held: Held) -> None:
        threads.stop()

        with pytest.raises(Stopping):
            threads.run(lambda _: held.wait(), 1.0)
