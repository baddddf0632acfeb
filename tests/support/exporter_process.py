"""The exporter as its users run it: a process of its own, scraped over the loopback interface."""

from __future__ import annotations

import ctypes
import errno
import gzip
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.support import exposition
from tests.support.exposition import Scrape
from tests.support.patience import PATIENCE_SECONDS
from tests.support.traced import eventually

COMMAND = (sys.executable, "-m", "exporter")
STARTS = "TEST_EXPORTER_STARTS"
"""A variable with the file that has a line for each start of an exporter."""

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
LOG_CHARACTERS_MAX = 20_000
_BPF_SYSCALL = {"x86_64": 321, "aarch64": 280}
# enum bpf_cmd: the commands that open a thing of the kernel by its number
_BY_ID = {"prog": 13, "map": 14, "link": 30}
FIRST_WALK_OVER = re.compile(
    r"(probing \d+ library files of|no CUDA or NCCL library in use|no library |all probes removed)"
)
_ID_LINE = re.compile(r"^(prog|map|link)_id:\s*(\d+)$", re.MULTILINE)


class Response(NamedTuple):
    """A response; the body as it was sent, compression included."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Exporter:
    """A running exporter. url: of its metrics. capsules: the directory of its recordings."""

    process: subprocess.Popen[bytes]
    url: str
    _log: Path
    capsules: Path

    @property
    def socket(self) -> Path:
        """Where it takes requests for recordings of single calls."""
        return self.capsules.with_name("record.sock")

    @property
    def logs(self) -> str:
        """Its log so far."""
        return self._log.read_text()

    def get(self, path: str = "", **headers: str) -> Response:
        """Get the metrics, or another page. headers: Accept_Encoding="gzip"."""
        url = self.url if not path else self.url.rpartition("/")[0] + path
        request = urllib.request.Request(url, headers={k.replace("_", "-"): v for k, v in headers.items()})  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as response:  # noqa: S310 - our own address
                return Response(response.status, response.headers, response.read())
        except urllib.error.HTTPError as error:
            with error:
                return Response(error.code, error.headers, error.read())

    def scrape(self) -> Scrape:
        """The metrics, at most a fifth of a second old."""
        return exposition.of_text(self.get().body.decode())

    def scrape_openmetrics(self) -> Scrape:
        """The same as Prometheus negotiates them: OpenMetrics, compressed."""
        response = self.get(Accept=OPENMETRICS, Accept_Encoding="gzip")
        return exposition.of_openmetrics(gzip.decompress(response.body).decode())

    def kernel_things(self) -> set[tuple[str, int]]:
        """Links, programs and maps that it has in the kernel: ("link", 17)."""
        return kernel_things(self.process.pid)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal; returns the exit code, as subprocess gives it."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_SECONDS)


def kernel_things(tgid: int) -> set[tuple[str, int]]:
    """Links, programs and maps that a process has in the kernel."""
    found = set()
    for info in Path(f"/proc/{tgid}/fdinfo").iterdir():
        try:
            found |= {(kind, int(number)) for kind, number in _ID_LINE.findall(info.read_text())}
        except FileNotFoundError:
            continue  # a connection that has just been closed
    return found


@contextmanager
def running(
    *flags: str,
    environment: Mapping[str, str] | None = None,
    under: Sequence[str] = (),
    before_it_serves: Callable[[int], None] | None = None,
    descriptors: Sequence[int] = (),
) -> Iterator[Exporter]:
    """`gpu-stall-exporter run` with flags, on a free port of the loopback interface, by default without a history.

    Libraries of processes that run already are probed. It is ended when the block is left.

    under: a command that runs it, as `unshare --pid --fork`. before_it_serves: called with the tgid once the process has started.
    descriptors: that it inherits.
    """
    if counted := os.environ.get(STARTS):
        with Path(counted).open("a") as starts:
            starts.write(os.environ.get("PYTEST_CURRENT_TEST", "") + "\n")
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        own = (
            "--web.listen-address=127.0.0.1:0",
            f"--recording.directory={folder}/capsules",
            f"--recording.socket={folder}/record.sock",
            "--history.path=none",
        )
        with log.open("wb") as to:
            process = subprocess.Popen(
                [*under, *COMMAND, "run", *own, *flags],
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stderr=to,
                start_new_session=True,
                pass_fds=descriptors,
            )
        try:
            if before_it_serves:
                before_it_serves(process.pid)
            yield Exporter(process, _served_url(process, log), log, Path(folder, "capsules"))
        except BaseException:
            print(log.read_text()[-LOG_CHARACTERS_MAX:])  # pytest shows it beside the failure
            raise
        finally:
            _end(process)


def _served_url(process: subprocess.Popen[bytes], log: Path) -> str:
    """From the line `msg="serving http://127.0.0.1:41093/metrics"` of its log."""

    def served() -> re.Match[str] | None:
        assert process.poll() is None, f"the exporter has ended: {log.read_text()}"
        text = log.read_text()
        return re.search(r"serving (https?://[^\s\"]+)", text) if FIRST_WALK_OVER.search(text) else None

    try:
        found: re.Match[str] = eventually(served, "the exporter serves, and has looked at all processes")
    except AssertionError as error:
        raise AssertionError(f"{error}; its log:\n{log.read_text()}") from None
    return found[1]


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)  # `unshare` does not hand it on
    try:
        process.wait(PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def exists(thing: tuple[str, int]) -> bool:
    """Whether the kernel still has a link, program or map. Needs root."""
    kind, number = thing
    attributes = ctypes.create_string_buffer(16)
    attributes[0:4] = number.to_bytes(4, sys.byteorder)
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.syscall(_BPF_SYSCALL[platform.machine()], _BY_ID[kind], attributes, len(attributes))
    if fd < 0:
        code = ctypes.get_errno()
        if code == errno.ENOENT:
            return False
        raise OSError(code, os.strerror(code), f"{kind} {number}")
    os.close(fd)
    return True
