"""probes.event_opener: requests to the process that opens events, and its refusals."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from exporter.errors import KernelRefused, NoAnswer
from exporter.host.answering import DESCRIPTORS_MAX
from exporter.host.child_process import Answer, ChildProcess
from exporter.kernel.probes import NoDescriptors
from exporter.kernel.uprobe_events import EVENTS_MAX
from exporter.probes.event_opener import EventOpener

LIBRARY = 3


class FakeChild:
    """Opens descriptors of eventfd(2) but for `missing`, or answers with a refusal, which is raised if it is an exception."""

    def __init__(self, refusal: list[str] | NoAnswer | None = None, missing: int = 0) -> None:
        self.asked: list[Any] = []
        self._refusal = refusal
        self._missing = missing

    def close(self) -> None:
        """See ChildProcess."""

    def ask(self, request: Any, _patience_seconds: float, descriptors: Sequence[int]) -> Answer:
        self.asked.append((request, descriptors))
        if isinstance(self._refusal, NoAnswer):
            raise self._refusal
        if self._refusal:
            return Answer(self._refusal, [])
        return Answer(None, [os.eventfd(0, os.EFD_CLOEXEC) for _ in request[0][self._missing :]])


def opener_of(child: FakeChild) -> EventOpener:
    return EventOpener(cast(ChildProcess, child))


class TestOpened:
    def test_the_library_goes_with_its_offsets(self) -> None:
        """A descriptor for each comes back."""
        child = FakeChild()
        events = opener_of(child).uprobes(LIBRARY, (0x100, 0x200), is_return=True)
        for event in events:
            os.close(event)

        assert child.asked == [([[0x100, 0x200], True], (LIBRARY,))]
        assert len(events) == 2

    def test_a_message_can_carry_all_events_of_a_call(self) -> None:
        assert EVENTS_MAX <= DESCRIPTORS_MAX

    @pytest.mark.parametrize(
        ("refusal", "message", "remedy"),
        [
            (["cannot open a uprobe: No space left on device", "free some"], "No space left on device", "free some"),
            (NoAnswer("no answer within 20 s"), "the process that opens them gave no answer within 20 s", ""),
        ],
        ids=["refused", "no answer"],
    )
    def test_refusal_has_its_reason_and_remedy(self, refusal: list[str] | NoAnswer, message: str, remedy: str) -> None:
        with pytest.raises(KernelRefused, match=message) as caught:
            opener_of(FakeChild(refusal)).uprobes(LIBRARY, (0x100,), is_return=False)

        assert caught.value.remedy == remedy

    def test_too_few_descriptors_are_a_refusal_and_none_stays_open(self) -> None:
        """The kernel leaves out those for which there is no room."""
        child = FakeChild(missing=1)
        before = len(list(Path("/proc/self/fd").iterdir()))
        with pytest.raises(NoDescriptors, match="too few file descriptors are left"):
            opener_of(child).uprobes(LIBRARY, (0x100, 0x200), is_return=False)

        assert len(list(Path("/proc/self/fd").iterdir())) == before


class TestLost:
    def test_child_that_does_not_answer_is_not_asked_again(self) -> None:
        """It has no successor: this process cannot pass the capability on any more."""
        child = FakeChild(NoAnswer("gone"))
        opener = opener_of(child)
        for _ in range(2):
            with pytest.raises(KernelRefused):
                opener.software(9, 0)

        assert (opener.is_lost, len(child.asked)) == (True, 1)

    def test_child_that_was_closed_is_not_lost(self) -> None:
        """After --probes.attach-once."""
        opener = opener_of(FakeChild())
        opener.close()
        with pytest.raises(KernelRefused, match="was closed"):
            opener.software(9, 0)

        assert not opener.is_lost
