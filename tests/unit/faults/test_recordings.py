"""The accounting over recorded episodes: real tables of the kernel, real faults, and what they cost by the steps' own clock.

Bounds are those of the judge, for all episodes alike: what an honest accounting must reach, not what it happened to.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.faults import judge
from tests.faults.books import books, goes_back
from tests.faults.judge import Judgement
from tests.faults.recording import SUFFIX, Recording, load
from tests.faults.registry import EPISODES

FOLDER = Path(judge.__file__).with_name("recordings")
NAMES = sorted(path.name.removesuffix(SUFFIX) for path in FOLDER.glob(f"*{SUFFIX}"))
ALL = pytest.mark.parametrize("name", NAMES)


@cache
def recorded(name: str) -> Recording:
    """A kept recording."""
    return load(FOLDER / f"{name}{SUFFIX}")


@cache
def judged(name: str) -> tuple[Judgement, ...]:
    """Every rank of every episode."""
    return tuple(judge.judge(EPISODES[name], recorded(name)))


def of_faults() -> list[tuple[str, int]]:
    """Episodes and ranks whose own host is at fault."""
    names = [name for name in NAMES if EPISODES[name].cause not in judge.NOT_OF_THE_HOST]
    return [(name, rank) for name in names for rank in range(EPISODES[name].ranks)]


FAULTS = pytest.mark.parametrize(("name", "rank"), of_faults())
SILENT = pytest.mark.parametrize("name", [name for name in NAMES if EPISODES[name].cause in judge.NOT_OF_THE_HOST])


class TestKept:
    """The files."""

    def test_there_are_faults_and_decoys(self) -> None:
        """With several causes each."""
        causes = {EPISODES[name].cause for name in NAMES}

        assert len(causes - judge.NOT_OF_THE_HOST) >= 6
        assert len(causes & judge.NOT_OF_THE_HOST) >= 2

    def test_they_are_small(self) -> None:
        """All together less than 600 KiB, each less than 60."""
        sizes = [(FOLDER / f"{name}{SUFFIX}").stat().st_size for name in NAMES]

        assert max(sizes) < 60 << 10
        assert sum(sizes) < 600 << 10


class TestFaults:
    """What the host did."""

    @FAULTS
    def test_loss_is_the_true_one(self, name: str, rank: int) -> None:
        """Within a quarter of what the steps took longer than without the fault."""
        found = judged(name)[rank]

        assert found.true_ns is not None
        assert found.excess.sum_ns == pytest.approx(found.true_ns, rel=judge.TOLERANCE)

    @FAULTS
    def test_cause_is_the_label(self, name: str, rank: int) -> None:
        """Four fifths of what is booked beyond the usual."""
        found = judged(name)[rank]

        assert found.excess.share(*found.expected) >= judge.MAIN_SHARE

    @FAULTS
    def test_culprit_is_the_label(self, name: str, rank: int) -> None:
        """A wait for a CPU or a lock has a culprit; other causes have none."""
        found = judged(name)[rank]

        assert found.excess.culprit(*found.expected) == found.culprit


class TestNotOfTheHost:
    """Decoys, a slow GPU, a rank that waits for another one."""

    @SILENT
    def test_hardly_anything_is_booked(self, name: str) -> None:
        """Less than a twentieth of the time, by every rank that has no fault of its own."""
        loud = [one.loudness for one in judged(name) if not one.expected]

        assert max(loud) < judge.SILENCE


class TestBooks:
    """What holds at every tick."""

    @ALL
    def test_nothing_ever_goes_back(self, name: str) -> None:
        """No sum of a cause and culprit goes back, without the fault and with it."""
        recording = recorded(name)

        assert not goes_back(books(recording.clean))
        assert not goes_back(books(recording.faulty))

    @ALL
    def test_no_more_is_lost_than_time_went_by(self, name: str) -> None:
        """A process has one timeline."""
        run = recorded(name).faulty
        length_ns = run.ticks[-1].now_ns - run.ticks[0].now_ns

        assert all(sum(lost.values()) <= length_ns for lost in books(run)[-1].values())
