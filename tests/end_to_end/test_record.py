"""`record` and `trace` with a running exporter, and without one: each call is in the trace, once."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import gpustall_standin as standin
from exporter.recording.call_stream import FrameKind, failure_of, frames
from tests.support.exporter_process import COMMAND, Exporter, running
from tests.support.held_calls import held_calls
from tests.support.patience import PATIENCE_SECONDS
from tests.support.requirements import need_tracing
from tests.support.trace_processor import ERRORS, answers
from tests.support.traced import STANDIN_LIBRARIES, eventually

pytestmark = pytest.mark.end_to_end
OTHER_USER = 65534
CALLS = "select name, count(*) from slice where category = 'call' group by 1"
BYTES = "select distinct int_value from slice join args using (arg_set_id) where name = 'cudaMemcpy2D' and key glob '*bytes'"
STATES = "select distinct name from slice where category = 'state'"
COLLECTIVES = "select count(*) from flow join slice on slice.id = slice_out where name = 'ncclAllGather'"
RANKS = (
    "select count(*) from slice join args using (arg_set_id)"
    " where name = 'ncclAllGather' and key glob '*ranks_here' and int_value = 2"
)


@pytest.fixture(scope="module", autouse=True)
def _possible_here() -> None:
    """Skip with a reason where something is missing."""
    need_tracing()


@pytest.fixture(scope="module")
def exporter() -> Iterator[Exporter]:
    """With a process that has mapped the libraries, so that they stay probed."""
    with running() as found, job("cudaMalloc:1:4096", "sleep:1:600000000000"):
        for library in STANDIN_LIBRARIES.values():
            eventually(lambda library=library: f"{library}: " in found.logs, f"{library} is probed")
        yield found


@contextmanager
def job(*orders: str) -> Iterator[subprocess.Popen[str]]:
    """`calls` that makes a call, and the orders when its standard input ends."""
    process = subprocess.Popen(
        [standin.build_dir() / "calls", *orders],
        env=standin.environment(dict(os.environ)),
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def recorded(*flags: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen([*COMMAND, "record", *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    return process.returncode, out, err


def refusal(exporter: Exporter, line: bytes) -> str:
    """The answer to something that is no request."""
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(PATIENCE_SECONDS)
        peer.connect(str(exporter.socket))
        peer.sendall(line)
        ((kind, content),) = frames(peer.makefile("rb").read)
    assert kind is FrameKind.FAILURE
    return failure_of(content).one_line()


def answer_to_another_user(path: Path) -> bytes:
    """What a process of another user without groups gets from a socket."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(OTHER_USER)
            os.setuid(OTHER_USER)
            with socket.socket(socket.AF_UNIX) as peer:
                peer.connect(str(path))
                os.write(write, peer.makefile("rb").read())
        except OSError as error:
            os.write(write, os.strerror(error.errno or 0).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        found = answer.read()
    os.waitpid(child, 0)
    return found


class TestRecord:
    """With a running exporter."""

    def test_each_call_is_a_slice(self, exporter: Exporter, tmp_path: Path) -> None:
        """23 copies of two ranks, 23 collectives joined over both."""
        trace = tmp_path / "trace"
        process = recorded("--for=13m", f"--output={trace}", f"--recording.socket={exporter.socket}")
        eventually(lambda: "recording single calls for 780 s" in exporter.logs, "the recording has begun")
        with job("--ranks=2", "cudaMemcpy2D:23:65536:d2ph", "ncclAllGather:23:65536") as made:
            made.communicate(timeout=PATIENCE_SECONDS)
        process.send_signal(signal.SIGINT)
        code, out, err = ended(process)
        errors, calls, sizes, states, flows, ranks = answers(
            trace.read_bytes(), ERRORS, CALLS, BYTES, STATES, COLLECTIVES, RANKS
        )
        counts = Counter({str(name): count for name, count in calls})

        assert (code, err) == (0, "")
        assert errors == []
        assert (counts["cudaMemcpy2D"], counts["ncclAllGather"]) == (46, 46)
        assert sizes == [(65536,)]
        assert ("running",) in states
        assert flows == [(23,)]
        assert ranks == [(46,)]
        assert re.search(r"^[\d,]+ calls of \d process(es)? in \d+\.\d s; nothing dropped$", out, re.MULTILINE)
        assert "https://ui.perfetto.dev" in out

    def test_interrupt_ends_it_and_the_trace_is_written(self, exporter: Exporter, tmp_path: Path) -> None:
        """23 copies, and Ctrl-C in a recording of a quarter of an hour."""
        trace = tmp_path / "trace"
        process = recorded("--for=15m", f"--output={trace}", f"--recording.socket={exporter.socket}")
        eventually(lambda: "recording single calls for 900 s" in exporter.logs, "the recording has begun")
        with job("cudaMemcpy2D:23:65536:d2ph") as made:
            made.communicate(timeout=PATIENCE_SECONDS)
        process.send_signal(signal.SIGINT)
        code, _, err = ended(process)
        errors, calls = answers(trace.read_bytes(), ERRORS, CALLS)

        assert (code, err, errors) == (0, "", [])
        assert {str(name): count for name, count in calls}["cudaMemcpy2D"] == 23

    def test_another_one_is_refused_while_it_runs(self, exporter: Exporter, tmp_path: Path) -> None:
        """It says for how long."""
        flags = (f"--output={tmp_path / 'trace'}", f"--recording.socket={exporter.socket}")
        first = recorded("--for=14m", *flags)
        eventually(lambda: "recording single calls for 840 s" in exporter.logs, "the recording has begun")
        code, _, err = ended(recorded("--for=1s", *flags))
        first.send_signal(signal.SIGINT)
        ended(first)

        assert code == 3
        assert re.search(r"another recording runs; try again when it has ended, in at most \d+ s$", err.strip())

    def test_pid_selects_one_process(self, exporter: Exporter, tmp_path: Path) -> None:
        """Both make their calls while it is recorded."""
        with held_calls("cudaMemcpy:23:65536") as one, held_calls("cudaMalloc:23:4096") as other:
            (tgid,) = one.tgids
            trace = tmp_path / "trace"
            flags = ("--for=12m", f"--pid={tgid}", f"--output={trace}", f"--recording.socket={exporter.socket}")
            eventually(lambda: ended(recorded("--for=100ms", *flags[1:]))[0] in {0, 3}, "the process is known")
            process = recorded(*flags)
            eventually(lambda: "recording single calls for 720 s" in exporter.logs, "the recording has begun")
            one.make()
            other.make()
            process.send_signal(signal.SIGINT)
            code, _, err = ended(process)
        errors, calls = answers(trace.read_bytes(), ERRORS, CALLS)

        assert (code, err, errors) == (0, "", [])
        assert {str(name): count for name, count in calls}["cudaMemcpy"] == 23
        assert "cudaMalloc" not in {name for name, _ in calls}

    def test_process_that_is_not_traced_is_refused(self, exporter: Exporter) -> None:
        code, out, err = ended(recorded("--pid=1", f"--recording.socket={exporter.socket}"))

        assert (code, out) == (2, "")
        assert err.startswith("gpu-stall-exporter: ")
        assert err.count("\n") == 1
        assert "no process matches 'pid=1'" in err

    @pytest.mark.parametrize(
        "line",
        [
            b"\n",
            b"GET / HTTP/1.1\n",
            b"[]\n",
            b'{"seconds": 1e9, "bytes": 1}\n',
            b'{"seconds": 1, "bytes": 1000000000000}\n',
            b'{"seconds": true, "bytes": 1}\n',
            json.dumps({"seconds": 1, "bytes": 1 << 20, "workload": "x" * 2000}).encode() + b"\n",
            b"x" * 4096,
        ],
    )
    def test_what_is_no_request_is_refused(self, exporter: Exporter, line: bytes) -> None:
        assert refusal(exporter, line).startswith("not a request for a recording")

    def test_other_users_cannot_connect(self, exporter: Exporter) -> None:
        """By the mode of the socket."""
        exporter.socket.parent.chmod(0o755)

        assert exporter.socket.stat().st_mode & 0o777 == 0o660
        assert answer_to_another_user(exporter.socket) == b"Permission denied"

    def test_peer_that_has_the_socket_but_not_the_rights_is_refused(self, exporter: Exporter) -> None:
        """As if its mode had been changed: the kernel says who it is."""
        exporter.socket.parent.chmod(0o755)
        exporter.socket.chmod(0o666)
        try:
            answer = answer_to_another_user(exporter.socket)
        finally:
            exporter.socket.chmod(0o660)

        assert b"only root and members of the group `adm` may record" in answer


class TestTrace:
    """Lines as calls happen."""

    def test_each_call_is_a_line(self, exporter: Exporter) -> None:
        """After the table of workloads."""
        process = subprocess.Popen(
            [
                *(*COMMAND, "trace", "--for=11m", "--lines=100000"),
                *(f"--recording.socket={exporter.socket}", f"--url={exporter.url}"),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        eventually(lambda: "recording single calls for 660 s" in exporter.logs, "the recording has begun")
        with job("cudaMemcpy2D:23:65536:d2ph") as made:
            made.communicate(timeout=PATIENCE_SECONDS)
        process.send_signal(signal.SIGINT)
        code, out, _ = ended(process)
        lines = [line for line in out.splitlines() if "  cudaMemcpy2D  " in line]

        assert code == 0
        assert out.startswith("top · ")
        assert len(lines) == 23
        assert all(line.endswith("bytes=65536 direction=GPU to host host_memory=pageable") for line in lines)


class TestByItself:
    """No exporter runs at the socket."""

    def test_calls_of_a_running_process_are_recorded(self, tmp_path: Path) -> None:
        """A job of 101 calls, one every 0.9 s: some of them, and not those before and after."""
        trace = tmp_path / "trace"
        with job("cudaMemcpy:1:65536", *("sleep:1:900000000", "cudaMemcpy:1:65536") * 100) as made:
            mappings = Path(f"/proc/{made.pid}/maps")
            eventually(lambda: "libcudart" in mappings.read_text(), "the job has mapped the library")
            code, _, err = ended(
                recorded("--for=4s", f"--output={trace}", f"--recording.socket={tmp_path / 'none.sock'}")
            )
        errors, calls = answers(trace.read_bytes(), ERRORS, CALLS)

        assert (code, err, errors) == (0, "", [])
        assert 1 <= {str(name): count for name, count in calls}["cudaMemcpy"] < 101
