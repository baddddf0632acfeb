"""Runs a program with the capabilities that reading needs, and none that loads programs into the kernel.

A program of its own: its arguments are the folder of the package, and the command. It becomes that command.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from exporter.host import capabilities
from exporter.host.capabilities import READING

_PACKAGE_FOLDER: Final = Path(__file__).parents[2]
_RUN: Final = "import sys; sys.path.insert(0, sys.argv[1]); from exporter.host.few_rights import main; main()"


def with_few_rights(*command: str) -> Sequence[str]:
    """A command that runs this one."""
    return (sys.executable, "-I", "-S", "-c", _RUN, str(_PACKAGE_FOLDER), *command)


def main() -> None:
    capabilities.keep_only(READING)
    with capabilities.passed_on(READING):
        os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606 - no shell is wanted
