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


def onset(moments: Iterable[ProcessState], now: ProcessState, late_before: float) -> ProcessState:
    """The likeliest onset among these samples; the first where nothing was lost since any of them."""
    return max((Span(then, now) for then in moments), key=lambda span: likelihood(span, late_before)).then
