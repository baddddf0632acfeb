"""What is asked of a machine for a bundle, each within bounds; tests give another root, another environment, other answers."""

from __future__ import annotations

import errno
import http.client
import os
import ssl
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from exporter import __version__

FILE_BYTES_MAX = 1 << 20
KERNEL_LOG_BYTES_MAX = 32 << 20
PATIENCE_SECONDS = 5.0


class Reply(NamedTuple):
    """Of a web server."""

    status: int
    body: str


@dataclass(frozen=True, slots=True)
class Machine:
    """root: below which /proc, /sys, /etc, /boot and /dev lie."""

    root: Path = Path("/")
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    def read(self, path: str) -> str:
        """The beginning of a file, without its last newline. Raises OSError."""
        return self.read_bytes(path).decode("utf-8", "replace").rstrip("\n")

    def read_bytes(self, path: str) -> bytes:
        """At most FILE_BYTES_MAX of a file. Raises OSError."""
        with (self.root / path.lstrip("/")).open("rb") as file:
            return file.read(FILE_BYTES_MAX)

    def said(self, path: str) -> str:
        """The same, or why it cannot be read."""
        try:
            return self.read(path)
        except OSError as error:
            return f"cannot be read: {error.strerror}"

    def kernel_log(self) -> list[str]:
        """Every record that the kernel still has, oldest first. Raises OSError."""
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
        done = subprocess.run(list(command), capture_output=True, timeout=PATIENCE_SECONDS, check=True)
        return done.stdout[-FILE_BYTES_MAX:].decode("utf-8", "replace")

    def get(self, host: str, port: int, path: str, *, is_tls: bool) -> Reply:
        """A page of this machine. Nothing secret is sent, so its certificate need not be right. Raises OSError."""
        connection: http.client.HTTPConnection
        if is_tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            connection = http.client.HTTPSConnection(host, port, timeout=PATIENCE_SECONDS, context=context)
        else:
            connection = http.client.HTTPConnection(host, port, timeout=PATIENCE_SECONDS)
        until = time.monotonic() + PATIENCE_SECONDS
        try:
            connection.request("GET", path, headers={"User-Agent": f"gpu-stall-exporter/{__version__}"})
            response = connection.getresponse()
            body = b""
            while len(body) <= FILE_BYTES_MAX and (piece := response.read1(1 << 16)):
                body += piece
                if time.monotonic() > until:
                    raise TimeoutError(f"no whole answer within {PATIENCE_SECONDS:g} s")
            return Reply(response.status, body.decode("utf-8", "replace"))
        except http.client.HTTPException as error:
            raise OSError(errno.EPROTO, f"the answer is no whole HTTP: {type(error).__name__}") from None
        finally:
            connection.close()
