"""What an assistant does that follows the prompt `investigate`: explain, then the call that each answer names.

In: a client of the protocol. Out: the calls with their answers as text, and what they say. It reads nothing but answers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from mcp import Client

CALLS_MAX: Final = 4
CHARACTERS_PER_TOKEN: Final = 3.0
"""Names and numbers have three to four in the tokens of usual models: this counts too many rather than too few."""
FIRST: Final = "explain"
IN_FULL: Final = "episode"
OF_LINES: Final = ("lines_with_most_time", "evidence", "lines")
"""Fields of a chain that name lines, the one to trust most first."""
PLACE: Final = re.compile(r"(?P<function>[\w.<>]+) \((?P<file>[^\s():]+\.py):(?P<number>\d+)\)")


class Call(NamedTuple):
    """text: of the answer, as a model reads it."""

    tool: str
    arguments: Mapping[str, Any]
    text: str

    @property
    def tokens(self) -> int:
        return round(len(self.text) / CHARACTERS_PER_TOKEN)


class Line(NamedTuple):
    """A line of Python."""

    function: str
    file: str
    number: int


@dataclass
class Findings:
    """What the answers say. cause: "" without a chain. culprit: "" where none is named. lines: first those with the most time."""

    calls: list[Call] = field(default_factory=list)
    cause: str = ""
    culprit: str = ""
    who: str = ""
    remedy: str = ""
    lines: list[Line] = field(default_factory=list)

    @property
    def tokens(self) -> int:
        """In all answers."""
        return sum(one.tokens for one in self.calls)

    @property
    def is_complete(self) -> bool:
        """The worst chain has been seen in full, and a line of Python is known."""
        return any(one.tool == IN_FULL for one in self.calls) and bool(self.lines)


async def investigate(client: Client) -> Findings:
    """Calls at most CALLS_MAX tools."""
    found = Findings()
    following: Mapping[str, Any] | None = {"tool": FIRST, "arguments": {}}
    while following and not found.is_complete and len(found.calls) < CALLS_MAX:
        tool, arguments = following["tool"], following["arguments"]
        result = await client.call_tool(tool, dict(arguments))
        found.calls.append(Call(tool, arguments, "\n".join(one.text for one in result.content)))
        document = result.structured_content or {}
        _note(found, document)
        following = document.get("next")
    return found


def _note(found: Findings, document: Mapping[str, Any]) -> None:
    """The worst chain comes first; what a later answer says of it replaces what an earlier one has said."""
    chain = document.get("chain") or next(iter(document.get("chains", ())), None)
    if chain is not None:
        found.cause, found.who, found.remedy = chain["cause"], chain["who"], chain["remedy"]
        found.culprit = chain["culprits"][0]["name"] if chain["culprits"] else ""
    parts = [chain.get(name) for name in OF_LINES] if chain is not None else [document.get("stacks")]
    if lines := list(dict.fromkeys(line for part in parts for line in _lines(part))):
        found.lines = lines


def _lines(value: Any) -> Iterator[Line]:
    """Each place in the texts of a document, in their order."""
    if isinstance(value, str):
        for one in PLACE.finditer(value):
            yield Line(one["function"], one["file"], int(one["number"]))
    elif isinstance(value, Mapping | list):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _lines(part)
