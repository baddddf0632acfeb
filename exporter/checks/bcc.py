"""bcc, which names the functions of stuck threads. Optional."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

from exporter.checks.check import Check, CheckState
from exporter.config import Config
from exporter.host.symbols import SYSTEM_PYTHON

_PRINT_VERSION = "import bcc; print(bcc.__version__)"
_TIMEOUT_SECONDS = 20


def check(_config: Config) -> Iterator[Check]:
    """One row."""
    yield bcc(SYSTEM_PYTHON)


def bcc(python: str | Path) -> Check:
    """python: the distribution's interpreter. The package `bcc` of PyPI is an unrelated one."""
    try:
        probe = subprocess.run(
            [python, "-I", "-c", _PRINT_VERSION], capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        found = "not installed: stuck frames show file and offset instead of function names"
        return Check("bcc", CheckState.WARNING, found, "apt-get install python3-bpfcc")
    return Check("bcc", CheckState.OK, f"{probe.stdout.strip()} in {python}: names the functions of stuck threads")
