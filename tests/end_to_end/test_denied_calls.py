"""System calls that a security module refuses, from the start or later: the messages, and what goes on."""

from __future__ import annotations

import errno
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support import certificates
from tests.support.denying import Denial, write_orders
from tests.support.exporter_process import COMMAND, running
from tests.support.held_calls import fresh_rank, held_calls
from tests.support.requirements import need_tracing
from tests.support.traced import eventually
from tests.support.under_seccomp import libseccomp

pytestmark = pytest.mark.end_to_end
BPF = Denial("bpf", errno.EPERM)
NEVER = Denial("bpf", errno.EPERM, "", (0, 0xFFFF_FFF0))
PROC = Denial("openat", errno.EACCES, r"^/proc/\d+/maps$")
NETLINK = Denial("socket", errno.EACCES, "", (0, 16))
PERF_EVENTS = Denial("perf_event_open", errno.EACCES)
MEMORY_FILES = Denial("memfd_create", errno.EACCES)
REFUSED = "its capabilities suffice, so the seccomp filter of this process, SELinux or AppArmor refuses"


@pytest.fixture(scope="module", autouse=True)
def _skip_unless_possible() -> None:
    """Skip, naming what is missing."""
    need_tracing()
    if libseccomp() is None:
        pytest.skip("libseccomp.so.2 is missing: apt-get install libseccomp2")


def under(orders: Path, *denials: Denial) -> Sequence[str]:
    """A command that runs another one, whose calls are refused as the file says."""
    write_orders(orders, *denials)
    return (sys.executable, "-m", "tests.support.denying", str(orders))


def command(tmp_path: Path, denial: Denial, *words: str) -> subprocess.CompletedProcess[str]:
    """A command of the exporter that ends."""
    everything = [*under(tmp_path / "orders", denial), *COMMAND, *words]
    return subprocess.run(everything, capture_output=True, text=True, check=False)


def row_of(text: str, row: str) -> str:
    """The row of `check`, with the lines below it."""
    rows = text.split("\n")
    begin = next(number for number, line in enumerate(rows) if line.startswith(f"{row} "))
    return rows[begin] + " ".join(line.strip() for line in rows[begin + 1 : begin + 6])


class TestFromTheStart:
    def test_run_ends_with_one_line_that_names_the_call(self, tmp_path: Path) -> None:
        done = command(tmp_path, BPF, "run", "--web.listen-address=127.0.0.1:0", "--history.path=none")

        assert (done.returncode, done.stderr.count("\n")) == (3, 1)
        assert done.stderr.startswith("gpu-stall-exporter: cannot load cuda.bpf.o: Operation not permitted")
        assert f"; {REFUSED} bpf(2) or perf_event_open(2): see `dmesg` and `ausearch -m AVC`" in done.stderr

    @pytest.mark.parametrize(
        ("denial", "row", "named"),
        [
            (BPF, "BPF programs", "refuses bpf(2)"),
            (PROC, "libraries", "/proc/PID/maps of"),
        ],
        ids=["bpf", "/proc/PID/maps"],
    )
    def test_check_names_the_call(self, tmp_path: Path, denial: Denial, row: str, named: str) -> None:
        assert named in row_of(command(tmp_path, denial, "check").stdout, row)

    def test_check_names_perf_event_open_wherever_it_is_refused(self, tmp_path: Path) -> None:
        """Also where page faults are counted."""
        text = command(tmp_path, PERF_EVENTS, "check").stdout

        assert "refuses perf_event_open(2)" in row_of(text, "perf events")
        assert "cannot open software event 6 on CPU" in row_of(text, "BPF programs")

    def test_tls_without_memory_files_is_one_line(self, tmp_path: Path) -> None:
        made = certificates.issue(tmp_path)
        file = tmp_path / "web.yml"
        file.write_text(f"tls_server_config:\n  cert_file: {made.server.name}\n  key_file: {made.server.name}\n")
        done = command(tmp_path, MEMORY_FILES, "run", f"--web.config.file={file}", "--history.path=none")

        assert done.returncode == 2
        assert "memfd_create(2) failed: Permission denied; allow it" in done.stderr.splitlines()[-1]
        assert "Traceback" not in done.stderr

    def test_calls_are_counted_without_netlink_and_perf_events(self, tmp_path: Path) -> None:
        """What does not depend on them goes on; each is one line of the log."""
        rank = fresh_rank()
        with (
            held_calls("cudaMalloc:23", rank=rank) as calls,
            running(under=under(tmp_path / "orders", NETLINK, PERF_EVENTS)) as exporter,
        ):
            calls.make()
            counted = {"operation": "cudaMalloc", "rank": rank}
            eventually(
                lambda: exporter.scrape().total("gpustall_cuda_operations_total", **counted) == 23, "23 are counted"
            )
            for _ in range(3):
                exporter.scrape()
            logs = exporter.logs

        assert (
            logs.count("cannot read interfaces, metrics missing: cannot open a netlink socket: Permission denied") == 1
        )
        assert logs.count("libraries are found only by scanning /proc") == 1
        assert "Traceback" not in logs


class TestLater:
    def test_bpf_is_refused_and_allowed_again(self, tmp_path: Path) -> None:
        """Calls in between are counted in the kernel; each refusal is logged once, and a scrape has no metrics that are wrong."""
        orders, rank = tmp_path / "orders", fresh_rank()
        counted = {"operation": "cudaMalloc", "rank": rank}
        with (
            held_calls("cudaMalloc:23", rank=rank) as calls,
            running("--web.listen-address=127.0.0.1:0", under=under(orders, NEVER)) as exporter,
        ):
            eventually(lambda: exporter.get("/readyz").status == 200, "it is ready")
            write_orders(orders, BPF)
            eventually(lambda: "cannot update metrics" in exporter.logs, "a tick has failed")
            calls.make()
            refused = eventually(lambda: (page := exporter.get()).status == 503 and page, "a scrape is refused")
            write_orders(orders, NEVER)
            eventually(lambda: "metrics are updated again" in exporter.logs, "a tick has succeeded")

            assert exporter.scrape().total("gpustall_cuda_operations_total", **counted) == 23
            assert exporter.stop() == 0
            logs = exporter.logs
        reasons = re.findall(r"cannot update metrics: ([^;]*);", logs)
        assert re.match(rb"no metrics: cannot [^:;]*: Operation not permitted\b", refused.body)
        assert reasons == list(dict.fromkeys(reasons))
        assert "Traceback" not in logs
