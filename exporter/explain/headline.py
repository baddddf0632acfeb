"""One sentence on an episode: who loses how much to what, since when, how bad it is, through whom, and whether it goes on."""

from __future__ import annotations

from datetime import tzinfo

from exporter.causes import Cause
from exporter.chains.chain import Effect, End
from exporter.chains.event import ChainEvent
from exporter.explain.episodes import EpisodeState, EpisodeSummary
from exporter.explain.formatting import length, percent, time_of_day
from exporter.explain.sums import ProcessSum
from exporter.model import Identity

_MOSTLY = 0.8
"""A cause that explains so much of what is lost is called the cause of all of it."""

_EFFECTS = {
    Effect.LAUNCH: "launches",
    Effect.SYNC: "waits for the GPU",
    Effect.MEMCPY: "copies",
    Effect.ALLOC: "allocations",
    Effect.GRAPH: "captures of graphs",
    Effect.COLLECTIVE: "collectives",
    Effect.GAP: "the time between calls",
    Effect.EXIT: "the end of the process",
}
_WRONG = {
    Cause.NCCL_HANG: "never came to a collective that the others wait in",
    Cause.CRASH: "has crashed",
    Cause.OOM_KILLED: "was ended by the kernel, for want of memory",
    Cause.CUDA_OOM: "has run out of GPU memory",
    Cause.MEMORY_LEAK: "takes more and more of the GPU's memory",
    Cause.GRAPH_ABANDONED: "has begun a capture of a graph that does not end",
}
"""What a process has done, of causes that are no part of its time."""

_ENDS = {
    End.RECOVERED: "It recovered.",
    End.JOB_ENDED: "It ended with the process.",
    End.NEW_NORMAL: "It has been so for five minutes, and counts as usual from then on.",
}


def who(identity: Identity | None, pid: int, comm: str = "") -> str:
    """`rank 3 (pod trainer-0)`, `rank 0 (container 0123456789ab)`, `rank 0 (pid 4027)`, `pid 4027 (python)`."""
    labels = identity or Identity()
    place = f"pod {labels.pod}" if labels.pod else f"container {labels.container}" if labels.container else ""
    if labels.rank:
        place = place or f"pid {pid}" * bool(pid)  # of two jobs without containers both have a rank 0
        return f"rank {labels.rank} ({place})" if place else f"rank {labels.rank}"
    name = f"pid {pid}" if pid else "a process out of sight"
    inside = ", ".join(filter(None, (comm, place)))
    return f"{name} ({inside})" if inside else name


def verdict(episode: EpisodeSummary, process: ProcessSum | None, now_unix_ns: int, zone: tzinfo | None) -> str:
    """The whole sentence, and whether it goes on."""
    report = episode.report
    blamed = _blamed(report, is_over=episode.state is not EpisodeState.GOING_ON)
    severity = report.severity.name.lower()
    told = f"{_lost(episode, process)}, {_when(episode, now_unix_ns, zone)}, {severity}{blamed}."
    return f"{told} {_state(episode, now_unix_ns, zone)}".rstrip()


def one_line(episode: EpisodeSummary, process: ProcessSum | None, now_unix_ns: int, zone: tzinfo | None) -> str:
    """The same, short, for a list that has the time in front."""
    report = episode.report
    told = [f"{_lost(episode, process)} for {length(episode.duration_ns)}", report.severity.name.lower()]
    if report.culprits:
        told.append(f"culprit {report.culprits[0][0]}")
    if episode.state is EpisodeState.LEFT:
        told.append("not known to be over")
    elif report.end is not None and report.end is not End.RECOVERED:
        told.append(report.end.value)
    return ", ".join(told)


def _lost(episode: EpisodeSummary, process: ProcessSum | None) -> str:
    report = episode.report
    is_over = episode.state is not EpisodeState.GOING_ON
    name = who(report.identity, report.tgid, process.labels.comm if process else "")
    share = percent(report.lost_share)
    cause = report.cause.value
    if report.cause in _WRONG:
        return f"{name} {_WRONG[report.cause]} ({cause})"
    if report.cause is Cause.COLD_START:
        return f"{name} had a cold start that took {share} of the time until its steps were steady ({cause})"
    if report.cause is Cause.PEER_RANK:
        return f"{name} {'waited' if is_over else 'waits'} for rank {report.peer} {share} of its time ({cause})"
    if report.cause is Cause.SLOW_RANK:
        return f"the other ranks {'waited' if is_over else 'wait'} for {name}, without a fault of the host ({cause})"
    if report.cause is Cause.NOT_HOST:
        times = f" {1 + report.slowdown:.1f} times" if report.slowdown is not None else ""
        return f"{name} {'was' if is_over else 'is'}{times} slower, and the host is NOT the reason ({cause})"
    part = "" if report.contribution >= _MOSTLY else f" {percent(report.contribution)} of that"
    comma = "," if part else ""
    return f"{name} {'lost' if is_over else 'loses'} {share} of its time{comma}{part} to {cause}"


def slower_calls(report: ChainEvent) -> str:
    """What takes longer."""
    return _EFFECTS[report.effect]


def _when(episode: EpisodeSummary, now_unix_ns: int, zone: tzinfo | None) -> str:
    began = time_of_day(episode.report.began_unix_ns, now_unix_ns, zone)
    for_so_long = length(episode.duration_ns)
    if episode.state is EpisodeState.GOING_ON:
        return f"since {began} ({for_so_long})"
    ended = episode.report.began_unix_ns + episode.duration_ns
    return f"from {time_of_day(episode.report.began_unix_ns, now_unix_ns, zone, with_zone=False)} to " + (
        f"{time_of_day(ended, now_unix_ns, zone)} ({for_so_long})"
    )


def _blamed(report: ChainEvent, *, is_over: bool) -> str:
    if report.culprits:
        name, part = report.culprits[0]
        return f"; {name} took it" if part >= _MOSTLY else f"; {name} took {percent(part)} of it"
    if report.is_chronic:
        return "; it was never better" if is_over else "; it has never been better"
    return ""


def _state(episode: EpisodeSummary, now_unix_ns: int, zone: tzinfo | None) -> str:
    if episode.state is EpisodeState.GOING_ON:
        return "Still going on."
    if episode.state is EpisodeState.LEFT:
        return f"It went on when the exporter was last seen, at {time_of_day(episode.known_until_unix_ns, now_unix_ns, zone)}."
    return _ENDS[episode.report.end] if episode.report.end else ""
