"""The list of episodes."""

from __future__ import annotations

import pytest

from exporter.causes import CHAIN_CAUSES, Cause
from tests.faults.episode import End, Episode, plain
from tests.faults.registry import EPISODES

ALL = pytest.mark.parametrize("episode", EPISODES.values(), ids=EPISODES.keys())


UNTRIED = {Cause.PEER_RANK, Cause.PCIE}
"""Seen from the other rank's side of an episode; needs a real link."""


class TestEpisodes:
    """What is true of each, and of all."""

    def test_every_cause_has_an_episode(self) -> None:
        """Nothing that a diagnosis may say is left untried."""
        assert {episode.cause for episode in EPISODES.values()} == {*CHAIN_CAUSES, None} - UNTRIED

    @ALL
    def test_a_culprit_is_a_comm(self, episode: Episode) -> None:
        """At most 15 characters, as the kernel keeps them."""
        assert len(episode.culprit) <= 15

    @ALL
    def test_a_decoy_has_no_cause(self, episode: Episode) -> None:
        """And what has none is a decoy."""
        assert episode.is_decoy == (episode.cause is None)
        assert not (episode.is_decoy and (episode.culprit or episode.also))

    @ALL
    def test_the_window_leaves_steps_to_compare_with(self, episode: Episode) -> None:
        """It ends before the run does, and begins late enough for a baseline, but for what comes first."""
        assert episode.window.end + 10 <= episode.steps
        assert episode.window.first > 10 or episode.name in ("warm-up", "cold-start")

    @ALL
    def test_the_fault_comes_from_somewhere(self, episode: Episode) -> None:
        """From the trainer or from a scene; only quiet has none."""
        assert bool(episode.fault) or episode.scene is not plain or episode.name == "quiet"

    def test_flags_say_the_window(self) -> None:
        """A hang has no end."""
        lock, hang = EPISODES["lock-holder-sleeps"], EPISODES["hung-rank"]

        assert lock.fault_flags()[-2:] == ("--fault-from-step=60", "--fault-to-step=100")
        assert hang.end is End.HANGS
        assert hang.fault_flags()[-1] == "--fault-from-step=60"
        assert EPISODES["quiet"].fault_flags() == ()
