"""headline: names of processes, and the sentence about a chain."""

from __future__ import annotations

from datetime import UTC

import pytest

from exporter.causes import Cause
from exporter.chains.chain import Effect, End
from exporter.chains.event import ChainEvent
from exporter.explain.chain_summary import ChainSummary
from exporter.explain.headline import one_line, slower_calls, verdict
from exporter.history.recorded_chains import KnownState
from tests.support.history import NOON, SECOND, an_event, resolved

NOW_UNIX_NS = NOON + 200 * SECOND


def open_chain(event: ChainEvent) -> ChainSummary:
    return ChainSummary(1, event, KnownState.OPEN, NOW_UNIX_NS)


class TestVerdict:
    @pytest.mark.parametrize(
        ("cause", "words"),
        [
            (Cause.CRASH, "rank 3 (pod trainer-0) crashed, at 08:00:00 UTC, severity"),
            (Cause.OOM_KILLED, "was killed by the kernel because memory was full (oom_killed)"),
            (Cause.CUDA_OOM, "ran out of GPU memory (cuda_oom)"),
            (Cause.MEMORY_LEAK, "uses more and more GPU memory (memory_leak)"),
            (Cause.GRAPH_ABANDONED, "started a graph capture that does not end (graph_abandoned)"),
            (Cause.COLD_START, "had a cold start and lost 46 % of the time until its steps were steady (cold_start)"),
            (Cause.SLOW_RANK, "the other ranks wait for rank 3 (pod trainer-0), and no host resource explains why"),
        ],
    )
    def test_causes_without_lost_time_have_a_sentence_of_their_own(self, cause: Cause, words: str) -> None:
        assert words in verdict(open_chain(an_event(cause=cause)), None, NOW_UNIX_NS, UTC)

    def test_new_baseline_is_the_end_of_a_chain(self) -> None:
        event = resolved(an_event(cause=Cause.GPU), 60, End.CHANGED)
        chain = ChainSummary(1, event, KnownState.RESOLVED, NOON + 60 * SECOND)

        assert verdict(chain, None, NOW_UNIX_NS, UTC).endswith(
            "It lasted for a minute without a cause on the host and is now the baseline."
        )

    @pytest.mark.parametrize(
        ("cause", "words"),
        [
            (Cause.OWN_CODE, "take 1.9 times as long because its own code computes while the GPU waits (own_code)"),
            (
                Cause.OWN_WAIT,
                "take 1.9 times as long because it sleeps or waits for its own child processes or events (own_wait)",
            ),
            (
                Cause.GPU,
                "take 1.9 times as long because calls that wait for the GPU take longer; no host resource explains it (gpu)",
            ),
        ],
    )
    def test_causes_that_are_not_the_host_say_why_the_job_is_slower(self, cause: Cause, words: str) -> None:
        assert words in verdict(open_chain(an_event(cause=cause, culprits=())), None, NOW_UNIX_NS, UTC)

    @pytest.mark.parametrize("cause", [Cause.BLOCKED_OUTPUT, Cause.EXPORTER])
    def test_causes_of_lost_time_say_how_much_is_lost(self, cause: Cause) -> None:
        sentence = verdict(open_chain(an_event(cause=cause, culprits=())), None, NOW_UNIX_NS, UTC)

        assert f"loses 46 % of its time to {cause.value}, since" in sentence

    def test_standstill_has_no_slowdown(self) -> None:
        """No step has ended."""
        event = an_event(cause=Cause.STALLED, effect=Effect.STEP, slowdown=None, culprits=())

        assert "rank 3 (pod trainer-0) makes no progress (stalled), since" in verdict(
            open_chain(event), None, NOW_UNIX_NS, UTC
        )

    def test_lasting_change_is_described_by_its_detail(self) -> None:
        detail = "steps take 47.1 ms (+12 %) with 130 calls for the last minute, 42.0 ms with 130 calls before"
        event = an_event(cause=Cause.CHANGED, effect=Effect.STEP, detail=detail, culprits=())

        assert f"has a new normal: {detail} (changed)" in verdict(open_chain(event), None, NOW_UNIX_NS, UTC)


class TestOneLine:
    def test_interrupted_chain_has_no_known_end(self) -> None:
        chain = ChainSummary(1, an_event(), KnownState.INTERRUPTED, NOON + 50 * SECOND)

        assert one_line(chain, None) == (
            "rank 3 (pod trainer-0) lost up to 46 % of its time to cpu_contention for 50 s, high, culprit stress-ng,"
            " end not known"
        )

    def test_lasting_slowdown_became_the_baseline(self) -> None:
        event = resolved(an_event(cause=Cause.OWN_CODE, culprits=()), 60, End.CHANGED)
        chain = ChainSummary(1, event, KnownState.RESOLVED, NOON + 60 * SECOND)

        assert one_line(chain, None).endswith("(own_code) for 1 min, high, became the baseline")


class TestSlowerCalls:
    @pytest.mark.parametrize("effect", Effect)
    def test_every_effect_has_words(self, effect: Effect) -> None:
        assert slower_calls(an_event(effect=effect))
