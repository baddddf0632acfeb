"""The list of episodes."""

from __future__ import annotations

import pytest

from exporter.causes import CHAIN_CAUSES, Cause
from tests.faults.episode import End, Episode, plain
from tests.faults.registry import EPISODES
from tests.faults.shapes.expected import EXPECTED

ALL = pytest.mark.parametrize("episode", EPISODES.values(), ids=EPISODES.keys())


UNTRIED = {Cause.PCIE, Cause.EXPORTER}
"""Need a real link, and an exporter that takes the CPUs of a job."""


class TestEpisodes:
    """What is true of each, and of all."""

    def test_every_cause_is_tried(self) -> None:
        """In an episode of this list, or by a fault inside a job of another shape."""
        in_episodes = {episode.cause for episode in EPISODES.values() if episode.cause}
        in_shapes = {Cause(cause) for causes in EXPECTED.values() for cause in causes}

        assert in_episodes | in_shapes == set(CHAIN_CAUSES) - UNTRIED

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
