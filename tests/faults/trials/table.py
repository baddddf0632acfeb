"""The figures of trials as tables of Markdown: of shapes that the detection was tuned on, and of those that it was not."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from exporter.units import NANOSECONDS, seconds
from tests.faults.figures import Share, quantiles_text, share, share_text
from tests.faults.trials.plan import HOST
from tests.faults.trials.score import Case

HOUR_SECONDS = 3600
CASE_HEAD = (
    "| trial | wanted | steps longer | lost | expected | after s | reported | booked | verdict |\n"
    "| --- | ---: | ---: | ---: | --- | ---: | --- | ---: | --- |"
)


def complaints(case: Case) -> list[str]:
    """What is wrong; nothing when all is right."""
    found = [f"false alarm: {event.chain.cause.value}" for event in case.false_alarms]
    if case.is_fault and case.first is None:
        found.append("missed")
    if case.first is not None and not case.is_right:
        found.append("cause")
    if case.names_culprit is False:
        found.append("culprit")
    return found


def verdict(case: Case) -> str:
    """In a word, or what is wrong."""
    if not case.truth.is_settled:
        return "left out: steps had changed just before"
    nothing_wrong = "right" if case.is_fault else "decoy did harm" if case.is_harmful_decoy else "silent"
    if not case.is_decoy and not case.is_fault:
        nothing_wrong = "no fault: steps were hardly longer"
    return "; ".join(complaints(case)) or nothing_wrong


def case_row(case: Case) -> str:
    """One line."""
    after_ns = case.detected_after_ns
    cells = (
        f"{case.planned.name} ({case.planned.extra}{', CPU ' + case.planned.cpus if case.planned.cpus else ''})",
        ", ".join(f"{fault.share:+.0%}" for fault in case.planned.faults),
        f"{case.truth.impact:+.0%}",
        f"{case.truth.lost_share:.0%}",
        "+".join([*sorted(case.accepted), *(["silence"] if case.is_decoy else [])]),
        "" if after_ns is None else f"{seconds(after_ns):.2f}",
        ", ".join(_named(event.chain.cause.value, event.chain.culprits) for event in case.reported) or "nothing",
        "" if case.booked is None else f"{case.booked.booked_ns / case.booked.wall_ns:.0%}",
        verdict(case),
    )
    return f"| {' | '.join(cells)} |"


def _named(cause: str, culprits: Sequence[tuple[str, float]]) -> str:
    return f"{cause} ({culprits[0][0]})" if culprits and culprits[0][0] else cause


def figures(tuned: Sequence[Case], held_out: Sequence[Case]) -> str:
    """Both, side by side, and the rules of co-occurrence over all."""
    columns = [_column(cases) for cases in (tuned, held_out)]
    rules = _rules([*tuned, *held_out])
    head = (
        "| figure | tuned shapes | held-out shapes | rules of co-occurrence, all shapes |\n| --- | ---: | ---: | ---: |"
    )
    rows = (f"| {name} | {columns[0][name]} | {columns[1][name]} | {rules.get(name, '')} |" for name in columns[0])
    return "\n".join([head, *rows])


def _column(cases: Sequence[Case]) -> dict[str, str]:
    faults = [case for case in cases if case.is_fault]
    found = [case for case in faults if case.first]
    opened = [case.is_right_event(event) for case in faults for event in case.opened]
    false_alarms = sum(len(case.false_alarms) for case in cases)
    counted = [case for case in cases if not case.is_harmful_decoy]
    hours = seconds(sum(case.quiet_ns for case in counted)) / HOUR_SECONDS
    entries = [(case, case.booked) for case in faults if case.booked]
    of_host = [one for case, one in entries if case.accepted & HOST]
    after = [case.detected_after_ns / NANOSECONDS for case in found if case.detected_after_ns is not None]
    return {
        "trials": str(len(cases)),
        "faults that made steps longer": str(len(faults)),
        "meant as a fault, without effect": str(sum(not case.is_decoy and not case.is_fault for case in cases)),
        "decoys that made steps longer": str(sum(case.is_harmful_decoy for case in cases)),
        "found": share_text(share(case.first is not None for case in faults)),
        "right cause first": share_text(share(case.is_right for case in found)),
        "right cause, of all faults": share_text(share(case.is_right for case in faults)),
        "precision of chains": share_text(Share(sum(opened), len(opened) + false_alarms)),
        "right culprit": share_text(
            share(bool(case.names_culprit) for case in faults if case.names_culprit is not None)
        ),
        "own work and GPU distinguished": share_text(
            share(bool(case.is_distinguished) for case in faults if case.is_distinguished is not None)
        ),
        "false alarms in an hour": f"{false_alarms / hours:.1f} ({false_alarms} in {hours:.2f} h)" if hours else "-",
        "chains while steps were longer without a fault": str(sum(len(case.disturbed) for case in cases)),
        "time to detect": quantiles_text(after),
        "booked, mean error of the time": _mean([one.error_of_wall for _, one in entries], "pp"),
        "booked, mean error of what was lost": _mean([one.error_of_lost for _, one in entries], "%"),
        "the same of host resources": _mean([one.error_of_lost for one in of_host], "%"),
    }


def _rules(cases: Sequence[Case]) -> dict[str, str]:
    faults = [case for case in cases if case.is_fault]
    found = [case for case in faults if case.rules]
    hours = seconds(sum(case.quiet_ns for case in cases)) / HOUR_SECONDS
    names = sum(len({rule.rule for rule in case.false_rules}) for case in cases)
    return {
        "found": share_text(share(bool(case.rules) for case in faults)),
        "right cause first": share_text(share(bool(case.accepted & set(case.rules[0].causes)) for case in found)),
        "false alarms in an hour": f"{names / hours:.0f}" if hours else "-",
    }


def _mean(values: Sequence[float], unit: str) -> str:
    return f"{100 * fmean(values):.1f} {unit} of {len(values)}" if values else "-"
