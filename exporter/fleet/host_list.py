"""Lists of names in the notation of Slurm: `gpu[01-16,20],login`.

In: text as a user types it. Out: names in the order in which they stand there. Errors are ValueErrors that name the wrong part.

A bracket holds numbers and ranges; each number of a range has at least the digits of the first one: `[08-10]` is 08, 09, 10. A
name may have several brackets, of which the last one counts fastest, and text after them. Source: slurm.conf(5), NodeName.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from math import prod
from typing import Final, NamedTuple

NAMES_MAX: Final = 10_000
_SHOWN_CHARACTERS: Final = 80
_NUMBERS: Final = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?", re.ASCII)


class _Numbers(NamedTuple):
    """One number or range of a bracket. width: digits of each, at least."""

    values: range
    width: int

    def texts(self) -> list[str]:
        return [f"{value:0{self.width}}" for value in self.values]


def quoted(text: str) -> str:
    """For a message: as it was typed, without the end of a long one."""
    return repr(text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…")


def parts(text: str) -> list[str]:
    """`gpu[1,2],login` -> `gpu[1,2]`, `login`: split at the commas outside of brackets. Raises ValueError."""
    found, begin, is_open = [], 0, False
    for at, character in enumerate(text):
        if character in "[]":
            if is_open == (character == "["):
                raise ValueError(f"a bracket too many in {quoted(text[begin : at + 1])}")
            is_open = not is_open
        elif character == "," and not is_open:
            found.append(text[begin:at].strip())
            begin = at + 1
    found.append(text[begin:].strip())
    if is_open:
        raise ValueError(f"the bracket in {quoted(found[-1])} is not closed")
    if "" in found:
        raise ValueError(f"a name is empty in {quoted(text)}")
    return found


def expanded(names: Iterable[str]) -> list[str]:
    """`gpu[1-2]`, `login` -> `gpu1`, `gpu2`, `login`. names: of parts(). Raises ValueError, also beyond NAMES_MAX."""
    found: list[str] = []
    for name in names:
        is_list = not name.startswith("[")  # which an IPv6 address does
        texts = re.split(r"\[.*?\]", name) if is_list else [name]
        brackets = [_bracket(inside, name) for inside in re.findall(r"\[(.*?)\]", name)] if is_list else []
        if len(found) + prod(sum(len(one.values) for one in bracket) for bracket in brackets) > NAMES_MAX:
            raise ValueError(f"more than {NAMES_MAX} nodes with {quoted(name)}")
        for chosen in itertools.product(*([text for one in bracket for text in one.texts()] for bracket in brackets)):
            found.append("".join(itertools.chain.from_iterable(zip(texts, (*chosen, ""), strict=True))))
    return found


def _bracket(inside: str, name: str) -> list[_Numbers]:
    found = []
    for text in inside.split(","):
        match = _NUMBERS.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"{quoted(text)} in {quoted(name)} is neither a number nor a range such as 01-16")
        first, last = match[1], match[2] or match[1]
        if int(last) < int(first) or (last.startswith("0") and len(last) != len(first)):
            raise ValueError(f"the range {text.strip()} in {quoted(name)} is not ascending, or its widths differ")
        found.append(_Numbers(range(int(first), int(last) + 1), len(first)))
    return found
