"""The result of one check."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class CheckState(enum.StrEnum):
    """FAILED keeps `run` from starting; WARNING costs what `found` names, and no more."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Check:
    """name: what was checked. found: what is there. remedy: what to do, "" if nothing.

    symbols: functions found in a GPU library.
    """

    name: str
    state: CheckState
    found: str
    remedy: str = ""
    symbols: tuple[str, ...] = ()
