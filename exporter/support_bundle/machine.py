"""Access to this machine, bounded in size and time: files, environment, kernel log, programs, the local web server."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple
from urllib.parse import SplitResult

from exporter.http_client.client import HttpClient
from exporter.http_client.deadline import Deadline
from exporter.http_client.errors import HttpFailure
from exporter.http_client.tls import client_context

FILE_BYTES_MAX = 1 << 20
KERNEL_LOG_BYTES_MAX = 32 << 20
LOG_LINES_MAX = 300
TIMEOUT_SECONDS = 5.0


class Reply(NamedTuple):
    status: int
    body: str


@dataclass(frozen=True, slots=True)
class Machine:
    """root: the directory that holds /proc, /sys, /etc, /boot and /dev; tests use another."""

    root: Path = Path("/")
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    def read(self, path: str) -> str:
        """The beginning of a file, without its last newline. Raises OSError."""
        return self.read_bytes(path).decode("utf-8", "replace").rstrip("\n")

    def read_bytes(self, path: str) -> bytes:
        """At most FILE_BYTES_MAX of a file. Raises OSError."""
        with (self.root / path.lstrip("/")).open("rb") as file:
            return file.read(FILE_BYTES_MAX)

    def read_or_error(self, path: str) -> str:
        """Like read(), but on an error the reason."""
        try:
            return self.read(path)
        except OSError as error:
            return f"cannot be read: {error.strerror}"

    def kernel_log(self) -> list[str]:
        """Every record in the kernel's buffer, oldest first. Raises OSError."""
        fd = os.open(self.root / "dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        records, left_bytes = [], KERNEL_LOG_BYTES_MAX
        try:
            while left_bytes > 0:
                try:
                    record = os.read(fd, 1 << 16)
                except BlockingIOError:
                    break
                except OSError as error:
                    if error.errno == errno.EPIPE:  # overwritten before it was read
                        continue
                    raise
                if not record:
                    break
                left_bytes -= len(record)
                records.append(record)
        finally:
            os.close(fd)
        return b"".join(records).decode("utf-8", "replace").splitlines()

    def output_of(self, command: Sequence[str]) -> str:
        """Standard output of a program. Raises OSError, subprocess.SubprocessError."""
        done = subprocess.run(list(command), capture_output=True, timeout=TIMEOUT_SECONDS, check=True)
        return done.stdout[-FILE_BYTES_MAX:].decode("utf-8", "replace")

    def get(self, host: str, port: int, path: str, *, is_tls: bool) -> Reply:
        """A page from this machine, without verifying the certificate: nothing secret is sent. Raises OSError."""
        url = SplitResult(
            "https" if is_tls else "http", f"[{host}]:{port}" if ":" in host else f"{host}:{port}", "", "", ""
        )
        client = HttpClient(url, tls=partial(client_context, is_verified=False))
        try:
            with client.request("GET", path, {}, Deadline.after(TIMEOUT_SECONDS)) as response:
                return Reply(response.status, response.read_prefix(FILE_BYTES_MAX).decode("utf-8", "replace"))
        except HttpFailure as error:
            raise OSError(errno.EPROTO, str(error)) from None
