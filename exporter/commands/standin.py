"""`gpu-stall-exporter standin`: the stand-in training job, or any program, on a CPU-only model of a GPU."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from exporter import standin
from exporter.errors import BadInput, NotPossibleHere


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The program and its arguments, after `--`."""
    parser.add_argument(
        "program",
        nargs=argparse.REMAINDER,
        metavar="-- PROGRAM ARGUMENT",
        help="trainer, trainer-static, trainer-torch, server, calls, or any program that uses CUDA [trainer]",
    )


def run(arguments: argparse.Namespace) -> int:
    """Becomes the program; returns only by an exception."""
    if not standin.is_built():
        raise NotPossibleHere(f"the stand-in GPU is not built in {standin.build_dir()}", remedy="run `make build`")
    line = command_line(arguments.program)
    try:
        os.execvpe(line[0], line, standin.environment())  # noqa: S606 - a list, no shell: the user's own command
    except OSError as error:
        raise BadInput(f"cannot run {line[0]!r}: {error.strerror}", remedy="name a program after `--`") from error


def command_line(given: Sequence[str]) -> list[str]:
    """What to execute: `given` without a leading `--`, its first word a program of the stand-in if it has that name.

    [] -> [".../build/trainer"]; ["--", "calls", "launch:3"] -> [".../build/calls", "launch:3"]
    """
    words = list(given[1:] if given[:1] == ["--"] else given)
    if not words:
        return standin.trainer_command()
    return [standin.program(words[0]) or words[0], *words[1:]]
