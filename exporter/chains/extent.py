"""From when to when was a job slower? The likeliest step in the mean of what it lost.

In: moments, and what was lost between them beyond the usual. Out: where an episode begins; a likelihood that grows as long as it
goes on. Source: the generalised likelihood ratio of a shift of unknown size against none, which is (sum x)^2 / n where the mean
is 0 otherwise and the deviation is always the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from exporter.chains.span import Seen, Span


def likelihood(excess_ns: float, wall_ns: int) -> float:
    """Of a job that was slower for so long, losing so much, and at no other time; 0 where nothing was lost."""
    return max(excess_ns, 0.0) ** 2 / wall_ns


def begin(moments: Iterable[Seen], now: Seen, excess_ns: Callable[[Span], float], least_ns: float) -> Seen:
    """The moment since when it is slower, likeliest: of those since which least_ns were lost, which one of them is."""
    spans = [Span(then, now) for then in moments]
    lost = [(excess_ns(span), span) for span in spans]
    enough = [(ns, span) for ns, span in lost if ns >= least_ns]
    return max(enough, key=lambda one: likelihood(one[0], one[1].wall_ns))[1].then
