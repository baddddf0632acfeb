"""The manual page: commands -> roff, with the macros of man(7)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from exporter import __version__
from exporter.config.setting import variable_of
from exporter.errors import EXIT_CODES
from exporter.manual.command import Command


def man(program: str, commands: Sequence[Command]) -> str:
    """The manual page (roff)."""
    return "\n".join(_lines(program, commands)) + "\n"


def _lines(program: str, commands: Sequence[Command]) -> Iterator[str]:
    yield f'.TH {_roff(program.upper())} 1 "" "{program} {__version__}" "User Commands"'
    yield ".SH NAME"
    yield f"{_roff(program)} \\- says why a GPU waits, by cause and culprit"
    yield ".SH SYNOPSIS"
    for number, command in enumerate(commands):
        if number:
            yield ".br"
        yield _roff(command.usage)
    yield ".SH DESCRIPTION"
    yield _roff("Finds out why GPUs wait, with eBPF probes on CUDA and NCCL. Exports to Prometheus and OTLP.")
    yield ".SH COMMANDS"
    for command in commands:
        yield f".SS {_roff(command.name)}"
        yield _roff(f"{command.purpose[0].upper()}{command.purpose[1:]}.")
        if command.words:
            yield ".PP"
            yield _roff(f"One of {', '.join(command.words)}.")
        listed = [flag for flag in command.flags if flag.is_listed]
        if command.name == "check":  # its other flags are those of `run`
            of_run = {flag.name for one in commands if one.name == "run" for flag in one.flags}
            listed = [flag for flag in listed if flag.name not in of_run]
            yield ".PP"
            yield "Every flag of run is one of check as well: they decide what is checked."
        for flag in listed:
            yield ".TP"
            name, value = _roff(flag.name), _roff(flag.value)
            yield f"\\fB{name}\\fR=\\fI{value}\\fR" if value else f"\\fB{name}\\fR"
            yield _roff(flag.help or flag.value)
    yield ".SH ENVIRONMENT"
    variable = variable_of("log.level")
    yield _roff(f"Flags are also environment variables: --log.level is {variable}. A flag overrides it.")
    yield ".SH EXIT STATUS"
    for code, meaning in EXIT_CODES.items():
        yield from (".TP", f"\\fB{code}\\fR", _roff(meaning))
    yield ".SH SEE ALSO"
    yield _roff(f"{program} assets writes alert rules, boards, manifests and the documentation to a folder.")


def _roff(text: str) -> str:
    """Text that no macro or escape sequence is made of."""
    escaped = (
        text.replace("\\", "\\e").replace("-", "\\-").replace("…", "...").replace("→", "\\(->").replace("`", "\\(ga")
    )
    escaped = escaped.replace("'", "\\(aq").replace("^", "\\(ha").replace("~", "\\(ti")
    return f"\\&{escaped}" if escaped.startswith(".") else escaped
