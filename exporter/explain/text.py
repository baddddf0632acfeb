"""An Explanation as text for somebody who has been woken up: the verdict first, then what it costs, why, and what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import tzinfo
from typing import NamedTuple

from exporter.causes import Cause
from exporter.chains.event import ChainEvent
from exporter.explain.episodes import EpisodeState, EpisodeSummary
from exporter.explain.explanation import Explanation, Gap, Status
from exporter.explain.formatting import length, parts, percent, ranks, time_of_day
from exporter.explain.headline import one_line, slower_calls, verdict, who
from exporter.explain.sums import ProcessSum, mean_ns

_FIELD = 8
_MAX_LISTED = 20


class _View(NamedTuple):
    """What is told, and how times are."""

    of: Explanation
    zone: tzinfo | None

    def time(self, unix_ns: int) -> str:
        return time_of_day(unix_ns, self.of.now_unix_ns, self.zone)

    @property
    def span(self) -> str:
        """`the last 5 min`."""
        return f"the last {length(self.of.now_unix_ns - self.of.since_unix_ns)}"


def lines(explanation: Explanation, zone: tzinfo | None = None) -> list[str]:
    """Without line ends. zone: None for the local one."""
    view = _View(explanation, zone)
    told = [*_head(view)]
    going_on = [episode for episode in explanation.episodes if episode.state is not EpisodeState.OVER]
    over = [episode for episode in explanation.episodes if episode.state is EpisodeState.OVER]
    first = going_on[:1] or over[:1]
    for episode in first:
        told += _details(view, episode)
    if going_on[1:]:
        told += ["", "Also going on:" if explanation.status is Status.SLOW else "Also going on then:"]
        told += [f"  {_verdict(view, episode)}" for episode in going_on[1:_MAX_LISTED]]
    earlier = sorted((one for one in over if one not in first), key=lambda one: -one.report.began_unix_ns)
    if earlier:
        told += ["", f"Earlier, in {view.span}:"]
        told += [f"  {view.time(one.report.began_unix_ns)}  {_listed(view, one)}" for one in earlier[:_MAX_LISTED]]
        if len(earlier) > _MAX_LISTED:
            told.append(f"  and {len(earlier) - _MAX_LISTED} before; --format=json has them all")
    told += _foot(view)
    return told


def _head(view: _View) -> Iterator[str]:
    of = view.of
    if not of.is_live:
        yield _not_recording(view)
    worst = of.episodes[0] if of.episodes else None
    if of.status in (Status.SLOW, Status.LEFT_SLOW):
        assert worst is not None  # noqa: S101 - the status says so
        yield _verdict(view, worst)
    elif of.status is Status.WAS_SLOW:
        assert worst is not None  # noqa: S101 - the status says so
        count = "The worst of" if len(of.episodes) > 1 else "In"
        many = f"{len(of.episodes)} episodes in {view.span}" if len(of.episodes) > 1 else view.span
        yield f"Nothing is wrong now. {count} {many}: {_verdict(view, worst)}"
    elif of.status is Status.NOT_JUDGED:
        yield (
            "No verdict: episodes are not looked for, since `run` was started with --no-collector.chains or --no-collector.sched,"
            " or its programs did not load."
        )
    elif of.status is Status.NOTHING_SEEN:
        yield _nothing_seen(view)
    elif of.status is Status.TOO_YOUNG:
        steps = sum(process.steps.counts.total for process in of.processes)
        youngest = min(process.began_unix_ns for process in of.processes)
        yield (
            f"Too early for a verdict: {_whom(of.processes)} known since {view.time(youngest)}, {_count(steps, 'step')} so far;"
            " what is usual is learned from ten steps and five quiet seconds."
        )
    else:
        yield f"No episode in {view.span}; {_totals(of.processes)}."


def _not_recording(view: _View) -> str:
    run = view.of.run
    if run is None:
        return "The exporter has not recorded anything yet."
    how = "stopped" if run.ended_unix_ns is not None else "was last seen"
    ended = run.ended_unix_ns or run.seen_unix_ns
    return f"The exporter {how} at {view.time(ended)}: what follows is what was known then."


def _nothing_seen(view: _View) -> str:
    run, of = view.of.run, view.of
    if of.is_live and run is not None and run.cut_seconds == 0:
        return (
            f"Nothing is known yet: the exporter began at {view.time(run.began_unix_ns)}, and records what it sees every ten"
            " seconds."
        )
    return f"No process made a traced call in {view.span}."


def _verdict(view: _View, episode: EpisodeSummary) -> str:
    sentence = verdict(episode, view.of.process_of(episode), view.of.now_unix_ns, view.zone)
    waiting = _waiting(episode)
    return f"{sentence} {waiting}" if waiting and episode is not view.of.episodes[0] else sentence


def _listed(view: _View, episode: EpisodeSummary) -> str:
    told = one_line(episode, view.of.process_of(episode), view.of.now_unix_ns, view.zone)
    waiting = _waiting(episode)
    return f"{told}; {waiting[:-1]}" if waiting else told


def _waiting(episode: EpisodeSummary) -> str:
    if not episode.waiting:
        return ""
    names = ranks(one.rank for one in episode.waiting)
    is_one = names.startswith("rank ")
    verb = "waited" if episode.state is EpisodeState.OVER else "waits" if is_one else "wait"
    return f"{names[0].upper()}{names[1:]} {verb} for it."


# ---- the worst one


def _details(view: _View, episode: EpisodeSummary) -> Iterator[str]:
    report, process = episode.report, view.of.process_of(episode)
    yield ""
    yield _field("cost", _cost(view, episode, process))
    waiting = _waiting(episode)
    if waiting:
        yield _field("waiting", waiting)
    for number, reason in enumerate(_reasons(report)):
        yield _field("why" if number == 0 else "", reason)
    if episode.proof is not None:
        what = f"{episode.proof.change.value} by intervention at {view.time(episode.proof.at_unix_ns)}"
        yield _field("proof", f"{what}: {'; '.join(episode.proof.evidence)}")
    yield _field("do", report.remedy)
    for command in episode.commands:
        yield _field("", f"  {command}")
    for number, line in enumerate(episode.evidence):
        yield _field("stuck" if number == 0 else "", line)
    yield _field("where", _where(report, process))


def _field(name: str, text: str) -> str:
    return f"  {name:<{_FIELD}}{text}".rstrip()


def _cost(view: _View, episode: EpisodeSummary, process: ProcessSum | None) -> str:
    report, told = episode.report, []
    if report.is_chronic:
        told.append(f"{percent(report.lost_share)} of the time, for as long as the job is known")
    elif report.slowdown is not None and report.usual_step_ns:
        told.append(
            f"steps {'took' if episode.state is not EpisodeState.GOING_ON else 'take'} {1 + report.slowdown:.1f} times as long:"
            f" {length(report.usual_step_ns)} -> {length(report.usual_step_ns * (1 + report.slowdown))}"
        )
    elif report.usual_step_ns:
        told.append(f"no step has ended since; usually one takes {length(report.usual_step_ns)}")
    else:
        told.append(f"{percent(report.lost_share)} of the time; the job makes no steps that recur")
    if episode.state is EpisodeState.GOING_ON and process is not None:
        covered_ns, steps, lost_share = process.since(report.began_unix_ns)
        step_ns = mean_ns(steps)
        if covered_ns:
            step = f"{length(step_ns)} a step, " if step_ns else ""
            told.append(f"lately {step}{percent(lost_share)} of the time lost (over {length(covered_ns)})")
    return "; ".join(told)


def _reasons(report: ChainEvent) -> Iterator[str]:
    if report.cause is Cause.NOT_HOST:
        yield (
            f"{slower_calls(report)} take longer, and CPUs, memory, disks, locks and input of this host explain"
            f" {percent(max(1 - report.contribution, 0.0))} of it"
        )
        if told := parts(report.shares):
            yield f"of it {told}"
        yield "so the GPU (clocks, errors, another user of it), the library, a rank of another node, or the job's own code"
        return
    if report.cause is Cause.NCCL_HANG:
        yield f"all other ranks of the communicator are in a collective that rank {report.peer} has not entered"
        return
    if report.detail:
        yield report.detail
        return
    if report.cause is Cause.CUDA_OOM:
        yield "an allocation failed for want of GPU memory, and none worked afterwards"
        return
    if report.shares:
        yield f"of what is lost: {parts(report.shares)}"
    if report.culprits:
        yield f"of the {report.cause.value}: {parts(report.culprits)}"


def _where(report: ChainEvent, process: ProcessSum | None) -> str:
    identity = report.identity
    known = {
        "node": identity.node if identity else "",
        "container": identity.container if identity else "",
        "pod": identity.pod if identity else "",
        "pid": str(report.tgid or ""),
        "command": process.labels.comm if process else "",
        "cgroup": report.cgroup,
        "chain": report.chain_id,
    }
    return ", ".join(f"{name} {value}" for name, value in known.items() if value)


# ---- the rest


def _foot(view: _View) -> Iterator[str]:
    of = view.of
    if of.status not in (Status.FINE, Status.NOTHING_SEEN, Status.TOO_YOUNG) and of.processes:
        yield ""
        yield f"In {view.span}: {_totals(of.processes)}."
    if of.gaps:
        yield ""
    for gap in of.gaps:
        yield _gap(view, gap)


def _gap(view: _View, gap: Gap) -> str:
    began, ended = view.time(gap.began_unix_ns), view.time(gap.ended_unix_ns)
    if gap.is_begin:
        return f"The history begins at {ended}."
    why = "it could not be written, see the exporter's log" if gap.is_running else "the exporter was not running"
    return f"Nothing was recorded from {began} to {ended} ({length(gap.ended_unix_ns - gap.began_unix_ns)}): {why}."


def _totals(processes: Sequence[ProcessSum]) -> str:
    """`8 ranks made 12,345 steps; 0.8 % of the time lost, most of it to cpu_contention`."""
    steps = sum(process.steps.counts.total for process in processes)
    covered_ns = sum(process.covered_ns for process in processes)
    lost_ns: Counter[str] = Counter()
    for process in processes:
        lost_ns.update(process.lost_ns)
    share = lost_ns.total() / covered_ns if covered_ns else 0.0
    most = f", most of it to {lost_ns.most_common(1)[0][0]}" if share >= 0.001 else ""
    made = f"made {_count(steps, 'step')}" if steps else "made no steps that recur"
    return f"{_whom(processes)} {made}; {percent(share)} of the time lost{most}"


def _whom(processes: Sequence[ProcessSum]) -> str:
    """By name where there is one only."""
    workloads = {process.labels.identity for process in processes}
    if len(workloads) == 1 and len(processes) == 1:
        labels = processes[0].labels
        return who(labels.identity, labels.tgid, labels.comm)
    if len(workloads) == len({one.rank for one in workloads if one.rank}):
        return _count(len(workloads), "rank")
    return _count(len({(one.run, one.number) for one in processes}), "process", "processes")


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"
