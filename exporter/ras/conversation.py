"""One conversation with the RAS socket of NCCL: a connected socket -> the bytes of an answer, and their form.

In: a socket, a deadline. Out: a RasAnswer, or ConversationFailed. At the other end is a tenant's process: what it sends is
bounded, and so is the time. It queries the status; commands that change a job (CONTROL, since 2.31) are not sent.
Source: NCCL's user guide, Troubleshooting, RAS.
"""

from __future__ import annotations

import enum
import re
import socket
import time
from typing import Final, NamedTuple

from exporter.ras.json_form import JSON_BYTES_MAX

PROTOCOL: Final = 2
NCCL_TIMEOUT_SECONDS: Final = 3
"""How long NCCL itself waits for a process that does not answer it; it may take as long again, and five seconds."""
REPLY_SECONDS: Final = 1.5
"""A process that is stopped takes connections, and answers none: another process of the job may get the next one."""
_REPLY_BYTES_MAX: Final = 256
_CHUNK_BYTES: Final = 1 << 16
_SERVER: Final = re.compile(rb"SERVER PROTOCOL [0-9]{1,9}\r?\n", re.IGNORECASE)
_OK: Final = re.compile(rb"OK\r?\n")
_REFUSED: Final = re.compile(rb"ERROR[^\n]*\n")
"""The reply to a command that this version does not know."""


class RasFailure(enum.StrEnum):
    """Why there is no answer; values of a label."""

    REFUSED = "refused"
    SILENT = "timeout"
    TOO_LONG = "too_long"
    UNREADABLE = "unreadable"


class ConversationFailed(Exception):
    """failure: the kind. is_at_begin: before anything was answered."""

    def __init__(self, failure: RasFailure, *, is_at_begin: bool = False) -> None:
        super().__init__(failure.value)
        self.failure = failure
        self.is_at_begin = is_at_begin


class RasAnswer(NamedTuple):
    """All that was sent until the other side has closed the connection."""

    content: bytes
    is_json: bool


def answer_of(stream: socket.socket, address: tuple[str, int], deadline: float) -> RasAnswer:
    """deadline: of the monotonic clock. Closes the socket. Raises ConversationFailed."""
    with stream:
        try:
            stream.settimeout(_left(min(deadline, time.monotonic() + REPLY_SECONDS)))
            stream.connect(address)
            is_json = _settings(stream, deadline)
            return RasAnswer(_status(stream, deadline), is_json)
        except TimeoutError:
            raise ConversationFailed(RasFailure.SILENT) from None
        except OSError:  # refused, reset
            raise ConversationFailed(RasFailure.REFUSED) from None


def _settings(stream: socket.socket, deadline: float) -> bool:
    """Whether the answer will be JSON."""
    try:
        hello = _reply(stream, f"CLIENT PROTOCOL {PROTOCOL}\n", min(deadline, time.monotonic() + REPLY_SECONDS))
    except TimeoutError:
        raise ConversationFailed(RasFailure.SILENT, is_at_begin=True) from None
    timeout = _reply(stream, f"TIMEOUT {NCCL_TIMEOUT_SECONDS}\n", deadline) if _SERVER.fullmatch(hello) else b""
    if not _OK.fullmatch(timeout):
        raise ConversationFailed(RasFailure.UNREADABLE)
    form = _reply(stream, "SET FORMAT json\n", deadline)
    if not (_OK.fullmatch(form) or _REFUSED.fullmatch(form)):
        raise ConversationFailed(RasFailure.UNREADABLE)
    return bool(_OK.fullmatch(form))


def _reply(stream: socket.socket, command: str, deadline: float) -> bytes:
    """One line, with its end."""
    stream.settimeout(_left(deadline))
    stream.sendall(command.encode())
    found = b""
    while not found.endswith(b"\n"):
        piece = _received(stream, _REPLY_BYTES_MAX - len(found), deadline)
        found += piece
        if not piece or len(found) >= _REPLY_BYTES_MAX:
            raise ConversationFailed(RasFailure.UNREADABLE)
    return found


def _status(stream: socket.socket, deadline: float) -> bytes:
    stream.settimeout(_left(deadline))
    stream.sendall(b"VERBOSE STATUS\n")
    pieces: list[bytes] = []
    left_bytes = JSON_BYTES_MAX
    while piece := _received(stream, _CHUNK_BYTES, deadline):
        pieces.append(piece)
        left_bytes -= len(piece)
        if left_bytes < 0:
            raise ConversationFailed(RasFailure.TOO_LONG)
    return b"".join(pieces)


def _received(stream: socket.socket, limit_bytes: int, deadline: float) -> bytes:
    """A single byte at a time does not move the deadline."""
    stream.settimeout(_left(deadline))
    return stream.recv(limit_bytes)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
