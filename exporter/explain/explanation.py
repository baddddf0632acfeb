"""The answer to `explain`: runs, chain events and windows in, an Explanation out, for text and JSON."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from exporter.chains.thresholds import STEPS_NEEDED
from exporter.explain.chain_summary import ChainSummary, chain_summaries
from exporter.explain.new_normal import NewNormal, new_normals
from exporter.explain.site_sums import ChainSites
from exporter.explain.sums import ProcessSum, Sums
from exporter.history.recorded_chains import KnownState
from exporter.history.run import GAP_NS, RecordedEvent, RecordedWindows, Run
from exporter.history.selection import Selection
from exporter.units import NANOSECONDS

BASELINE_NS = 15 * NANOSECONDS
"""A baseline takes five quiet seconds, which begin when the rank is known, and ten steps."""


class Status(enum.StrEnum):
    """The answer in one word."""

    SLOW = "slow"  # a chain is open
    SLOW_WHEN_STOPPED = "slow_when_stopped"  # a chain was open when the exporter stopped
    WAS_SLOW = "was_slow"
    FINE = "fine"
    TOO_EARLY = "too_early"  # no baseline yet
    CHAINS_OFF = "chains_off"
    NO_DATA = "no_data"


class Gap(NamedTuple):
    """A time without records. is_running: the exporter was running. is_begin: there are no older records."""

    began_unix_ns: int
    ended_unix_ns: int
    is_running: bool
    is_begin: bool


@dataclass(frozen=True, slots=True)
class Explanation:
    """A time span that ends now. chains: the worst first, resolved ones last. run: the latest. is_live: it goes on.

    ahead_unix_ns: the latest record that is left out, because the clock was ahead when it was written; 0 if none is.
    chain_id: of the only chain that it is about; "" for all chains of the time span. new_normals: jobs that have not been as fast
    as before since a chain ended; none where it is unknown what holds now.
    """

    since_unix_ns: int
    now_unix_ns: int
    status: Status
    chains: tuple[ChainSummary, ...]
    processes: tuple[ProcessSum, ...]
    gaps: tuple[Gap, ...]
    run: Run | None
    is_live: bool
    ahead_unix_ns: int = 0
    chain_id: str = ""
    new_normals: tuple[NewNormal, ...] = ()

    def process_of(self, chain: ChainSummary) -> ProcessSum | None:
        """What the process of a chain did."""
        return next(
            (one for one in self.processes if one.run == chain.run and one.labels.tgid == chain.event.tgid != 0),
            None,
        )


def explain(
    runs: Sequence[Run],
    events: Iterable[RecordedEvent],
    windows: Iterable[RecordedWindows],
    *,
    selection: Selection,
    since_unix_ns: int,
    now_unix_ns: int,
    ahead_unix_ns: int = 0,
    with_operations: bool = False,
    chain_id: str = "",
) -> Explanation:
    """ahead_unix_ns, chain_id: as in Explanation. with_operations: whether to add the calls of each process, and the lines of
    Python that made slow ones.
    """
    run = runs[-1] if runs else None
    is_live = run is not None and run.is_live(now_unix_ns)
    # Of a chain, also those that wait for it.
    selected = [one for one in events if chain_id or selection.matches(one.event.identity, one.event.tgid)]
    summaries = chain_summaries(
        selected, {one.id: one for one in runs}, run.id if run and is_live else None, since_unix_ns, now_unix_ns
    )
    of_chains = ChainSites(one for one in summaries if not chain_id or one.has(chain_id))
    sums = Sums(selection, with_operations=with_operations)
    sums.add(of_chains.watched(windows))
    chains, processes = of_chains.chains(), sums.processes()
    return Explanation(
        since_unix_ns,
        now_unix_ns,
        _status(chains, processes, run, now_unix_ns),
        tuple(chains),
        processes,
        tuple(_gaps(sums.spans, runs, since_unix_ns, now_unix_ns)),
        run,
        is_live,
        ahead_unix_ns,
        chain_id,
        new_normals(selected, processes, now_unix_ns) if is_live else (),
    )


def _status(
    chains: Sequence[ChainSummary], processes: Sequence[ProcessSum], run: Run | None, now_unix_ns: int
) -> Status:
    states = {chain.state for chain in chains}
    if KnownState.OPEN in states:
        return Status.SLOW
    if KnownState.INTERRUPTED in states:
        return Status.SLOW_WHEN_STOPPED
    if run is not None and not run.has_chains:
        return Status.CHAINS_OFF
    if states:
        return Status.WAS_SLOW
    if not processes:
        return Status.NO_DATA
    return Status.TOO_EARLY if all(_lacks_baseline(one, now_unix_ns) for one in processes) else Status.FINE


def _lacks_baseline(process: ProcessSum, now_unix_ns: int) -> bool:
    steps = process.steps.counts.total
    return now_unix_ns - process.began_unix_ns < BASELINE_NS or 0 < steps < STEPS_NEEDED


def _gaps(spans: Sequence[tuple[int, int]], runs: Sequence[Run], since_unix_ns: int, now_unix_ns: int) -> Iterable[Gap]:
    """Times between spans that are longer than a window may be."""
    longest_ns = max((run.max_gap_ns for run in runs), default=GAP_NS)
    ends = [since_unix_ns, *(ended for _, ended in spans)]
    begins = [*(began for began, _ in spans), now_unix_ns]
    oldest = min((run.began_unix_ns for run in runs), default=now_unix_ns)
    for began, ended in zip(ends, begins, strict=True):
        if ended - began <= longest_ns:
            continue
        is_running = any(run.began_unix_ns < ended and run.seen_unix_ns > began + longest_ns for run in runs)
        is_begin = began == since_unix_ns and oldest >= ended - longest_ns
        yield Gap(began, min(ended, oldest) if is_begin else ended, is_running, is_begin)
