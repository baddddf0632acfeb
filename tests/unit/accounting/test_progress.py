"""progress: what a thread does that stands still, in words."""

from __future__ import annotations

import pytest

from exporter.accounting.progress import Standing
from exporter.kernel.abi import ThreadState

SECOND = 1_000_000_000


class TestStanding:
    @pytest.mark.parametrize(
        ("standing", "sentence"),
        [
            (
                Standing(4711, "cudaStreamSynchronize", ThreadState.ON_CPU, 11_800_000_000),
                "thread 4711 has been in cudaStreamSynchronize for 11.8 s",
            ),
            (Standing(4711, "", ThreadState.SLEEP, SECOND), "thread 4711 sleeps outside of CUDA and NCCL calls"),
            (
                Standing(4711, "", ThreadState.GPU_WAIT, SECOND),
                "thread 4711 is in an unknown state outside of CUDA and NCCL calls",
            ),
        ],
    )
    def test_sentence(self, standing: Standing, sentence: str) -> None:
        assert standing.sentence == sentence

    @pytest.mark.parametrize("state", set(ThreadState) - {ThreadState.RUNNABLE, ThreadState.THROTTLED})
    def test_thread_in_a_call_has_work(self, state: ThreadState) -> None:
        assert Standing(1, "cudaFree", state, SECOND).has_work

    def test_thread_that_waits_for_an_event_has_none(self) -> None:
        """A server waits for a request, a notebook for its user, and a starved thread for a CPU."""
        idle = {state for state in ThreadState if not Standing(1, "", state, SECOND).has_work}

        assert idle == {ThreadState.POLL, ThreadState.OTHER, ThreadState.RUNNABLE, ThreadState.THROTTLED}
