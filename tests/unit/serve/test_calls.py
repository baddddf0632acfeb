"""Calls in processes of their own: answers, failures, ends."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from exporter.fleet.asking import AT_ONCE_MAX
from exporter.history.scope import EVERYTHING
from exporter.serve import calls as module
from exporter.serve.calls import Calls, Failed
from exporter.serve.dispatcher import Dispatcher
from exporter.serve.tools.failure import StatusKind
from exporter.serve.work import ANSWERED, CallRequest

# The process that starts others is copied before a program of its own has threads; pytest's workers have some.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")

A_CALL = CallRequest("explain", {}, EVERYTHING)
SECONDS = 20.0


@contextmanager
def dispatching(work: Callable[[bytes], Iterable[bytes]], seconds: float = SECONDS) -> Iterator[Dispatcher]:
    dispatcher = Dispatcher.started(work, seconds)
    try:
        yield dispatcher
    finally:
        dispatcher.close()


def outcomes(work: Callable[[bytes], Iterable[bytes]], count: int = 1, seconds: float = SECONDS) -> list[Any]:
    """Documents or failures of so many calls at once."""

    async def asked() -> list[Any]:
        calls = Calls(dispatcher, seconds)
        return await asyncio.gather(*(calls.document(A_CALL) for _ in range(count)), return_exceptions=True)

    with dispatching(work, seconds) as dispatcher:
        return asyncio.run(asked())


def kind_of(failed: Any) -> StatusKind:
    assert isinstance(failed, Failed)
    return failed.failure.kind


class TestDocument:
    def test_frames_are_one_document(self) -> None:
        def work(_request: bytes) -> Iterator[bytes]:
            yield from (ANSWERED, b'{"a":', b"1}")

        assert outcomes(work) == [{"a": 1}]

    def test_request_arrives_as_it_was(self) -> None:
        def work(request: bytes) -> Iterator[bytes]:
            yield ANSWERED
            yield b'"as it was"' if CallRequest.decoded(request) == A_CALL else b'"changed"'

        assert outcomes(work) == ["as it was"]

    def test_failure_keeps_kind_message_and_remedy(self) -> None:
        def work(_request: bytes) -> Iterator[bytes]:
            yield b'{"error":{"kind":"bad_input","status":400,"message":"no","remedy":"yes"}}'

        (failed,) = outcomes(work)

        assert failed.failure == (StatusKind.BAD_INPUT, "no", "yes")

    def test_process_that_ends_early_is_an_internal_failure(self) -> None:
        def work(_request: bytes) -> Iterator[bytes]:
            yield ANSWERED
            os._exit(3)

        assert [kind_of(one) for one in outcomes(work)] == [StatusKind.INTERNAL]

    def test_call_that_never_ends_is_ended(self) -> None:
        def work(_request: bytes) -> Iterator[bytes]:
            while True:
                time.sleep(1)
            yield b""

        began = time.monotonic()
        found = outcomes(work, seconds=0.3)

        assert [kind_of(one) for one in found] == [StatusKind.TOO_SLOW]
        assert time.monotonic() - began >= 0.3

    def test_peer_that_closes_its_connection_does_not_end_the_call(self) -> None:
        """Some other one, such as a node: to write to it is an error, and no signal."""

        def work(_request: bytes) -> Iterator[bytes]:
            ours, theirs = socket.socketpair()
            theirs.close()
            with ours, suppress(BrokenPipeError):
                os.write(ours.fileno(), b"request")
            yield from (ANSWERED, b'"goes on"')

        assert outcomes(work) == ["goes on"]

    def test_memory_is_bounded(self) -> None:
        def work(_request: bytes) -> Iterator[bytes]:
            try:
                held = [bytes(1 << 20) for _ in range(1024)]
            except MemoryError:
                held = []
            yield ANSWERED
            yield b'"refused"' if not held else b'"had it"'

        assert outcomes(work) == ["refused"]

    def test_call_has_a_thread_for_each_of_many_nodes(self) -> None:
        """All of them at once, within the limit of its memory."""

        def work(_request: bytes) -> Iterator[bytes]:
            is_over = threading.Event()
            threads = [threading.Thread(target=is_over.wait) for _ in range(AT_ONCE_MAX)]
            for one in threads:
                one.start()
            is_over.set()
            yield ANSWERED
            yield str(len(threads)).encode()

        assert outcomes(work) == [512]

    def test_more_than_may_wait_are_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "WAITING_MAX", 2)

        def work(_request: bytes) -> Iterator[bytes]:
            yield from (ANSWERED, b"1")

        found = outcomes(work, module.AT_ONCE + 2 + 3)

        assert found.count(1) == module.AT_ONCE + 2
        assert [kind_of(one) for one in found if one != 1] == [StatusKind.TOO_MANY] * 3


class TestDispatcher:
    def test_process_ends_with_its_connection(self) -> None:
        def work(_request: bytes) -> Iterator[bytes]:
            yield ANSWERED
            yield str(os.getppid()).encode()

        (pid,) = outcomes(work)

        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
