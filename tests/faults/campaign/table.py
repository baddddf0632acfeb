"""The figures of a campaign as tables of Markdown, beside those of the other rules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean

from exporter.causes import Cause
from exporter.units import NANOSECONDS, seconds
from tests.faults.campaign.score import STRONG, WEAK, Case, Scored
from tests.faults.diagnosed import Event
from tests.faults.episode import Episode
from tests.faults.figures import Share, quantiles_text, share, share_text

HOUR_SECONDS = 3600

CASE_HEAD = (
    "| episode | impact | expected | after s | reported | contribution off by | verdict |\n"
    "| --- | ---: | --- | ---: | --- | ---: | --- |"
)


def complaints(case: Case) -> list[str]:
    """What is wrong; nothing when all is right."""
    if case.first is None:
        return ["missed"] if case.is_of_the_host else []
    found = [] if case.is_right else [f"cause {case.first.chain.cause.value}"]
    if case.names_culprit is False:
        found.append("culprit")
    if case.chains_of_a_rank > 1:
        found.append(f"{case.chains_of_a_rank} chains")
    return found


def case_row(case: Case) -> str:
    """One line."""
    after_ns, error = case.detected_after_ns, case.contribution_error
    cells = (
        case.episode.name,
        "-" if case.impact is None else f"{case.impact:+.0%}",
        "+".join(sorted(case.accepted)),
        "" if after_ns is None else f"{seconds(after_ns):.2f}",
        ", ".join(f"{one.chain.cause.value} of rank {one.rank}" for one in case.opened) or "nothing",
        "" if error is None else f"{100 * error:.0f} pp",
        "; ".join(complaints(case)) or "right",
    )
    return f"| {' | '.join(cells)} |"


def alarm_row(episode: Episode, alarm: Event) -> str:
    """One line about a false alarm."""
    return f"| {episode.name} | | silence | | {alarm.chain.cause.value} of rank {alarm.rank} | | false alarm |"


def figures(scored: Sequence[Scored]) -> str:
    """The table of a whole campaign."""
    cases = [case for one in scored for case in one.cases]
    of_host = [case for case in cases if case.is_of_the_host]
    strong = [case for case in of_host if case.is_strong]
    weak = [case for case in of_host if case.is_weak]
    quiet_ones = [case for case in cases if case.episode.costs_nothing]
    found = [case for case in cases if case.first]
    false_alarms = [alarm for one in scored for alarm in one.false_alarms]
    disturbed = sum(len(one.disturbed) for one in scored)
    unsettled = sum(one.unsettled for one in scored)
    quiet_hours = seconds(sum(one.quiet_ns for one in scored)) / HOUR_SECONDS
    of_gpu = [case for case in cases if case.episode.cause is Cause.GPU]
    right = sum(len(case.opened) > 0 for case in cases)
    noise = [share for one in scored for share in one.noise]
    errors = [case.contribution_error for case in strong if case.contribution_error is not None]
    rules = [rule for one in scored for rule in one.false_rules]
    rows = [
        ("episodes with an impact", str(len(cases)), ""),
        (
            "precision",
            share_text(Share(right, right + len(false_alarms))),
            share_text(share([True] * sum(map(_is_ruled, cases)) + [False] * len(rules))),
        ),
        (
            f"recall at {STRONG:.0%} and more",
            share_text(share(map(_is_found, strong))),
            share_text(share(map(_is_ruled, strong))),
        ),
        (
            f"recall from {WEAK[0]:.0%} to {WEAK[1]:.0%}",
            share_text(share(map(_is_found, weak))),
            share_text(share(map(_is_ruled, weak))),
        ),
        (
            "recall of what makes no step longer",
            share_text(share(map(_is_found, quiet_ones))),
            share_text(share(map(_is_ruled, quiet_ones))),
        ),
        (
            "right cause first",
            share_text(share(case.is_right for case in of_host if case.first)),
            share_text(share(_is_ruled_right(case) for case in of_host if case.alarms)),
        ),
        (
            "right culprit",
            share_text(share(bool(case.names_culprit) for case in cases if case.names_culprit is not None)),
            "names none",
        ),
        (f"time to detect at {STRONG:.0%} and more", _times(strong), _rule_times(strong)),
        (f"time to detect from {WEAK[0]:.0%} to {WEAK[1]:.0%}", _times(weak), _rule_times(weak)),
        (
            "blames no resource of the host for a slow GPU",
            share_text(share(case.first is None or case.first.chain.cause is Cause.GPU for case in of_gpu)),
            share_text(share(not case.alarms for case in of_gpu)),
        ),
        (
            "chains of a rank and episode",
            f"{fmean(case.chains_of_a_rank for case in found):.2f}" if found else "-",
            f"{fmean(len({rule.rule for rule in case.alarms}) for case in cases):.1f}" if cases else "-",
        ),
        (
            "false alarms in an hour",
            f"{len(false_alarms) / quiet_hours:.1f} ({len(false_alarms)} in {quiet_hours:.2f} h)"
            if quiet_hours
            else "-",
            f"{len(rules) / quiet_hours:.0f}" if quiet_hours else "-",
        ),
        (
            f"contribution, mean error at {STRONG:.0%} and more",
            f"{100 * fmean(errors):.1f} pp of {len(errors)}" if errors else "-",
            "shows none",
        ),
        ("the same of pairs without a fault", f"{100 * fmean(noise):.1f} pp of {len(noise)}" if noise else "-", ""),
        ("episodes left out: steps had become longer of themselves just before", str(unsettled), ""),
        ("chains without an injected fault while steps were longer", str(disturbed), ""),
    ]
    head = "| figure | chains | rules of co-occurrence |\n| --- | ---: | ---: |"
    return "\n".join([head, *(f"| {' | '.join(row)} |" for row in rows)])


def _is_found(case: Case) -> bool:
    return case.first is not None


def _is_ruled(case: Case) -> bool:
    return bool(case.alarms)


def _is_ruled_right(case: Case) -> bool:
    """Whether the cause is among those that the first alarm names."""
    return bool(case.accepted & set(case.alarms[0].causes))


def _times(cases: Iterable[Case]) -> str:
    return quantiles_text(
        [case.detected_after_ns / NANOSECONDS for case in cases if case.detected_after_ns is not None]
    )


def _rule_times(cases: Iterable[Case]) -> str:
    return quantiles_text([(case.alarms[0].now_ns - case.began_ns) / NANOSECONDS for case in cases if case.alarms])
