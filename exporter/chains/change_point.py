"""Finds the onset of an episode: the likeliest step in the mean of lost time.

In: samples with the lost time up to each, and the mean before. Out: the onset; a likelihood that grows while the episode goes on.
Source: the generalised likelihood ratio of a shift of unknown size against none, which is (sum x)^2 / n where the mean is 0
otherwise and the deviation is always the same.
"""

from __future__ import annotations

from collections.abc import Iterable

from exporter.chains.span import ProcessState, Span


def likelihood(span: Span, late_before: float = 0.0) -> float:
    """Likelihood that the job was slower in this span and at no other time; 0 where nothing was lost beyond late_before, a share
    of the time.
    """
    return max(span.late_ns - late_before * span.wall_ns, 0.0) ** 2 / span.wall_ns


def onset(moments: Iterable[ProcessState], now: ProcessState, least_ns: float, late_before: float) -> ProcessState:
    """The likeliest onset among samples since which least_ns were lost; the first sample where there is none."""
    spans = [Span(then, now) for then in moments]
    enough = [span for span in spans if span.late_ns - late_before * span.wall_ns >= least_ns]
    return max(enough, key=lambda span: likelihood(span, late_before), default=spans[0]).then
