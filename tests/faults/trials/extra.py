"""What each step of a job does besides: faults of disks, networks and pipes are felt by jobs that use these.

An extra is set up before the job starts; programs of shapes do it in inputs.py there.
"""

from __future__ import annotations

import enum
import fcntl
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.injectors import NotPossible, disk, network
from tests.faults.trials.ordered import Ordered, ordered

FILE_BYTES = 64 << 20
NAMES_ADDRESS = "127.9.9.9"
SERVER_NAME = "batches.example"
PIPE_BYTES = 4096
F_SETPIPE_SZ = 1031


class Extra(enum.StrEnum):
    """In each step."""

    NONE = "none"
    FILE = "file"  # a piece of a file, from the disk
    DEVICE = "device"  # a piece of a disk of the job's own
    FUSE = "fuse"  # a piece of a file in a file system in user space
    SERVER = "server"  # a batch from a server, through a proxy
    NAME = "name"  # the same from a server whose name is resolved first
    LOG = "log"  # some lines of log, to a pipe
    MEMORY = "memory"  # fresh memory is touched


@dataclass
class ExtraSetup:
    """What has been set up.

    variables: of the job's environment. before: the beginning of its command line. path: what it reads, or the folder of that.
    program: what answers its reads, requests or look-ups. output: where it writes; None for a file. reader: of that pipe.
    """

    variables: dict[str, str] = field(default_factory=dict)
    before: list[str] = field(default_factory=list)
    path: Path | None = None
    program: Ordered | None = None
    output: int | None = None
    reader: subprocess.Popen[bytes] | None = None


@contextmanager
def set_up(extra: Extra) -> Iterator[ExtraSetup]:
    """Undone with the block. Raises NotPossible."""
    with ExitStack() as stack:
        yield _SETUPS[extra](stack)


def _none(_: ExitStack) -> ExtraSetup:
    return ExtraSetup()


def _file(stack: ExitStack) -> ExtraSetup:
    path = stack.enter_context(disk.file_of(FILE_BYTES))
    disk.forget_pages(path)
    return ExtraSetup({"STEP_EXTRA": f"read:{path}"}, path=path)


def _device(stack: ExitStack) -> ExtraSetup:
    device = stack.enter_context(disk.loop_device(FILE_BYTES))
    return ExtraSetup({"STEP_EXTRA": f"read:{device}"}, path=device)


def _fuse(stack: ExitStack) -> ExtraSetup:
    if not Path("/dev/fuse").exists():
        raise NotPossible("there is no /dev/fuse")
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    program = stack.enter_context(ordered("slow_files.py", str(folder), str(FILE_BYTES)))
    return ExtraSetup({"STEP_EXTRA": f"read:{folder / 'data'}"}, path=folder, program=program)


def _server(stack: ExitStack) -> ExtraSetup:
    server = stack.enter_context(network.server())
    proxy = stack.enter_context(ordered("proxy.py", f"{server.address}:{server.port}"))
    return ExtraSetup({"STEP_EXTRA": f"fetch:127.0.0.1:{proxy.said}"}, program=proxy)


def _name(stack: ExitStack) -> ExtraSetup:
    server = stack.enter_context(network.server())
    names = stack.enter_context(ordered("names.py", NAMES_ADDRESS))
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    (folder / "resolv.conf").write_text(f"nameserver {NAMES_ADDRESS}\noptions timeout:1 attempts:3\n")
    (folder / "nsswitch.conf").write_text("hosts: dns\n")
    mount = " && ".join(f'mount --bind "$1/{name}" /etc/{name}' for name in ("resolv.conf", "nsswitch.conf"))
    before = ["unshare", "--mount", "sh", "-c", f'{mount} && shift && exec "$@"', "sh", str(folder)]
    return ExtraSetup({"STEP_EXTRA": f"resolve:{SERVER_NAME}:{server.port}"}, before, program=names)


def _log(stack: ExitStack) -> ExtraSetup:
    reading, writing = os.pipe2(os.O_CLOEXEC)
    stack.callback(os.close, writing)
    fcntl.fcntl(writing, F_SETPIPE_SZ, PIPE_BYTES)
    reader = subprocess.Popen(["cat"], stdin=reading, stdout=subprocess.DEVNULL, start_new_session=True)
    os.close(reading)
    stack.callback(_end, reader)
    return ExtraSetup({"STEP_EXTRA": "log:"}, output=writing, reader=reader)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()


def _memory(_: ExitStack) -> ExtraSetup:
    return ExtraSetup({"STEP_EXTRA": "touch:"})


_SETUPS = {
    Extra.NONE: _none,
    Extra.FILE: _file,
    Extra.DEVICE: _device,
    Extra.FUSE: _fuse,
    Extra.SERVER: _server,
    Extra.NAME: _name,
    Extra.LOG: _log,
    Extra.MEMORY: _memory,
}
