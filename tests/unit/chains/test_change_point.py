"""change_point: the likeliest onset among samples."""

from __future__ import annotations

import pytest

from exporter.chains import change_point
from exporter.chains.span import ProcessState, Span
from tests.unit.chains.job import SECOND
from tests.unit.chains.states import a_span, a_state


def samples(*late_shares: float) -> list[ProcessState]:
    """A sample each second; late_shares: of the second that follows it."""
    states, late_ns = [], 0.0
    for second, share in enumerate(late_shares):
        states.append(a_state(100 + second, late_ns=late_ns))
        late_ns += share * SECOND
    return [*states, a_state(100 + len(late_shares), late_ns=late_ns)]


def onset_second(*late_shares: float, before: float = 0.0) -> int:
    """The second of the likeliest onset, after the first sample."""
    *earlier, now = samples(*late_shares)
    return change_point.onset(earlier, now, before).now_ns // SECOND - 100


class TestLikelihood:
    def test_it_is_the_square_of_the_loss_by_the_time(self) -> None:
        """1 s lost in 2 s."""
        assert change_point.likelihood(a_span(2, late_ns=SECOND)) == SECOND / 2

    def test_only_the_loss_beyond_the_level_before_counts(self) -> None:
        """A tenth of the time was lost before: 0.8 of 2 s are left."""
        assert change_point.likelihood(a_span(2, late_ns=SECOND), 0.1) == pytest.approx(0.32 * SECOND)

    def test_job_that_is_faster_has_none(self) -> None:
        assert change_point.likelihood(a_span(2, late_ns=-SECOND)) == 0.0


class TestOnset:
    """Between samples of a second each."""

    def test_it_is_where_the_loss_begins(self) -> None:
        """Three quiet seconds and two slow ones."""
        assert onset_second(0.0, 0.0, 0.0, 0.5, 0.5) == 3

    def test_noise_before_is_no_part_of_it(self) -> None:
        """From second 2: 1.2² / 2 = 0.72; with the noise before it 1.25² / 3 = 0.52."""
        assert onset_second(0.0, 0.05, 0.6, 0.6) == 2

    def test_level_before_is_subtracted(self) -> None:
        """A fifth was lost all the time, and more for two seconds."""
        assert onset_second(0.2, 0.2, 0.5, 0.5, before=0.2) == 2

    def test_loss_that_grows_begins_where_it_is_most(self) -> None:
        """The last second is the likeliest: 0.3² against 0.42² / 2."""
        assert onset_second(0.0, 0.12, 0.3) == 2

    def test_even_loss_begins_with_the_first_sample(self) -> None:
        assert onset_second(0.1, 0.1, 0.1) == 0


class TestSpans:
    def test_the_sample_itself_is_returned(self) -> None:
        """With its figures, from which the span of the episode begins."""
        *earlier, now = samples(0.0, 0.5, 0.5)
        found = change_point.onset(earlier, now, 0.0)

        assert Span(found, now).late_ns == SECOND
