"""Every threshold of the chain engine, with its reason."""

from __future__ import annotations

from exporter.units import NANOSECONDS

# ---- baseline

WINDOW_NS = NANOSECONDS
"""Length of a baseline window: long enough for CPU culprits, which are read once a second."""

WINDOWS_KEPT = 60
"""A minute: a job that gets slower by a percent a minute has a new baseline, one that does over seconds has not."""

WINDOWS_NEEDED = 5
VARIED = 0.1
WINDOWS_NEEDED_VARIED = 10
"""With fewer the spread is unknown; where it is larger than this, a few seconds say little of those that come."""

STEPS_NEEDED = 10
"""Within these windows: first steps differ from those that follow, and a median of a few is chance."""

FASTER = 0.10
"""A job that is faster than its baseline by this share, in WINDOWS_NEEDED windows in a row, has ended its warm-up or is in
another phase: these windows are the baseline."""

REGIMES_KEPT = 4
WINDOWS_TO_REMEMBER = 10
"""A job alternates between few phases: training, evaluation, two lengths of sequences."""

SAME_LENGTH = 0.05
SAME_LENGTH_SPREADS = 2.0
"""Steps that differ by less than this, or by so many standard deviations of a window, may belong to one regime."""

BEFORE_NS = 30 * NANOSECONDS
WINDOWS_BEFORE = 3
"""An episode is judged against the time before its own onset, where so many windows of it are known: a job may have drifted."""

LASTING_CHANGE_NS = 60 * NANOSECONDS
LASTING_CHANGE_STEPS = 30
"""A job that has been slower for so long and so many baseline steps, without a cause on the host, has another model, batch or
clock."""

SPENDING_NS = 30 * NANOSECONDS
"""How often a quiet job's spending is read: what it spends in a step is compared with the last half minute or two."""

CHANGE_REPORTED = 0.05
CHANGE_SPREADS = 3.0
"""A change of the length of a step becomes the baseline whatever its size; one of so much is reported."""

IDLE_PAUSES = 3
IDLE_SHARE = 0.1
IDLE_WITHIN_NS = 10 * NANOSECONDS
"""Idle time is a habit of a job that has made so many pauses within this time, or has waited in most of these seconds; and for so
much of the time."""

# ---- is it slower

ALLOWANCE = 0.02
"""Share of wall time that may be lost without a chain: the accounting itself is right to a few percent (docs/measurements.md)."""

ALARM_NS = 120_000_000
"""Sum lost beyond the allowance that raises an alarm: two ticks of a job twice as slow, one second at 20 %, five at 5 %."""

SPREADS_ALLOWED = 1.5
SPREADS_TO_ALARM = 6.0
"""For a job whose seconds vary, in standard deviations of one second: the allowance, and the sum that raises an alarm. With
normally distributed seconds a false alarm has the probability exp(-2 * 1.5 * 6), once in two years of ticks."""

LASTING_NS = 400_000_000
"""Sum lost before a chain opens: half a second lost once is worth a chain, a shorter hitch is not. In a job that is only a little
slower this takes longer than a verdict looks back."""

JUDGED_NS = 10 * NANOSECONDS
JUDGED_MAX_NS = 600 * NANOSECONDS
JUDGED_MOMENTS = 80
"""How far a verdict looks back: over the steps that it needs, even if they take four times their baseline, in at most so many
samples. A job that makes one step a minute is sampled every 7.5 s, not four times a second."""

# ---- why

MAIN_SHARE = 0.5
TWO_SHARES = 0.7
"""One cause explains half of the lost time, or two explain 0.7 of it, or many explain half of it for RULED_OUT_NS: the largest is
reported. Where all causes of the host explain less than half, the host is not the reason."""

BALANCE_MARGIN = 1.5
"""Lost time of a steady job cannot exceed what its steps take longer. Up to so many times as much is what ends of spans and the
accounting's own error explain; with more the accounting is in doubt, and the contribution is lowered."""

OWN_SHARE = 0.3
"""The job's own code and waits are named from this share on, where they are the largest part: below, the reason is not known, and
the GPU is named because the host is ruled out."""

DISPLACED_SHARE = 0.5
"""Where another program takes a CPU, the job's own threads wait for each other on what is left of it; where memory or a disk is
slow, those that hold a lock do so for longer. From this part of that time on, it has the other cause as well."""

UNDECIDED_SHARE = 0.3
PATIENCE_NS = 2 * NANOSECONDS
"""CPU waits without a culprit yet: a verdict waits for this share of the lost time, and at most this long."""

RULED_OUT_NS = 10 * NANOSECONDS
"""The host is not ruled out before this, while so much is undecided; CPU culprits are known within a second or two, or never."""

STUCK_NS = 400_000_000
"""Time without a step whose baseline is less than half of this: then threads are read, which costs milliseconds."""

JOB_CAUSE_NS = 3 * NANOSECONDS
JOB_CAUSE_STEPS = 8
JOB_CAUSE_SHARE = 0.10
"""Before a cause of the job or its GPU is reported: late stalls are decided when the waits after them are over. A job that makes
no more steps at all has ended or evaluates. A job that is slower by less than this share, for no reason on the host, is not
reported."""

STRETCH_WINDOWS = 10
STRETCHES_KEPT = 60
STRETCHES_NEEDED = 6
WANDER_ALLOWED = 3.0
"""A job may stray from its baseline for a while, for no reason on the host. How far, is known from the
last ten minutes, after one: three standard deviations of it are no fault of the job or its GPU."""

EVIDENT_NS = 5 * NANOSECONDS // 2
EVIDENT_STEPS = 4
"""The job's own work and its GPU's state are measured, not inferred, so they are reported sooner. Yet a second or two in which a
job captures new shapes is no fault."""

CLEAR_NS = 5 * NANOSECONDS // 4
CLEAR_STEPS = 16
"""Or after half of that time, where so many steps show it, and it explains half of the excess: a job that captures new shapes
makes a few long steps. CPU culprits, which are read once a second, are known by then or still undecided."""

THROTTLED_SHARE = 0.3
"""Share of time, more than before, that the GPU's clocks are held down; sampled once a second, for episodes of three and more."""

NEIGHBOUR_FACTOR = 3.0
NEIGHBOUR_KERNELS = 10.0
"""A process is a new neighbour on the GPU when it launches so many kernels a second, and so many times as many as before."""

LINK_SHARE = 0.7
"""Share of time that the link to the GPU is busy: with the gaps between copies it is full then."""

PAGEABLE_BYTES_PER_NS = 1.0
"""A copy of pageable memory is not slower than 1 GB/s: for the rest of its time the call waited for the GPU's work."""

UNSTEADY_BELOW, UNSTEADY_ABOVE = 0.5, 2.0
"""Ratio of what is lost now to what is lost over the episode: below is a pause that is over, above a fault that has just
begun. In neither case is the host ruled out."""

PHASE_CHANGE = 0.10
"""Calls per step more or fewer by this share: the job is in another phase, which is no fault."""

ADDED_CALLS = 2.0
"""With no more than so many calls added, they may be the same steps: an evaluation makes fewer, another model any number. In
another phase computing and sleeping grow as the calls do: what grows beyond that was added."""

CALLS_SPREADS = 2.0
"""Or by so many standard deviations of a second: some of a server's steps begin requests, others go on with them."""

CHRONIC_NS = 30 * NANOSECONDS
CHRONIC_SHARE = 0.25
"""A job that was never better: this share of the time, lost to one cause of the host over half a minute."""

HANG_NS = 2 * NANOSECONDS
HANG_STEPS = 10
UNKNOWN_HANG_NS = 30 * NANOSECONDS
"""Time and baseline steps without a step while a rank is behind in a collective: both, since a step may take minutes; the last
where no step is known."""

RETRY_NS = 5 * NANOSECONDS
"""A failed allocation that is not followed by a successful one within this time means out of memory."""

LEAK_WINDOW_NS = NANOSECONDS // 2
LEAK_WINDOW_STEPS = 8
LEAK_RISES = 8
LEAK_BYTES = 64 << 20
LEAK_SCALES = (1, 8, 64)
"""Live memory grows from one such window to the next, so many times in a row and by so much. A framework's cache fills up in
leaps, with windows between them in which nothing is added. A slow leak comes in leaps as well, and shows in windows that are
LEAK_SCALES times as long."""

CAPTURE_NS = 10 * NANOSECONDS
"""A capture executes nothing; the largest known take a second or two."""

STEADY_NS = 3 * NANOSECONDS
COLD_NS = NANOSECONDS
"""How long steady steps are measured, and how much the first ones have to cost beyond them."""

# ---- how bad, and for how long

SEVERITY_SHARES = (0.05, 0.10, 0.25, 0.50)
"""Lower bounds of the lost share: low, medium, high, critical."""

WORSE_NS = 10 * NANOSECONDS
"""A chain becomes worse when its last ten seconds are: a page for two bad seconds of a minute would say more than they cost."""

OVER_SHARE = 0.2
"""When the cause of the chain explains less than this share while the job is still slow: the episode is over, and what keeps the
job slow is another one."""

FADED_SHARE = 0.3
"""Share of the episode's cost per second below which it has faded: a job that was three times as slow and is a little slower has
recovered. In a job that is hardly slower at all one good second means little for the others."""

HITCHES = 3
HITCHES_WITHIN_NS = 30 * NANOSECONDS
"""So many short losses, each over before a verdict, and none so long after the one before, are one episode of pauses."""

STALLED_NS = 5 * NANOSECONDS
STALLED_STEPS = 10
STALLED_CRITICAL_NS = 60 * NANOSECONDS
"""Time and baseline steps without any progress: both. And how long until it is critical: a checkpoint takes a while."""

CALM_NS = 5 * NANOSECONDS
"""An episode is over after so long without lost time. Contention comes in waves, and a wave is not an episode of its own."""
