"""Answers that a tenant has made up: thousands of mutants of real ones. A report, or a refusal, and nothing else."""

from __future__ import annotations

import random
from functools import partial

from exporter.ras.job import KnownJob
from exporter.ras.json_form import report_of_json
from exporter.ras.lines import LINES_MAX, lines_of
from exporter.ras.report import RankProcess, Report
from exporter.ras.text_form import report_of_text
from exporter.text.untrusted import LINE_CHARACTERS, Untrusted
from tests.support.counted import lines_run
from tests.support.ras_answers import (
    EIGHT_MISMATCH,
    a_communicator,
    a_missing_rank,
    a_rank,
    in_json,
    in_text,
    without_comma,
)
from tests.unit.ras.test_text_form import DEAD, LAUNCHES_2_26, SILENT_2_26, STATUS_2_24

MUTANTS = 1000
"""Ten times what they take."""
JOB = KnownJob(frozenset({2}), frozenset({RankProcess(2, 0, 41)}), frozenset({41}))
WHOLE = in_json(
    a_communicator([a_rank(0, 41, launched={"AllReduce": 7})], [a_missing_rank(1, 42)]),
    a_communicator([a_rank(0, 41), a_rank(1, 42, launched={"AllReduce": 9}, async_error=3)]),
)
PIECES = (
    b"-1",
    b"99999999999999999999999",
    b"null",
    b"{",
    b"[",
    b'"',
    b"\n",
    b"\x1b[2J",
    b"\xff\xfe",
    b"1e999",
    b"#0-0 (",
)


def mutant(content: bytes, by: random.Random) -> bytes:
    """One to four changes: a piece left out, doubled, moved, replaced, or a byte flipped."""
    found = bytearray(content)
    for _ in range(by.randint(1, 4)):
        at, end = sorted((by.randrange(len(found) + 1), by.randrange(len(found) + 1)))
        end = min(end, at + by.choice((1, 8, 200)))
        piece = bytes(found[at:end])
        match by.randrange(5):
            case 0:
                del found[at:end]
            case 1:
                found[at:at] = piece
            case 2:
                found[at:end] = by.choice(PIECES)
            case 3:
                found[at:at] = by.choice(PIECES)
            case _:
                found[at:end] = bytes(one ^ 1 << by.randrange(8) for one in piece)
    return bytes(found)


def is_bounded(report: Report) -> bool:
    """Lines of evidence: printable, few, and short."""
    lines = lines_of(report, JOB)
    return 0 < len(lines) <= LINES_MAX and all(one.isprintable() and len(one) < LINE_CHARACTERS for one in lines)


def test_every_mutant_is_a_report_or_refused() -> None:
    """Some take the longest way through each expression."""
    by, refused, reports = random.Random(7), 0, []
    text = in_text(EIGHT_MISMATCH, DEAD + SILENT_2_26, LAUNCHES_2_26 + STATUS_2_24)
    for content, read in ((WHOLE, report_of_json), (without_comma(WHOLE), report_of_json), (text, report_of_text)):
        for _ in range(MUTANTS):
            try:
                reports.append(read(mutant(content, by)))
            except Untrusted:
                refused += 1

    assert refused > MUTANTS / 4
    assert len(reports) > MUTANTS / 4
    assert all(map(is_bounded, reports))


def text_that_repeats(count: int) -> str:
    """Four times `count` lines about ranks of one group, communicators and operations."""
    header = "#0-0 (cf264af53edbe986) MISMATCH\n  Communicator ranks have different AllReduce operation counts\n"
    ranks = "  Rank 5 -- GPU 1 managed by process 4705 on node 10.0.0.2\n" * 2 * count
    blocks = "#0-0 (cf264af53edbe986) MISMATCH\n" * count
    operations = "".join(f"  Communicator ranks have different Op{one} operation counts\n" for one in range(count))
    return in_text(
        EIGHT_MISMATCH, warnings=f"{header}  7 ranks have launched up to operation 3\n{ranks}{blocks}{operations}"
    )


def test_lines_that_repeat_take_no_quadratic_time() -> None:
    """Twice as many lines cost at most twice as many lines of Python."""
    once, twice = (lines_run(partial(report_of_text, text_that_repeats(count))) for count in (2_000, 4_000))

    assert twice <= 2 * once
    assert is_bounded(report_of_text(text_that_repeats(10_000)))
