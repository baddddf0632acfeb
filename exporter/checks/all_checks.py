"""Every check, in the order in which one would fix what they find.

In: the Config, this machine. Out: Checks. Nothing is left behind: BPF programs that are loaded as a test are unloaded again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from exporter.checks import bcc, gpu, kernel, libraries, outputs, privileges, programs, python, ras
from exporter.checks.check import Check
from exporter.config import Config

CHECKS: tuple[Callable[[Config], Iterable[Check]], ...] = (
    kernel.check,
    privileges.check,
    programs.check,
    gpu.check,
    libraries.check,
    python.check,
    bcc.check,
    ras.check,
    outputs.check,
)


def run_checks(config: Config) -> Iterator[Check]:
    """The checks of every subject, as they are done."""
    for check in CHECKS:
        yield from check(config)
