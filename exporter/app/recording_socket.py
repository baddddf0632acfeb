"""Requests to the running exporter for recordings of single calls: `record` by root, or by members of the socket's group.

In: a line of JSON, from a peer whose identity the kernel vouches for. Out: frames (recording/call_stream.py). One recording at a
time; nothing is kept for a peer that does not read.
"""

from __future__ import annotations

import grp
import json
import logging
import os
import select
import socket
import stat
import struct
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

from exporter.errors import BadInput, ExporterError, NotPossibleHere
from exporter.files import trust
from exporter.history.file_guard import DIRECTORY_MODE, GROUP
from exporter.history.process_names import no_match, process_name
from exporter.history.selection import Selection
from exporter.recording.call_stream import failure_frame
from exporter.recording.single_calls import BYTES_MAX, SECONDS_MAX, Recorded, RecordingRequest, record
from exporter.text import untrusted

log = logging.getLogger(__name__)

SOCKET_MODE: Final = 0o660
REQUEST_BYTES_MAX: Final = 4096
PATIENCE_SECONDS: Final = 5.0
"""For a peer that neither asks nor reads."""
STOP_SECONDS: Final = 3.0
_SELECTOR_MAX: Final = 1024
_CREDENTIALS = struct.Struct("=iII")  # struct ucred
_SO_PEERGROUPS = 59  # asm-generic/socket.h


class RecordingSocket:
    """Listens when the constructor returns; start() serves in a thread of its own. Raises NotPossibleHere."""

    def __init__(self, path: Path, source: Recorded) -> None:
        self._path = path
        self._source = source
        self._stopping = threading.Event()
        self._socket = _listening(path)
        self._identity = _identity(path)
        self._thread = threading.Thread(target=self._run, name="recordings", daemon=True)
        self._recording: threading.Thread | None = None
        self._is_recording = False
        self._ends_at = 0.0  # time.monotonic() of the end of the last one

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """RecordingEnd a recording that runs, and remove the socket."""
        self._stopping.set()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        for thread in (self._thread, self._recording):
            if thread is not None and thread.ident is not None:
                thread.join(STOP_SECONDS)
        self._socket.close()
        with suppress(OSError):
            if _identity(self._path) == self._identity:
                self._path.unlink()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                peer, _ = self._socket.accept()
            except OSError:
                if self._stopping.is_set():
                    return
                self._stopping.wait(1.0)  # out of descriptors, perhaps
                continue
            peer.settimeout(PATIENCE_SECONDS)
            self._serve(peer)

    def _serve(self, peer: socket.socket) -> None:
        with ExitStack() as refused:
            refused.callback(peer.close)
            try:
                uid = admitted(peer)
                request = request_of(_line(peer), self._source)
                self._ensure_idle()
            except ExporterError as error:
                _refuse(peer, error)
                return
            except OSError:
                return  # the peer has gone
            log.info("uid %d asks for single calls", uid)
            self._ends_at = time.monotonic() + request.seconds
            self._recording = threading.Thread(target=self._record, args=(peer, request), name="recording", daemon=True)
            self._is_recording = True
            self._recording.start()
            refused.pop_all()

    def _record(self, peer: socket.socket, request: RecordingRequest) -> None:
        with peer:
            try:
                answer(peer, self._source, request, self._stopping)
            finally:
                self._is_recording = False  # before its peer sees the end, and may ask again

    def _ensure_idle(self) -> None:
        if self._is_recording:
            left_seconds = max(self._ends_at - time.monotonic(), 0.0)
            raise NotPossibleHere(
                "another recording runs", remedy=f"try again when it has ended, in at most {left_seconds:.0f} s"
            )


def answer(peer: socket.socket, source: Recorded, request: RecordingRequest, stopping: threading.Event) -> None:
    """Send the frames of a recording, or why there is none."""
    try:
        with _watched(peer, stopping) as ended:
            record(source, request, peer.sendall, ended)
    except ExporterError as error:
        _refuse(peer, error)
    except OSError as error:  # the peer has gone, or does not read
        log.info("recording ended: %s", error.strerror or error)


def _refuse(peer: socket.socket, error: ExporterError) -> None:
    log.info("no recording: %s", error.one_line())
    with suppress(OSError):
        peer.sendall(failure_frame(error))


class _watched:  # noqa: N801 - read as a function
    """An event that is set when the exporter stops, or when the peer sends something or closes its end."""

    def __init__(self, peer: socket.socket, stopping: threading.Event) -> None:
        self._peer = peer
        self._stopping = stopping
        self._ended = threading.Event()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="recording-peer", daemon=True)

    def __enter__(self) -> threading.Event:
        self._thread.start()
        return self._ended

    def __exit__(self, *_error: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._is_over.is_set() and not self._ended.is_set():
            ready, _, _ = select.select([self._peer], [], [], 0.1)
            if ready or self._stopping.is_set():
                self._ended.set()


def admitted(peer: socket.socket) -> int:
    """The peer's uid. Raises NotPossibleHere unless it is root, this process's user, or in the socket's group."""
    _pid, uid, gid = _CREDENTIALS.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    raw = peer.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, 4 * 256)
    groups = {gid, *struct.unpack(f"={len(raw) // 4}I", raw)}
    if uid in {0, os.geteuid()} or _group() in groups:
        return int(uid)
    raise NotPossibleHere("only root and members of the group `adm` may record", remedy="run it as root")


def request_of(line: bytes, source: Recorded) -> RecordingRequest:
    """Raises BadInput."""
    try:
        document = untrusted.mapping(json.loads(line))
        asked_seconds, most_bytes = document.get("seconds"), document.get("bytes")
        workload: Any = document.get("workload", "")
        if (
            isinstance(asked_seconds, bool)
            or not isinstance(asked_seconds, int | float)
            or isinstance(most_bytes, bool)
            or not isinstance(most_bytes, int)
            or not isinstance(workload, str)
            or not 0 < asked_seconds <= SECONDS_MAX
            or not 0 < most_bytes <= BYTES_MAX
            or len(workload) > _SELECTOR_MAX
        ):
            raise ValueError("out of bounds")
    except ValueError as error:
        raise BadInput("not a request for a recording") from error
    return RecordingRequest(float(asked_seconds), most_bytes, _selected(source, Selection.of(workload)))


def _selected(source: Recorded, selection: Selection) -> frozenset[int] | None:
    """Numbers of the processes to record; None: all. Raises BadInput if there are none."""
    if selection == Selection():
        return None
    workloads = source.workloads()
    found = frozenset(number for number, (identity, tgid) in workloads.items() if selection.matches(identity, tgid))
    if found:
        return found
    text = selection.text or ",".join(f"{key}={value}" for key, value in selection.wanted)
    if not workloads:
        raise BadInput(f"no process matches {text!r}", remedy="no process has made a traced call yet")
    raise no_match(text, (process_name(identity, tgid) for identity, tgid in workloads.values()))


def _line(peer: socket.socket) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        more = peer.recv(REQUEST_BYTES_MAX - len(line))
        line += more
        if not more or len(line) >= REQUEST_BYTES_MAX:
            raise BadInput("not a request for a recording")
    return line


def _group() -> int | None:
    try:
        return grp.getgrnam(GROUP).gr_gid
    except KeyError:
        return None


def _listening(path: Path) -> socket.socket:
    with ExitStack() as failed:
        try:
            if trust.make_directory(path.parent, DIRECTORY_MODE):
                _give(path.parent)
            _remove_stale(path)
            made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            failed.callback(made.close)
            before = os.umask(0o177)
            try:
                made.bind(str(path))
            finally:
                os.umask(before)
            failed.callback(path.unlink)
            _give(path)
            path.chmod(SOCKET_MODE)
            made.listen(2)
        except OSError as error:
            raise NotPossibleHere(
                f"cannot listen at {path}: {error.strerror or error}", remedy="set another --recording.socket"
            ) from error
        failed.pop_all()
        return made


def _give(path: Path) -> None:
    group = _group()
    if group is not None:
        with suppress(PermissionError):
            os.chown(path, -1, group)


def _remove_stale(path: Path) -> None:
    """The socket of an exporter that has ended. Raises NotPossibleHere if one lives, or if the file is something else."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.geteuid():
        raise NotPossibleHere(
            f"{path} is not a socket of this user", remedy="remove it, or set another --recording.socket"
        )
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        try:
            other.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
    raise NotPossibleHere(
        f"another exporter listens at {path}", remedy="set another --recording.socket for one of them"
    )


def _identity(path: Path) -> tuple[int, int]:
    found = os.lstat(path)
    return found.st_dev, found.st_ino
