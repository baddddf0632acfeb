"""What is wrong with a statement, in one line: SQLite's reason, and the name that was probably meant."""

from __future__ import annotations

import difflib
import re
from itertools import chain
from typing import Final

from exporter.errors import BadInput, UnknownInput
from exporter.investigate.child import ChildFailed
from exporter.investigate.readable import VIEWS_ONLY, Readable

_UNKNOWN: Final = re.compile(r"no such (table|column): (.*)", re.DOTALL)
_DENIED_FUNCTION: Final = re.compile(r"not authorized to use function: (\w+)")
_DENIED_TABLE: Final = re.compile(r"(?:access to |vtable constructor failed: )(\w+)(?:\.\w*)?(?: is prohibited)?")
_OWN_AGGREGATE: Final = "user-defined aggregate"
_MESSAGE_CHARACTERS: Final = 300


class StatementTooSlow(BadInput):
    """It took longer than its time limit. One that reads less may do."""


def refusal(failed: ChildFailed, limit_seconds: float, readable: Readable = VIEWS_ONLY) -> BadInput:
    """limit_seconds: that of the statement."""
    message = str(failed)[:_MESSAGE_CHARACTERS]
    if failed.kind in (MemoryError.__name__, ChildFailed.KILLED) or message == "out of memory":
        return BadInput("the statement needs too much memory", remedy="add a WHERE, or group by fewer columns")
    if failed.kind == ChildFailed.LATE or message == "interrupted":
        return StatementTooSlow(
            f"the statement took more than {limit_seconds:g} s", remedy="add a WHERE, or use a larger --deadline"
        )
    if unknown := _UNKNOWN.fullmatch(message):
        return UnknownInput(message, remedy=_nearest(unknown[1], unknown[2], readable))
    if function := _DENIED_FUNCTION.fullmatch(message):
        return UnknownInput(
            f"the function {function[1]} is not available in statements", remedy="docs/query.md lists those that are"
        )
    if table := _DENIED_TABLE.fullmatch(message):
        return UnknownInput(f"{table[1]} is not a {readable.kind}", remedy=_nearest("table", table[1], readable))
    if message in ("not authorized", "authorization denied"):
        return BadInput(f"a statement can only read the {readable.kind}s: want one SELECT", remedy=readable.remedy)
    if "one statement at a time" in message:
        return BadInput("more than one statement", remedy="give one SELECT")
    if _OWN_AGGREGATE in message:
        return BadInput(
            "histogram_quantile wants a share between 0 and 1, an upper edge and a count",
            remedy="as in histogram_quantile(0.99, upper_edge_seconds, steps)",
        )
    return BadInput(f"invalid statement: {message}", remedy=readable.remedy)


def _nearest(kind: str, name: str, readable: Readable) -> str:
    """A remedy. name: as it was written, perhaps with the name of a view before it."""
    wanted = name.rpartition(".")[2].lower()
    if kind == "table":
        near = difflib.get_close_matches(wanted, readable.columns_of, 1)
        there_are = f"the {readable.kind}s are {', '.join(readable.columns_of)}"
        return f"did you mean {near[0]}?" if near else there_are
    holders = [table for table, columns in readable.columns_of.items() if wanted in columns]
    if holders:
        return f"{wanted} is a column of {', '.join(holders)}"
    near = difflib.get_close_matches(wanted, dict.fromkeys(chain.from_iterable(readable.columns_of.values())), 1)
    return f"did you mean {near[0]}?" if near else readable.remedy
