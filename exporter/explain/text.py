"""An Explanation as text for a person who was woken up: first the verdict, then the cost, the reason, and what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import tzinfo
from typing import NamedTuple

from exporter.causes import JOB_CAUSES, LOST_TIME_CAUSES, Cause
from exporter.chains.event import ChainEvent
from exporter.explain.chain_summary import ChainSummary
from exporter.explain.explanation import Explanation, Gap, Status
from exporter.explain.headline import one_line, slower_calls, verdict
from exporter.explain.sums import ProcessSum, mean_ns
from exporter.history.process_names import process_name
from exporter.history.recorded_chains import KnownState
from exporter.model import fairly
from exporter.python.call_site import LINES
from exporter.text import figures
from exporter.text.figures import percent, ranks, time_of_day
from exporter.text.printable import printable
from exporter.text.shell import shell_word

_NAME_WIDTH = 8
FIELD_INDENT = 2 + _NAME_WIDTH
"""Column of the text of a field; commands to paste stand further to the right."""

_MAX_LISTED = 20
_MAX_LINES = 3
_LINE_SHARE_MIN = 0.05  # slow calls that take less of the chain's time do not explain it


class _View(NamedTuple):
    """An explanation, and the zone of its times."""

    of: Explanation
    zone: tzinfo | None

    def time(self, unix_ns: int) -> str:
        return time_of_day(unix_ns, self.of.now_unix_ns, self.zone)

    @property
    def span(self) -> str:
        """`the last 5 min`."""
        began_unix_ns = next((gap.ended_unix_ns for gap in self.of.gaps if gap.is_begin), self.of.since_unix_ns)
        return f"the last {figures.duration(self.of.now_unix_ns - began_unix_ns)}"


def lines(explanation: Explanation, zone: tzinfo | None = None) -> list[str]:
    """Without line ends. zone: None for the local one."""
    view = _View(explanation, zone)
    text = [*_head(view)]
    worst, others = explanation.chains[:1], explanation.chains[1:]
    for chain in worst:
        text += _details(view, chain)
    unresolved = fairly((chain for chain in others if chain.state is not KnownState.RESOLVED), _tenant)
    if unresolved:
        is_open = explanation.status is Status.SLOW
        other = "Other open" if worst[0].state is not KnownState.RESOLVED else "Open"
        text += ["", f"{other} chains:" if is_open else "Other chains that were open then:"]
        text += [f"  {_verdict(view, chain)}" for chain in unresolved[:_MAX_LISTED]]
        text += _left_out(len(unresolved), "more")
    resolved = [chain for chain in others if chain.state is KnownState.RESOLVED]
    earlier = sorted(resolved, key=lambda one: -one.event.began_unix_ns)
    if earlier:
        text += ["", f"Earlier, in {view.span}:"]
        listed = set(map(id, fairly(earlier, _tenant)[:_MAX_LISTED]))
        text += [
            f"  {view.time(one.event.began_unix_ns)}  {_listed(view, one)}" for one in earlier if id(one) in listed
        ]
        text += _left_out(len(earlier), "others")
    text += _foot(view)
    return text


def _tenant(chain: ChainSummary) -> str:
    return chain.event.identity.tenant if chain.event.identity else ""


def _left_out(chains: int, what: str) -> Iterator[str]:
    if chains > _MAX_LISTED:
        yield f"  and {chains - _MAX_LISTED} {what}; --format=json lists all"


def summary(explanation: Explanation, zone: tzinfo | None = None) -> str:
    """The verdict in a sentence or two. zone: as in lines()."""
    return " ".join(_head(_View(explanation, zone)))


def _head(view: _View) -> Iterator[str]:
    of = view.of
    if not of.is_live:
        yield _not_recording(view)
    if of.new_normals and of.status is not Status.SLOW and not of.chain_id:
        yield _new_normal(view)
    if of.status in (Status.SLOW, Status.SLOW_WHEN_STOPPED):
        yield _verdict(view, of.chains[0])
    elif of.status is Status.WAS_SLOW:
        many = f"The worst of {len(of.chains)} chains in" if len(of.chains) > 1 else "In"
        if of.chains[0].is_failure or of.chain_id:
            yield _verdict(view, of.chains[0])
        else:
            now = (
                "No chain is open"
                if of.new_normals
                else "Nothing is slow now"
                if of.is_live
                else "No chain was open then"
            )
            yield f"{now}. {many} {view.span}: {_verdict(view, of.chains[0])}"
    elif of.status is Status.CHAINS_OFF:
        yield (
            "No verdict: chains are off, because `run` was started with --no-collector.chains or --no-collector.sched, or"
            " because its programs did not load."
        )
    elif of.status is Status.NO_DATA:
        yield _no_data(view)
    elif of.status is Status.TOO_EARLY:
        steps = sum(process.steps.counts.total for process in of.processes)
        youngest = min(process.began_unix_ns for process in of.processes)
        yield (
            f"Too early for a verdict: {_names(of.processes)} first seen at {view.time(youngest)},"
            f" {_count(steps, 'step')} so far; a baseline takes ten steps and five quiet seconds."
        )
    else:
        yield f"No slowdown in {view.span}; {_totals(of.processes, ())}."


def _new_normal(view: _View) -> str:
    """The job that has become slowest, and how many others there are."""
    first, *others = view.of.new_normals
    labels, event = first.process.labels, first.event
    lengths = f"{figures.duration(event.usual_step_ns)} -> {figures.duration(first.step_ns)}"
    more = f" The same holds for {_count(len(others), 'more process', 'more processes')}." if others else ""
    name = process_name(labels.identity, labels.tgid, labels.comm)
    return (
        f"Steps of {name} take {figures.factor(first.ratio)} times as long as before"
        f" {view.time(event.began_unix_ns)}: {lengths} ({event.cause.value}); this has become their normal length.{more}"
    )


def _not_recording(view: _View) -> str:
    run = view.of.run
    if run is None:
        return "The exporter has not recorded anything yet."
    how = "stopped" if run.ended_unix_ns is not None else "last wrote"
    ended = run.ended_unix_ns or run.seen_unix_ns
    return f"The exporter {how} at {view.time(ended)}; this is what was known then."


def _no_data(view: _View) -> str:
    run, of = view.of.run, view.of
    if of.is_live and run is not None and run.window_seconds == 0:
        return f"No data yet: the exporter started at {view.time(run.began_unix_ns)} and records every ten seconds."
    return f"No process made a traced call in {view.span}."


def _verdict(view: _View, chain: ChainSummary) -> str:
    sentence = verdict(chain, view.of.process_of(chain), view.of.now_unix_ns, view.zone)
    waiting = _waiting(chain)
    return f"{sentence} {waiting}" if waiting and chain is not view.of.chains[0] else sentence


def _listed(view: _View, chain: ChainSummary) -> str:
    line = one_line(chain, view.of.process_of(chain))
    waiting = _waiting(chain)
    return f"{line}; {waiting[:-1]}" if waiting else line


def _waiting(chain: ChainSummary) -> str:
    if not chain.waiting:
        return ""
    names = ranks(one.rank for one in chain.waiting)
    is_one = names.startswith("rank ")
    verb = "waited" if chain.state is KnownState.RESOLVED else "waits" if is_one else "wait"
    return f"{names[0].upper()}{names[1:]} {verb} for it."


# ---- the worst chain


def _details(view: _View, chain: ChainSummary) -> Iterator[str]:
    event, process = chain.event, view.of.process_of(chain)
    yield ""
    if cost := _cost(chain, process):
        yield _field("cost", cost)
    waiting = _waiting(chain)
    if waiting:
        yield _field("waiting", waiting)
    for number, reason in enumerate(_reasons(event)):
        yield _field("why" if number == 0 else "", reason)
    if chain.confirmation is not None:
        result = f"{chain.confirmation.change.value} at {view.time(chain.confirmation.at_unix_ns)}"
        yield _field("tested", f"{result}: {'; '.join(chain.confirmation.evidence)}")
    yield _field("do", event.remedy)
    for command in chain.commands:
        yield _field("", f"  {printable(command)}")
    has_lines = chain.evidence[:1] == (LINES,)
    for number, line in enumerate(chain.evidence):
        yield _field("" if number else "lines" if has_lines else "stacks", line)
    if not has_lines:
        yield from _slow_lines(chain)
    for number, line in enumerate(chain.ras):
        yield _field("" if number else "nccl", line)
    yield _field("where", _where(event, process))


def _slow_lines(chain: ChainSummary) -> Iterator[str]:
    """The lines of Python whose calls were slow while the chain was open."""
    sites = [one for one in chain.call_sites if one.total_ns >= _LINE_SHARE_MIN * chain.duration_ns]
    for number, one in enumerate(sites[:_MAX_LINES]):
        calls = _count(one.calls, "slow call")
        took = f"{figures.duration(one.total_ns)} in {calls}, {figures.duration(one.total_ns / max(one.calls, 1))} each"
        bound = f" (slow from {figures.duration(one.slow_from_ns)})" if one.slow_from_ns else ""
        yield _field("lines" if number == 0 else "", f"{one.operation}: {took}{bound}, from {one.stack.place}")
    left_out = len(sites) - _MAX_LINES
    if left_out > 0:
        yield _field("", f"and {_count(left_out, 'more place')}; --format=json lists all")


def _field(name: str, text: str) -> str:
    return f"  {name:<{_NAME_WIDTH}}{text}".rstrip()


def _cost(chain: ChainSummary, process: ProcessSum | None) -> str:
    """ "" for a chain without a cost of its own, such as a crash or a lasting change."""
    event, is_open = chain.event, chain.state is KnownState.OPEN
    costs = []
    if event.is_chronic:
        costs.append(f"{percent(event.lost_share)} of the time lost since the job was first seen")
    elif (slowdown := event.present.slowdown) is not None and event.usual_step_ns:
        costs.append(
            f"steps {'take' if is_open else 'took'} {figures.factor(1 + slowdown)} times as long:"
            f" {figures.duration(event.usual_step_ns)} -> {figures.duration(event.usual_step_ns * (1 + slowdown))}"
        )
    elif event.usual_step_ns:
        costs.append(f"no step has ended since then; the baseline is {figures.duration(event.usual_step_ns)} a step")
    elif event.lost_share:
        without_steps = "" if event.cause is Cause.COLD_START else "; the job has no recurring steps"
        costs.append(f"{percent(event.lost_share)} of the time lost{without_steps}")
    if is_open and process is not None and event.now is None:
        covered_ns, steps = process.since(event.began_unix_ns)
        step_ns = mean_ns(steps)
        if step_ns:
            costs.append(f"in the last {figures.duration(covered_ns)} {figures.duration(step_ns)} a step")
    return "; ".join(costs)


_OWN = {
    Cause.OWN_CODE: "code of the job computes on the CPU between CUDA calls",
    Cause.OWN_WAIT: "the job sleeps, waits for a child process or for an event between CUDA calls",
}


def _reasons(event: ChainEvent) -> Iterator[str]:
    if event.cause in JOB_CAUSES:
        what = f"{slower_calls(event)} take longer" if event.cause is Cause.GPU else _OWN[event.cause]
        yield f"{what}: {percent(event.contribution)} of the slowdown"
        if shares := figures.named_shares(event.shares):
            yield f"shares by cause: {shares}"
        return
    if event.cause in (Cause.STALLED, Cause.CHANGED):
        yield event.detail
        return
    if event.cause is Cause.NCCL_HANG:
        yield f"all other ranks of the communicator wait in a collective that rank {event.peer} has not joined"
        return
    if event.detail:
        yield event.detail
        return
    if event.cause is Cause.CUDA_OOM:
        yield "an allocation failed because GPU memory was full, and none has succeeded since"
        return
    if event.shares:
        yield f"lost time by cause: {figures.named_shares(event.shares)}"
    if culprits := event.present.culprits:
        yield f"{event.cause.value} by culprit: {figures.named_shares(culprits)}"


def _where(event: ChainEvent, process: ProcessSum | None) -> str:
    identity = event.identity
    known = {
        "node": identity.node if identity else "",
        "container": identity.container if identity else "",
        "pod": identity.pod if identity else "",
        "pid": str(event.tgid or ""),
        "command": _quoted(process.labels.comm) if process else "",
        "cgroup": _quoted(event.cgroup),
        "chain": event.chain_id,
    }
    return ", ".join(f"{name} {value}" for name, value in known.items() if value)


def _quoted(value: str) -> str:
    """What a tenant chose, in quotes unless it is plain: it may read like a command, or like the next item of the list."""
    return shell_word(value) if value else ""


# ---- the rest


def _foot(view: _View) -> Iterator[str]:
    of = view.of
    if of.status not in (Status.FINE, Status.NO_DATA, Status.TOO_EARLY) and of.processes:
        yield ""
        yield f"In {view.span}: {_totals(of.processes, of.chains)}."
    missing = list(gap_lines(of, view.zone))
    if missing:
        yield ""
    yield from missing


def gap_lines(of: Explanation, zone: tzinfo | None = None) -> Iterator[str]:
    """A sentence for each time without records, and one for records that are left out."""
    view = _View(of, zone)
    for gap in of.gaps:
        yield _gap(view, gap)
    if of.ahead_unix_ns:
        ahead = figures.duration(of.ahead_unix_ns - of.now_unix_ns)
        yield f"The clock has been set back: records up to {view.time(of.ahead_unix_ns)}, {ahead} from now, are left out."


def _gap(view: _View, gap: Gap) -> str:
    began, ended = view.time(gap.began_unix_ns), view.time(gap.ended_unix_ns)
    if gap.is_begin:
        return f"The history begins at {ended}."
    reason = "it could not be written, see the exporter's log" if gap.is_running else "the exporter was not running"
    return f"Nothing was recorded from {began} to {ended} ({figures.duration(gap.ended_unix_ns - gap.began_unix_ns)}): {reason}."


def _totals(processes: Sequence[ProcessSum], chains: Sequence[ChainSummary]) -> str:
    """`8 ranks made 12,345 steps; 0.8 % of the time lost, most of it to cpu_contention`.

    Without the lost time where a chain has another cause than a resource of the host: the accounting charges what threads wait
    for, such as a lock while a rank is missing.
    """
    steps = sum(process.steps.counts.total for process in processes)
    made = _count(steps, "step") if steps else "no recurring steps"
    made = f"{_names(processes)} made {made}"
    if any(one.event.cause not in LOST_TIME_CAUSES for chain in chains for one in (chain, *chain.waiting)):
        return made
    covered_ns = sum(process.covered_ns for process in processes)
    lost_ns: Counter[str] = Counter()
    for process in processes:
        lost_ns.update(process.lost_ns)
    share = min(lost_ns.total() / covered_ns, 1.0) if covered_ns else 0.0
    most = f", most of it to {lost_ns.most_common(1)[0][0]}" if share >= 0.001 else ""
    return f"{made}; {percent(share)} of the time lost{most}"


def _names(processes: Sequence[ProcessSum]) -> str:
    """The name of the only process, which each run of the exporter has recorded, or how many ranks or processes there are."""
    workloads = {process.labels.identity for process in processes}
    if len({process.labels for process in processes}) == 1:
        labels = processes[0].labels
        return process_name(labels.identity, labels.tgid, labels.comm)
    if len(workloads) == len({one.rank for one in workloads if one.rank}):
        return _count(len(workloads), "rank")
    return _count(len({(one.run, one.number) for one in processes}), "process", "processes")


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"
