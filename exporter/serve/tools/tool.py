"""A tool: declared once, offered by every transport."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from exporter.config import parsers
from exporter.config.fleet_flags import FleetFlags
from exporter.config.moment import past_unix_ns
from exporter.errors import BadInput
from exporter.history.scope import Scope
from exporter.serve.tools.answer import NextCall, ToolAnswer, bounded
from exporter.serve.tools.parameters import Parameter, checked, input_schema
from exporter.units import NANOSECONDS

SINCE: Final = Parameter("since", "how far to look back, such as 15m or 6h", default="15m")
WORKLOAD: Final = Parameter("workload", "a rank, the prefix of a container or pod, or KEY=VALUE,… such as rank=3")
AT: Final = Parameter("at", "end of the span, such as 14:02 or 90m (ago)")
_OFFSET: Final = Parameter("offset", "items to leave out, as `next` says", int, 0)

STRING, BOOLEAN, NUMBER, INTEGER, ARRAY, OBJECT = "string", "boolean", "number", "integer", "array", "object"


class ToolCall(NamedTuple):
    """A checked call. history: path of the file. arguments: a value for each parameter. fleet: None: without other nodes."""

    history: Path
    scope: Scope
    arguments: Mapping[str, Any]
    fleet: FleetFlags | None = None

    def text(self, name: str) -> str:
        return str(self.arguments[name])

    def seconds(self, name: str) -> float:
        """A duration. Raises BadInput."""
        try:
            return float(parsers.duration(self.text(name)))
        except ValueError as error:
            raise BadInput(f"{name}: {error}") from None

    def moment_unix_ns(self, name: str) -> int | None:
        """A time in the past, None if it is empty. Raises BadInput."""
        if not self.text(name):
            return None
        try:
            return past_unix_ns(self.text(name))
        except ValueError as error:
            raise BadInput(f"{name}: {error}") from None

    def at_unix_ns(self) -> int | None:
        """End of the span; None for now. Raises BadInput."""
        return self.moment_unix_ns(AT.name) if AT.name in self.arguments else None

    def since_unix_ns(self) -> int:
        at_unix_ns = self.at_unix_ns()
        until_unix_ns = time.time_ns() if at_unix_ns is None else at_unix_ns
        return max(until_unix_ns - int(self.seconds("since") * NANOSECONDS), 0)


class Tool(NamedTuple):
    """purpose: what it answers, in a sentence or two. facts: fields of the answer beside the list, with types of JSON Schema.

    is_about_fleet: it asks other nodes, with what this server may see there.
    """

    name: str
    purpose: str
    parameters: Sequence[Parameter]
    facts: Mapping[str, str]
    listed: str
    run: Callable[[ToolCall], ToolAnswer]
    is_about_fleet: bool = False

    @property
    def all_parameters(self) -> tuple[Parameter, ...]:
        return (*self.parameters, _OFFSET)

    def input_schema(self) -> dict[str, Any]:
        return input_schema(self.all_parameters)

    def output_schema(self) -> dict[str, Any]:
        """JSON Schema of its answer, as far as all answers have it."""
        facts = {name: {"type": [kind, "null"]} for name, kind in self.facts.items()}
        return {
            "type": "object",
            "properties": {
                **facts,
                self.listed: {"type": "array", "items": {"type": "object"}},
                "truncated": {"type": "boolean"},
                "next": {"type": ["object", "null"]},
            },
            "required": [*facts, self.listed, "truncated", "next"],
        }

    def checked(self, arguments: Any) -> dict[str, Any]:
        """Raises BadInput."""
        return checked(self.all_parameters, arguments)

    def answer(self, history: Path, scope: Scope, arguments: Any, fleet: FleetFlags | None = None) -> dict[str, Any]:
        """The document. Raises BadInput and NotPossibleHere."""
        known = self.checked(arguments)
        offset = known.pop("offset")
        given = {name: value for name, value in arguments.items() if name != "offset"}
        return bounded(self.run(ToolCall(history, scope, known, fleet)), NextCall(self.name, given), offset)
