"""new_normal: a chain ended as `changed`, and the job is still slow."""

from __future__ import annotations

from typing import Any

import pytest

from exporter.causes import Cause
from exporter.chains.chain import End
from exporter.chains.event import ChainEvent
from exporter.explain.new_normal import NewNormal, new_normals
from exporter.explain.sums import ProcessSum, Sums
from exporter.history.run import RecordedEvent, RecordedWindows
from exporter.history.selection import Selection
from tests.support.history import MS, NOON, SECOND, a_window, an_event, resolved, times


def changed(lasted_seconds: float = 60.0, **changes: Any) -> ChainEvent:
    """Steps took 14 ms before it."""
    event = an_event(cause=Cause.OWN_WAIT, culprits=(), usual_step_ns=14 * MS, **changes)
    return resolved(event, lasted_seconds, End.CHANGED)


def processes(step_ms: int, *ended_seconds: float) -> tuple[ProcessSum, ...]:
    """Windows with 500 steps of this length each."""
    sums = Sums(Selection(), with_operations=False)
    windows = [a_window(one, steps=times(500, step_ms * MS)) for one in ended_seconds]
    sums.add(RecordedWindows(1, one.began_unix_ns, one.ended_unix_ns, [one]) for one in windows)
    return sums.processes()


def found(event: ChainEvent, step_ms: int = 24, now_seconds: float = 200.0) -> tuple[NewNormal, ...]:
    """At a time, where the last windows have such steps."""
    of = processes(step_ms, now_seconds - 10, now_seconds)
    return new_normals([RecordedEvent(1, event)], of, NOON + round(now_seconds * SECOND))


class TestNewNormal:
    def test_steps_that_take_longer_than_before_the_chain_are_one(self) -> None:
        """24 ms, which is 1.7 times 14 ms."""
        (one,) = found(changed())

        assert (one.event.usual_step_ns, one.step_ns) == (14 * MS, 24 * MS)
        assert one.ratio == pytest.approx(24 / 14)

    @pytest.mark.parametrize("step_ms", [14, 15, 9])
    def test_steps_as_before_or_faster_are_none(self, step_ms: int) -> None:
        """Less than a tenth longer is as before."""
        assert found(changed(), step_ms) == ()

    def test_recovered_chain_is_none(self) -> None:
        """What comes after it has another reason."""
        assert found(resolved(an_event(), 60.0)) == ()

    def test_after_six_hours_it_is_what_the_job_is_like(self) -> None:
        assert len(found(changed(), now_seconds=6 * 3600.0)) == 1
        assert found(changed(), now_seconds=6 * 3600.0 + 61) == ()

    def test_of_a_job_that_has_ended_nothing_is_known(self) -> None:
        """Its last window is half a minute old."""
        windows = processes(24, 100.0)

        assert new_normals([RecordedEvent(1, changed())], windows, NOON + 130 * SECOND) == ()

    def test_last_change_counts(self) -> None:
        """It had become slower, and then as fast as before: what it was before the second change."""
        events = [RecordedEvent(1, changed()), RecordedEvent(1, changed(chain_id="2" * 32, lost_share=0.2))]
        (one,) = new_normals(events, processes(24, 200.0), NOON + 200 * SECOND)

        assert one.event.chain_id == "2" * 32
