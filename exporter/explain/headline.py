"""One sentence about a chain: which rank loses how much time to which cause, since when, how severe, and the culprit."""

from __future__ import annotations

from datetime import tzinfo

from exporter.causes import JOB_CAUSES, Cause
from exporter.chains.chain import Effect, End
from exporter.chains.event import ChainEvent
from exporter.explain.chain_summary import ChainSummary
from exporter.explain.sums import ProcessSum
from exporter.history.process_names import process_name
from exporter.history.recorded_chains import KnownState
from exporter.text import figures
from exporter.text.figures import percent, time_of_day

_MOSTLY = 0.8
"""A culprit with at least this share is named without the share."""

_SLOWER_CALLS = {
    Effect.LAUNCH: "launches",
    Effect.SYNC: "waits for the GPU",
    Effect.MEMCPY: "copies",
    Effect.ALLOC: "allocations",
    Effect.GRAPH: "captures of graphs",
    Effect.COLLECTIVE: "collectives",
    Effect.GAP: "the times between calls",
    Effect.STEP: "steps",
    Effect.EXIT: "the end of the process",
}
_FAILURES = {
    Cause.NCCL_HANG: "has not joined a collective that the other ranks wait in",
    Cause.CRASH: "crashed",
    Cause.OOM_KILLED: "was killed by the kernel because memory was full",
    Cause.CUDA_OOM: "ran out of GPU memory",
    Cause.MEMORY_LEAK: "uses more and more GPU memory",
    Cause.STALLED: "makes no progress",
    Cause.GRAPH_ABANDONED: "started a graph capture that does not end",
}
"""What the process did, for causes that are not charged with lost time."""

_MOMENTS = (Cause.CRASH, Cause.OOM_KILLED, Cause.CUDA_OOM)
"""What happened at one moment: it takes no time."""

_BECAUSE = {
    Cause.OWN_CODE: "because its own code computes while the GPU waits",
    Cause.OWN_WAIT: "because it sleeps or waits for its own child processes or events",
    Cause.GPU: "because calls that wait for the GPU take longer; no host resource explains it",
}

_ENDS = {
    End.RECOVERED: "It recovered.",
    End.JOB_ENDED: "It ended with the process.",
    End.CHANGED: "It lasted for a minute without a cause on the host and is now the baseline.",
}
_SHORT_ENDS = {End.JOB_ENDED: "ended with the process", End.CHANGED: "became the baseline"}


def verdict(chain: ChainSummary, process: ProcessSum | None, now_unix_ns: int, zone: tzinfo | None) -> str:
    """The whole sentence, and whether the chain is still open."""
    severity = chain.event.severity.name.lower()
    sentence = f"{_effect(chain, process)}, {_when(chain, now_unix_ns, zone)}, severity {severity}{_culprit(chain)}."
    return f"{sentence} {_state(chain, now_unix_ns, zone)}".rstrip()


def one_line(chain: ChainSummary, process: ProcessSum | None) -> str:
    """A short sentence for a list that has the time in front."""
    event = chain.event
    length = "" if event.cause in _MOMENTS else f" for {figures.duration(chain.duration_ns)}"
    facts = [f"{_effect(chain, process)}{length}", event.severity.name.lower()]
    if culprit := event.culprit:
        facts.append(f"culprit {culprit}")
    if chain.state is KnownState.INTERRUPTED:
        facts.append("end not known")
    elif event.end in _SHORT_ENDS and event.cause not in _MOMENTS:
        facts.append(_SHORT_ENDS[event.end])
    return ", ".join(facts)


def slower_calls(event: ChainEvent) -> str:
    """The calls that take longer."""
    return _SLOWER_CALLS[event.effect]


def _effect(chain: ChainSummary, process: ProcessSum | None) -> str:
    event = chain.event
    is_open = chain.state is KnownState.OPEN
    name = process_name(event.identity, event.tgid, process.labels.comm if process else "")
    share, worst = event.lost(is_over=not is_open)
    cause = event.cause.value
    if event.cause in _FAILURES:
        detail = f": {event.detail}" if event.detail and event.cause in _MOMENTS else ""
        named = "" if event.cause is Cause.CRASH else f" ({cause})"
        return f"{name} {_FAILURES[event.cause]}{named}{detail}"
    if event.cause is Cause.COLD_START:
        return f"{name} had a cold start and lost {share} of the time until its steps were steady ({cause})"
    if event.cause is Cause.PEER_RANK:
        return (
            f"{name} {'waits' if is_open else 'waited'} for rank {event.peer} for {share} of its time{worst} ({cause})"
        )
    if event.cause is Cause.SLOW_RANK:
        verb = "wait" if is_open else "waited"
        return f"the other ranks {verb} for {name}, and no host resource explains why ({cause})"
    if event.cause is Cause.CHANGED:
        return f"{name} has a new normal: {event.detail} ({cause})"
    if event.cause in JOB_CAUSES:
        slowdown = event.present.slowdown
        if slowdown is None:
            return f"{name} {'is' if is_open else 'was'} slower {_BECAUSE[event.cause]} ({cause})"
        take = f"{'take' if is_open else 'took'} {figures.factor(1 + slowdown)} times as long"
        return f"steps of {name} {take} {_BECAUSE[event.cause]} ({cause})"
    return f"{name} {'loses' if is_open else 'lost'} {share} of its time to {cause}{worst}"


def _when(chain: ChainSummary, now_unix_ns: int, zone: tzinfo | None) -> str:
    began_unix_ns, duration = chain.event.began_unix_ns, figures.duration(chain.duration_ns)
    if chain.event.cause in _MOMENTS:
        return f"at {time_of_day(began_unix_ns, now_unix_ns, zone)}"
    if chain.state is KnownState.OPEN:
        return f"since {time_of_day(began_unix_ns, now_unix_ns, zone)} ({duration})"
    began = time_of_day(began_unix_ns, now_unix_ns, zone, with_zone=False)
    ended = time_of_day(began_unix_ns + chain.duration_ns, now_unix_ns, zone)
    return f"from {began} to {ended} ({duration})"


def _culprit(chain: ChainSummary) -> str:
    event = chain.event
    if event.present.culprits:
        name, part = event.present.culprits[0]
        return f"; culprit {name}" if part >= _MOSTLY else f"; culprit {name} ({percent(part)} of it)"
    return "; it was never faster" if event.is_chronic else ""


def _state(chain: ChainSummary, now_unix_ns: int, zone: tzinfo | None) -> str:
    if chain.event.cause in _MOMENTS:
        return ""  # that it ended with the process says nothing about a crash
    if chain.state is KnownState.OPEN:
        return "Still going on."
    if chain.state is KnownState.INTERRUPTED:
        last = time_of_day(chain.known_until_unix_ns, now_unix_ns, zone)
        return f"It was still going on when the exporter last wrote, at {last}."
    return _ENDS[chain.event.end] if chain.event.end else ""
