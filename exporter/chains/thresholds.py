"""Every number that a verdict depends on, each with its reason."""

from __future__ import annotations

from exporter.units import NANOSECONDS

# ---- what is usual

WINDOW_NS = NANOSECONDS
"""Of which the usual is made: long enough for the blame of CPUs, which is read once a second."""

WINDOWS_KEPT = 60
"""A minute: a job that gets slower over hours is a new normal, one that does over seconds is not."""

WINDOWS_NEEDED = 5
"""Fewer say nothing of the spread."""

STEPS_NEEDED = 10
"""In these windows: first steps are unlike those that follow, and a median of a few is luck."""

FASTER = 0.10
"""A job that is faster than usual by this part has ended its warm-up: of what was learned only as much is kept as is needed, so
that a few such windows are the usual."""

# ---- is it slower

ALLOWANCE = 0.02
"""Of the wall time, that may be lost without a word: the accounting itself is right to a few percent (docs/measurements.md)."""

ALARM_NS = 120_000_000
"""Lost beyond the allowance, in sum: two ticks of a job twice as slow, one second at 20 %, five at 5 %."""

SPREADS_ALLOWED = 1.5
SPREADS_TO_ALARM = 6.0
"""Of a job whose seconds differ: as many standard deviations of a second may be lost, and must have been lost in sum. With
normal deviations a false alarm is as likely as exp(-2 * 1.5 * 6), once in two years of ticks."""

LASTING_NS = 400_000_000
"""In sum, before anything is said: half a second lost once is worth a line, a shorter hitch is not. Of a job that is a little
slower that takes longer than a verdict looks back."""

JUDGED_NS = 10 * NANOSECONDS
JUDGED_MAX_NS = 600 * NANOSECONDS
JUDGED_MOMENTS = 80
"""What a verdict looks back on: the steps that it needs, also if they take four times as long as usual, and of that so many
moments at most. A job that makes a step a minute is not seen four times a second, but every 7.5 s."""

# ---- why

MAIN_SHARE = 0.5
TWO_SHARES = 0.7
"""One cause explains half of what is lost, or two explain 0.7 of it, or many explain half of it for as long as acquittals take:
then the largest is told. Where all of the host's explain less than half, the host is not the reason."""

UNDECIDED_SHARE = 0.3
PATIENCE_NS = 2 * NANOSECONDS
"""Waits for a CPU of which it is not yet known who held it: so much of the loss is worth waiting for, and for so long."""

ACQUITTAL_NS = 10 * NANOSECONDS
"""Nobody is acquitted while that much is not known; but who holds CPUs is told within a second or two, or never."""

STUCK_NS = 400_000_000
"""Without a step that usually takes less than half of this: time to look at the threads, which costs milliseconds."""

NOT_HOST_NS = 3 * NANOSECONDS
NOT_HOST_STEPS = 8
NOT_HOST_SHARE = 0.10
"""Before the host is acquitted: late stalls are decided when the waits behind them are over. A job that makes no more steps at
all has ended or evaluates. And of a job that is a little slower for no reason that the host knows, nobody needs to be told."""

EVIDENT_NS = 5 * NANOSECONDS // 2
"""What a job does itself, and what its GPU does, is seen and not concluded: it is told sooner. Yet a second or two in which a job
captures its new shapes is no fault."""

THROTTLED_SHARE = 0.3
"""Of the time, more than before, that the GPU's clocks are held down: it is told once a second, of episodes of three and more."""

NEIGHBOUR_FACTOR = 3.0
NEIGHBOUR_KERNELS = 10.0
"""Whoever launches so many kernels a second, and so many times as many as before the episode, has come to the GPU."""

LINK_SHARE = 0.7
"""Of the time that the link to the GPU is busy: with what stands between two copies it is then full."""

PAGEABLE_BYTES_PER_NS = 1.0
"""A copy of pageable memory may be slow, but not slower than 1 GB/s: what is beyond that, the call waited for the GPU's work."""

UNSTEADY_BELOW, UNSTEADY_ABOVE = 0.5, 2.0
"""Of what is lost on the whole, so much is lost now: less is a pause that is over, more is a fault that has just begun. Neither
is what the host is acquitted of."""

PHASE_CHANGE = 0.10
"""Calls of a step more or fewer by this part: the job does something else, which is no fault."""

NEW_NORMAL_NS = 300 * NANOSECONDS
"""A job that is slower for so long without the host's doing has another model, batch or clock."""

CHRONIC_NS = 30 * NANOSECONDS
CHRONIC_SHARE = 0.25
"""A job that was never better: a quarter of the time, lost to one cause of the host over half a minute."""

HANG_NS = 2 * NANOSECONDS
HANG_STEPS = 10
UNKNOWN_HANG_NS = 30 * NANOSECONDS
"""Without a step, while a rank is behind in a collective: both, since a step may take minutes; and where no step is known."""

RETRY_NS = 5 * NANOSECONDS
"""An allocation that failed and is not followed by one that worked within this time is out of memory."""

LEAK_WINDOW_NS = NANOSECONDS // 2
LEAK_WINDOW_STEPS = 8
LEAK_RISES = 8
LEAK_BYTES = 64 << 20
LEAK_SCALES = (1, 8, 64)
"""What is live grows from one such window to the next, so many times in a row and by so much: what a cache of the framework
takes as it fills up comes in leaps, with windows between them in which nothing is added. A slow leak comes in leaps as well, and
is seen in windows that are so many times as long."""

CAPTURE_NS = 10 * NANOSECONDS
"""A capture launches nothing for real; the largest known take a second or two."""

STEADY_NS = 3 * NANOSECONDS
COLD_NS = NANOSECONDS
"""How long steps are looked at that are no longer the first, and how much the first have to cost beyond those."""

# ---- how bad, and for how long

SEVERITY_SHARES = (0.05, 0.10, 0.25, 0.50)
"""Of the time lost: low, medium, high, critical."""

RECENT_NS = 2 * NANOSECONDS
"""How bad it is now."""

OVER_SHARE = 0.2
"""A job that is still slower, of which the cause of the chain explains less than this part: that episode is over, and what keeps
it slow is another one."""

FADED_SHARE = 0.3
"""Of what an episode has cost a second: a job that was three times as slow and is a little slower has recovered from that. And of
a job that is hardly slower at all one second may be as good as ever, without the others being any better for that."""

OVERTAKING = 1.5
"""So much more is lost than before, and the host is the reason now: what was before it was another episode."""

CALM_NS = 5 * NANOSECONDS
"""So long nothing was lost: then it is over. Contention comes in waves, and each is not an episode of its own."""
