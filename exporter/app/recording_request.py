"""How `record` and `trace` get a stream of calls: from the running exporter, or without one from this process."""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import IO, Any

from exporter.config import command_line, parsers
from exporter.config.probes import ProbeSettings
from exporter.config.setting import Given, declared, parsed
from exporter.config.storage import RECORDING_SOCKET
from exporter.errors import BadInput, NotPossibleHere
from exporter.history.selection import Selection
from exporter.recording.call_lines import call_lines
from exporter.recording.call_stream import frames
from exporter.recording.recorded_calls import RecordedCalls
from exporter.recording.single_calls import BYTES_MAX, SECONDS_MAX

_LINES = "50"
_OVERHEAD_LIMIT = declared(ProbeSettings)["overhead_limit"]
_PATIENCE_SECONDS = 30.0
_PIDS = 1 << 22  # PID_MAX_LIMIT of linux/threads.h


def add_bounds(parser: argparse.ArgumentParser, *, default_for: str) -> None:
    """What is recorded, and how much of it."""
    parser.add_argument(
        "--for", default=default_for, metavar="DURATION", help=f"length of the recording, at most 1h [{default_for}]"
    )
    parser.add_argument("--pid", metavar="PID", help="only this process")
    parser.add_argument(
        "--workload",
        default="",
        metavar="SELECTOR",
        help="a rank, the prefix of a container or pod, or KEY=VALUE,… such as rank=3,pid=4032",
    )
    parser.add_argument(
        "--max-bytes", default="64MiB", metavar="SIZE", help="size at which the recording ends, at most 1GiB [64MiB]"
    )
    parser.add_argument(
        "--lines", default=_LINES, metavar="N", help=f"lines per second, if lines are printed [{_LINES}]"
    )
    command_line.add_arguments(parser, [RECORDING_SOCKET])


def print_lines(arguments: argparse.Namespace) -> int:
    most_per_second = parsed(parsers.count, arguments.lines, arguments.sources["lines"])
    read = RecordedCalls()
    with asked(arguments, document_of(arguments)) as stream:
        for line in call_lines(read, read.read(frames(stream.read)), most_per_second):
            print(line, flush=True)
    return 0


def document_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The request. Raises BadInput."""
    given = vars(arguments)
    asked_seconds = parsed(_duration, given["for"], arguments.sources["for"])
    most_bytes = parsed(_size, arguments.max_bytes, arguments.sources["max_bytes"])
    workload: str = arguments.workload
    if arguments.pid is not None:
        if workload:
            raise BadInput("--pid and --workload exclude each other", remedy="use --workload=pid=…,rank=…")
        workload = f"pid={parsed(_pid, arguments.pid, arguments.sources['pid'])}"
    Selection.of(workload)
    return {"seconds": asked_seconds, "bytes": most_bytes, "workload": workload}


def _duration(text: str) -> float:
    found = parsers.duration(text)
    if not 0 < found <= SECONDS_MAX:
        raise ValueError("want a duration of at most 1h")
    return found


def _pid(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < _PIDS:
        raise ValueError("want the id of a process, such as 4032")
    return int(text)


def _size(text: str) -> int:
    found = parsers.size(text)
    if not 0 < found <= BYTES_MAX:
        raise ValueError("want a size of at most 1GiB")
    return found


@contextmanager
def asked(arguments: argparse.Namespace, document: Mapping[str, Any]) -> Iterator[IO[bytes]]:
    """The frames of a recording, by the running exporter, or without one by this process. Ctrl-C ends the recording, whose last
    frames still come; a second one ends the command. Raises ExporterError.
    """
    path = Given(command_line.texts(vars(arguments), [RECORDING_SOCKET]), os.environ).value(RECORDING_SOCKET)
    with ExitStack() as resources:
        peer = _connected(str(path)) if path is not None else None
        if peer is None:
            peer = resources.enter_context(_by_itself(document))
        else:
            resources.callback(peer.close)
            peer.settimeout(_PATIENCE_SECONDS + float(document["seconds"]))
            peer.sendall(json.dumps(document).encode() + b"\n")
        resources.enter_context(_ended_by_interrupt(peer))
        yield resources.enter_context(peer.makefile("rb"))


@contextmanager
def _ended_by_interrupt(peer: socket.socket) -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)

    def end(_signal: int, _frame: object) -> None:
        signal.signal(signal.SIGINT, before)
        with suppress(OSError):  # it has ended
            peer.shutdown(socket.SHUT_WR)

    signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _connected(path: str) -> socket.socket | None:
    """None: no exporter listens there."""
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        peer.connect(path)
    except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
        peer.close()
        return None
    except PermissionError:
        peer.close()
        raise NotPossibleHere(
            f"cannot connect to {path}: permission denied", remedy="run it as root, or join the group `adm`"
        ) from None
    except OSError as error:
        peer.close()
        raise BadInput(f"--recording.socket: cannot connect to {path}: {error.strerror or error}") from None
    return peer


@contextmanager
def _by_itself(document: Mapping[str, Any]) -> Iterator[socket.socket]:
    """The other end of a recording that a thread of this process makes."""
    from exporter.app.direct_recording import tracing  # noqa: PLC0415 - loads libbpf
    from exporter.app.recording_socket import answer, request_of  # noqa: PLC0415

    limit: float = _OVERHEAD_LIMIT.parse(_OVERHEAD_LIMIT.default)
    stopping = threading.Event()
    with tracing(limit) as source:
        request = request_of(json.dumps(document).encode(), source)
        near, far = socket.socketpair()

        def record() -> None:
            with far:
                answer(far, source, request, stopping)

        thread = threading.Thread(target=record, name="recording")
        thread.start()
        try:
            with near:
                yield near
        finally:
            stopping.set()
            thread.join()
