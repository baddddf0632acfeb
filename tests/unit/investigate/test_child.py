"""child: what the parent receives, and how a child ends."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from exporter.investigate.child import ChildBounds, ChildFailed, started

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
BOUNDS = ChildBounds(30.0, 64 << 20, (ValueError, MemoryError, OSError))


def failure(work: object, bounds: ChildBounds = BOUNDS) -> ChildFailed:
    with pytest.raises(ChildFailed) as raised, started(work, bounds) as child:  # type: ignore[arg-type]
        list(child.contents())
    return raised.value


class TestContents:
    def test_what_the_work_yields_arrives_in_order(self) -> None:
        with started(lambda: [b"a", b"", b"c" * 100_000], BOUNDS) as child:
            assert list(child.contents()) == [b"a", b"", b"c" * 100_000]

    def test_work_runs_in_another_process(self) -> None:
        """With what this one has in memory."""
        with started(lambda: [str(os.getpid()).encode()], BOUNDS) as child:
            assert list(child.contents()) != [str(os.getpid()).encode()]

    def test_child_is_gone_after_the_block(self) -> None:
        """Also if it would go on, and nothing was read from it."""

        def work() -> Iterator[bytes]:
            yield str(os.getpid()).encode()
            time.sleep(60)

        with started(work, BOUNDS) as child:
            tgid = int(next(child.contents()))

        with pytest.raises(ProcessLookupError):
            os.kill(tgid, 0)


class TestFailures:
    def test_expected_exception_is_passed_on(self) -> None:
        def work() -> Iterator[bytes]:
            yield b"first"
            raise ValueError("why")

        found = failure(work)

        assert (found.kind, str(found)) == ("ValueError", "why")

    def test_child_that_is_killed(self) -> None:
        assert failure(lambda: os.kill(os.getpid(), 9)).kind == ChildFailed.KILLED

    def test_child_that_is_late(self) -> None:
        """It computes without end, and without a look at any clock."""
        found = failure(lambda: [bytes(sum(iter(int, 1)))], ChildBounds(0.2, 64 << 20, ()))

        assert found.kind == ChildFailed.LATE

    def test_file_cannot_be_opened(self) -> None:
        assert failure(lambda: [open("/etc/passwd", "rb").read()]).kind == "OSError"  # noqa: SIM115, PTH123

    def test_memory_is_bounded(self) -> None:
        assert failure(lambda: [bytes(1 << 27)]).kind == "MemoryError"

    def test_memory_within_the_bound_can_be_used(self) -> None:
        with started(lambda: [bytes(1 << 24)], BOUNDS) as child:
            assert len(next(child.contents())) == 1 << 24
