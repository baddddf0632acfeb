"""Whether colours are used, and how wide lines may be: standard output and the environment -> a decision."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping

_NARROWEST = 20


def is_coloured(is_terminal: bool | None = None, environment: Mapping[str, str] = os.environ) -> bool:
    """On a terminal that has colours, unless NO_COLOR is set and not empty (https://no-color.org)."""
    is_terminal = sys.stdout.isatty() if is_terminal is None else is_terminal
    return is_terminal and not environment.get("NO_COLOR") and environment.get("TERM", "dumb") != "dumb"


def columns() -> int | None:
    """The width of the terminal; None for a file or pipe, whose lines are not wrapped: programs may read them."""
    return max(shutil.get_terminal_size((100, 24)).columns, _NARROWEST) if sys.stdout.isatty() else None
