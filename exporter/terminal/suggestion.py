"""The command that is usually run next, on a terminal: programs that read standard output or error do not see it."""

from __future__ import annotations

import sys


def suggest(command: str) -> None:
    """command: without the name of the program. One that a terminal would act on is not printed."""
    if command.isprintable() and sys.stdout.isatty() and sys.stderr.isatty():
        sys.stdout.flush()
        print(f"next: gpu-stall-exporter {command}", file=sys.stderr)
