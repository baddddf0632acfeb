"""docs/investigations.md: the table of the results, and the questions with their answers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Final

from tests.faults.investigations.investigator import CALLS_MAX, CHARACTERS_PER_TOKEN, Call
from tests.faults.investigations.judged import TOKENS_MAX, Judged
from tests.faults.investigations.played import ASKED_AFTER_SECONDS

SHOWN: Final = frozenset(("status", "summary", "cause", "who", "culprits", "causes", "remedy", "lines_with_most_time"))
"""Fields of answers that transcripts have."""
LINE_CHARACTERS: Final = 320
_FIELD: Final = re.compile(r"^( *)(?:- )?([a-z_]+):")
YES_NO: Final = {True: "yes", False: "**no**"}

HEAD: Final = f"""\
# Investigations

For engineers who want to know how far an assistant gets with the tools of [`serve`](serve.md): ten faults in running jobs, each
found by a program that knows nothing of it. `make investigations FLAGS=--write` plays them, on a machine where nothing else uses
CUDA, and writes this page.

The jobs are programs of `tests/faults/shapes`, real PyTorch on the stand-in GPU. When one has its rhythm, its fault begins, which
makes its steps several times as long. {ASKED_AFTER_SECONDS:g} s later the official client of the Model Context Protocol connects
to `serve` over HTTPS, with a token, and does what the prompt `investigate` says. It calls `explain`, then the call that each
answer names in `next`, until it has seen the worst chain in full and a line of Python, or has made {CALLS_MAX} calls. It reads
answers only.

An investigation is right that has the true cause and the true culprit, in at most {CALLS_MAX} calls and {TOKENS_MAX:,} tokens.
Some faults have no culprit to name, such as a lowered quota, and some no line. Tokens are the characters of all answers divided
by {CHARACTERS_PER_TOKEN:g}, which is more than the tokenizers of usual models count.

"""


def document(judged: Sequence[Judged]) -> str:
    """The page."""
    return HEAD + "\n".join([*_table(judged), "", *_transcripts(judged)]) + "\n"


def _table(judged: Sequence[Judged]) -> Iterator[str]:
    right = sum(one.is_right for one in judged)
    with_line = [one.has_line for one in judged if one.has_line is not None]
    yield f"{right} of {len(judged)} are right; {sum(with_line)} of {len(with_line)} lines are."
    yield ""
    yield "| fault | cause | right | culprit | right | line | right | calls | tokens |"
    yield "| --- | --- | --- | --- | --- | --- | --- | ---: | ---: |"
    for one in judged:
        yield table_row(one)


def table_row(one: Judged) -> str:
    """One case."""
    found = one.findings
    culprit = found.culprit if not one.case.rank else found.who
    line = f"`{one.line.function}`, {one.line.file.rpartition('/')[2]}:{one.line.number}" if one.line else "none"
    cells = (
        f"{one.case.name}: {one.case.says}",
        f"`{found.cause}`" if found.cause else "none",
        YES_NO[one.has_cause],
        f"`{culprit}`" if culprit else "none",
        YES_NO.get(one.has_culprit, "none to name"),
        line if one.case.lines else "",
        YES_NO.get(one.has_line, ""),
        str(len(found.calls)),
        f"{found.tokens:,}",
    )
    return f"| {' | '.join(cells)} |"


def _transcripts(judged: Sequence[Judged]) -> Iterator[str]:
    yield "## Transcripts"
    yield ""
    yield f"Of each answer only the fields {', '.join(f'`{name}`' for name in sorted(SHOWN))}; long lines are cut."
    for one in judged:
        yield ""
        yield f"### {one.case.name}"
        yield ""
        yield "```text"
        for call in one.findings.calls:
            yield f"> {call.tool} {json.dumps(dict(call.arguments))}"
            yield from _shown(call)
        yield "```"


def _shown(call: Call) -> Iterator[str]:
    """Lines of an answer whose field is shown, with those below it."""
    inside: int | None = None
    for line in call.text.splitlines():
        found = _FIELD.match(line)
        depth = len(line) - len(line.removeprefix(found[1]).removeprefix("- ") if found else line.lstrip(" "))
        if inside is not None and (depth > inside or line.startswith(f"{' ' * inside}- ")):
            yield _cut(line)
            continue
        inside = None
        if found and found[2] in SHOWN:
            inside = depth
            yield _cut(line)


def _cut(line: str) -> str:
    """After a whole word: half a path would name another file."""
    return line if len(line) <= LINE_CHARACTERS else f"{line[: LINE_CHARACTERS - 1].rpartition(' ')[0]} …"
