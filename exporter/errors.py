"""The root of the exceptions that the program raises on purpose, those that many packages raise, and their exit codes.

    ExporterError               exit 1   anything below
    ├── BadInput                exit 2   a flag, an address or a configuration value the user can correct
    │   └── UnknownInput        exit 2   it names something that this version does not have
    ├── NotPossibleHere         exit 3   this machine lacks what is needed: privilege, BTF, a library
    │   └── KernelRefused       exit 3   bpf(2) or perf_event_open(2) failed
    ├── MalformedElf            skipped  a file that is not the ELF library it claims to be; counted
    ├── ProcessGone             skipped  a process ended between two reads of its /proc directory; counted
    ├── NoAnswer                skipped  a file or a process of a tenant does not answer in time; counted
    └── NotReadable             skipped  memory of a tenant's process that is not there, or that may not be read

Others stand beside the code that raises them. Each has a message that names the object, and a `remedy`: what to do next.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

EXIT_CODES: Final[Mapping[str, str]] = {
    "0": "`run`: stopped by SIGINT or SIGTERM. `check`: `run` would work. `explain`, `query`: whatever was found. Else success",
    "1": "any other error, also standard output that is closed or full",
    "2": "invalid input: a flag, an environment variable, an address or a value in the file",
    "3": "this machine lacks something: a privilege, BTF, a library, a history; `check` says what",
    "4": "some of several nodes did not answer; the output says which and why",
    "130, 143": "SIGINT or SIGTERM ended a command other than `run`",
    "141": "the reader of standard output has exited, as in `gpu-stall-exporter check | head -1`",
}
"""What each exit code of the program means, for the manual page and docs/flags.md."""


class ExporterError(Exception):
    """Root of the tree. remedy: a sentence or a command, or empty."""

    exit_code = 1

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy

    def one_line(self) -> str:
        """The message and its remedy on a single line, control characters escaped."""
        text = f"{self}; {self.remedy}" if self.remedy else str(self)
        return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


class BadInput(ExporterError):
    """A flag, an address or a configuration value that the user can correct."""

    exit_code = 2


class UnknownInput(BadInput):
    """It names something that this version does not have, and another one may have."""


class NotPossibleHere(ExporterError):
    """This machine lacks what the command needs."""

    exit_code = 3


class KernelRefused(NotPossibleHere):
    """The kernel refused a program, a map or an attachment."""


class MalformedElf(ExporterError):
    """A file is not an ELF library, is cut short, or points outside of itself."""


class ProcessGone(ExporterError):
    """A process ended between two reads of its /proc directory."""


class NoAnswer(ExporterError):
    """What a tenant's file or process holds cannot be read in time, such as from a file server that does not answer."""


class NotReadable(ExporterError):
    """Memory of a process is not mapped, or the process has ended, or it holds what cannot be followed."""
