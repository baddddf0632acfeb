"""`gpu-stall-exporter-standin`: programs on a CPU-only model of a GPU.

`run` becomes a program on the stand-in's libraries. `with-job` becomes a command, the exporter for instance, and runs the
stand-in training job beside it; the job ends with the command.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress

import gpustall_standin as standin
from exporter.errors import BadInput, ExporterError, NotPossibleHere, ProcessGone
from exporter.host import libraries
from exporter.host.processes import Processes

PROGRAM = "gpu-stall-exporter-standin"
READY_SECONDS = 20.0
_PR_SET_PDEATHSIG = 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=PROGRAM, description="Programs on a stand-in GPU, a CPU-only model of one.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="run a program on the stand-in GPU")
    run.add_argument(
        "program",
        nargs=argparse.REMAINDER,
        metavar="PROGRAM ARGUMENT",
        help=f"one of {', '.join(standin.PROGRAMS)}, or any program that uses CUDA [trainer]",
    )
    with_job = commands.add_parser(
        "with-job", help="run a command beside the stand-in training job, which is left out where a process uses CUDA"
    )
    with_job.add_argument("program", nargs=argparse.REMAINDER, metavar="PROGRAM ARGUMENT", help="the command")
    return parser


def command_line(given: Sequence[str]) -> list[str]:
    """What `run` executes: the trainer for nothing; one of the stand-in's programs by its name; anything else as it is.

    [] -> [".../build/trainer"]; ["--", "calls", "launch:3"] -> [".../build/calls", "launch:3"]
    """
    words = _without_dashes(given)
    if not words:
        return standin.trainer_command()
    return [standin.program(words[0]) or words[0], *words[1:]]


def _without_dashes(given: Sequence[str]) -> list[str]:
    return list(given[1:] if given[:1] == ["--"] else given)


def cuda_user(processes: Processes) -> int | None:
    """The tgid of a process that maps a CUDA or NCCL library, None when there is none."""
    for tgid in processes.tgids():
        try:
            if libraries.find(processes, tgid):
                return tgid
        except (ProcessGone, NotPossibleHere):
            continue
    return None


def _start_job(environment: dict[str, str]) -> None:
    """Starts the training job in a child process as soon as the command is ready, or after READY_SECONDS.

    The command announces that by sd_notify(3), so that it has the CPUs to itself while it starts. The kernel ends the job
    when this process ends, whatever program this process has become.
    """
    user = cuda_user(Processes())
    if user is not None:
        print(f"{PROGRAM}: process {user} uses CUDA: not starting the stand-in training job", file=sys.stderr)
        return
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listener.bind(f"\0{PROGRAM}-{os.getpid()}")
    environment["NOTIFY_SOCKET"] = f"@{PROGRAM}-{os.getpid()}"
    parent = os.getpid()
    if os.fork():
        return
    try:
        os.setsid()  # Ctrl-C is for the command
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() == parent:  # else it ended before the line above
            _wait_until_ready(listener)
            _become_job()
    finally:
        os._exit(1)


def _wait_until_ready(listener: socket.socket) -> None:
    listener.settimeout(READY_SECONDS)
    with suppress(TimeoutError):
        while b"READY=1" not in listener.recv(4096):
            pass


def _become_job() -> None:
    line = f"{PROGRAM}: no process uses CUDA: started the stand-in training job, pid {os.getpid()}"
    print(line, file=sys.stderr, flush=True)
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    command = standin.trainer_command("--quiet")
    os.execve(command[0], command, standin.environment())  # noqa: S606 - a list, no shell


def _become(line: list[str], environment: dict[str, str]) -> None:
    try:
        os.execvpe(line[0], line, environment)  # noqa: S606 - a list, no shell: the user's own command
    except OSError as error:
        raise BadInput(f"cannot run {line[0]!r}: {error.strerror}") from error


def main(argv: Sequence[str] | None = None) -> int:
    """Becomes the program; returns an exit code only when that fails."""
    arguments = _parser().parse_args(argv)
    try:
        if not standin.is_built():
            raise NotPossibleHere(f"the stand-in GPU is not built in {standin.build_dir()}", remedy="run `make build`")
        if arguments.command == "run":
            _become(command_line(arguments.program), standin.environment())
        line = _without_dashes(arguments.program)
        if not line:
            raise BadInput("with-job needs a command", remedy=f"{PROGRAM} with-job gpu-stall-exporter run")
        environment = dict(os.environ)
        _start_job(environment)
        _become(line, environment)
    except ExporterError as error:
        print(f"{PROGRAM}: {error.one_line()}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
