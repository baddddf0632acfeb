"""view: which socket is queried, and which never is. The job is this process, with real sockets; other namespaces are made up."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from exporter.errors import NoAnswer
from exporter.host.processes import Processes
from exporter.kernel.process_rows import CommunicatorRow
from exporter.ras.asking import RasResult
from exporter.ras.job import LocalJob
from exporter.ras.view import JobRows, RasView
from tests.support.ras_answers import a_communicator, a_missing_rank, a_rank, in_json
from tests.support.ras_server import LOOPBACK, Connection, answering, ras_server

OWN = os.getpid()
ANSWER = ["answered", ["NCCL RAS: NCCL 2.29.1 reports 1 communicator"]]


def rows_of(tgid: int) -> JobRows:
    """A job of one process here, rank 0 of two."""
    return JobRows(LocalJob((1,), frozenset({10})), {1: tgid}, {1: [CommunicatorRow(10, 0, 0, 2, 1)]})


class Bench:
    """address: value of NCCL_RAS_ADDR. answer: of the program. requests: that it got."""

    def __init__(self, address: str = "", *, answer: Any = ANSWER, proc: Path = Path("/proc")) -> None:
        self.requests: list[list[Any]] = []
        self._answer = answer
        variables = {"NCCL_RAS_ADDR": address} if address else {}
        self._view = RasView(Processes(proc), lambda _tgid, _names: variables, self._ask, may_enter=lambda: False)

    def _ask(self, request: list[Any]) -> Any:
        self.requests.append(request)
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    def of(self, tgid: int = OWN) -> RasResult:
        return self._view.of(rows_of(tgid))


@contextmanager
def listening(host: str = LOOPBACK) -> Iterator[socket.socket]:
    with socket.create_server((host, 0)) as found:
        yield found


def port_of(one: socket.socket) -> int:
    return int(one.getsockname()[1])


class TestWhichSocket:
    def test_socket_of_the_job_is_queried(self) -> None:
        """With what is known of the job: a communicator of two ranks, in which this process is rank 0."""
        with listening() as one:
            bench = Bench(f"localhost:{port_of(one)}")
            found = bench.of()

            assert found == RasResult("answered", ("NCCL RAS: NCCL 2.29.1 reports 1 communicator",))
            assert bench.requests == [[LOOPBACK, port_of(one), False, 0, [[2], [(2, 0, OWN)], [OWN]]]]

    def test_wildcard_is_queried_on_loopback(self) -> None:
        with listening("0.0.0.0") as one:  # noqa: S104 - what a job may do
            bench = Bench(f"0.0.0.0:{port_of(one)}")
            bench.of()

            assert bench.requests[0][:2] == [LOOPBACK, port_of(one)]

    def test_host_that_the_job_chose_is_not_used(self) -> None:
        """A tenant cannot have the exporter connect to an address of the cluster, or of a cloud's metadata."""
        with listening() as one:
            bench = Bench(f"169.254.169.254:{port_of(one)}")
            bench.of()

            assert bench.requests[0][0] == LOOPBACK

    def test_socket_of_another_process_is_not_queried(self) -> None:
        """The same port of the same namespace: a service of the node, say."""
        with listening() as one, subprocess.Popen(["sleep", "600"], pass_fds=[one.fileno()]) as other:
            port = port_of(one)
            one.close()
            bench = Bench(f"localhost:{port}")
            found = bench.of()
            other.kill()

        assert (found.result, bench.requests) == ("absent", [])

    @pytest.mark.parametrize(
        "chosen", ["", "localhost", "localhost:0", "localhost:99999", "localhost:x", "²:²", ":" * 99]
    )
    def test_without_a_port_it_is_28028(self, chosen: str) -> None:
        """This process does not listen there."""
        found = Bench(chosen).of()

        assert found == RasResult(
            "absent",
            (
                "NCCL RAS: not queried: no process of the job listens on port 28028"
                " (NCCL before 2.24, or NCCL_RAS_ENABLE=0)",
            ),
        )

    def test_process_that_has_ended_listens_on_no_port(self) -> None:
        with subprocess.Popen(["true"]) as ended:
            ended.wait()
        bench = Bench()

        assert (bench.of(ended.pid).result, bench.requests) == ("absent", [])


class TestOtherNamespace:
    def test_it_is_named_where_it_cannot_be_entered(self, tmp_path: Path) -> None:
        """The process listens; its network namespace is a file of its own."""
        row = "   0: 0100007F:6D7C 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1\n"
        files = {"net/tcp": f"  sl  local_address\n{row}", "net/tcp6": "", "ns/net": "", "status": "NSpid:\t500\t7\n"}
        for name, content in files.items():
            path = tmp_path / "500" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        (tmp_path / "500" / "fd").mkdir()
        (tmp_path / "500" / "fd" / "3").symlink_to("socket:[4711]")
        bench = Bench(proc=tmp_path)

        assert bench.of(500) == RasResult(
            "namespace",
            (
                "NCCL RAS: not queried: the job is in another network namespace; --collector.network.namespaces allows it",
            ),
        )
        assert bench.requests == []


class TestAnswerOfTheProgram:
    """It has read what a tenant sent."""

    @pytest.mark.parametrize(
        "answer",
        [
            NoAnswer("it has ended"),
            None,
            [],
            ["answered"],
            ["surprise", []],
            ["answered", [1]],
            ["answered", ["x"] * 13],
        ],
    )
    def test_other_forms_are_a_failure(self, answer: Any) -> None:
        with listening() as one:
            found = Bench(f"localhost:{port_of(one)}", answer=answer).of()

        assert found == RasResult("failed", ("NCCL RAS: not queried: the program that does it has failed",))

    def test_lines_are_printable_and_bounded(self) -> None:
        with listening() as one:
            found = Bench(f"localhost:{port_of(one)}", answer=["answered", ["\x1b[2J" + "x" * 5000]]).of()

        assert found.lines[0].startswith("\ufffd[2J")
        assert len(found.lines[0]) == 1024


class TestProgram:
    """The real one, in its own process."""

    def test_it_has_no_capabilities_when_it_connects(self) -> None:
        seen: list[str] = []

        def status() -> bytes:
            seen.extend(capabilities_of_programs())
            return in_json(a_communicator([a_rank(0, OWN)], [a_missing_rank(1, 42)]))

        with ras_server([answering(status)]) as server:
            found = queried(server.address)

        assert found.result == "answered"
        assert seen == ["0000000000000000"]

    def test_its_end_is_a_failure(self) -> None:
        """Killed when memory is short, say."""

        def kill(_connection: Connection) -> None:
            for tgid in programs():
                os.kill(tgid, 9)

        with ras_server([kill]) as server:
            assert queried(server.address).result == "failed"


def queried(address: tuple[str, int]) -> RasResult:
    """By the real program."""
    variables: Mapping[str, str] = {"NCCL_RAS_ADDR": f"{address[0]}:{address[1]}"}
    environment_of: Callable[..., Mapping[str, str]] = lambda _tgid, _names: variables  # noqa: E731
    view = RasView(Processes(), environment_of)
    try:
        return view.of(rows_of(OWN))
    finally:
        view.close()


def programs() -> list[int]:
    """Children of this process that query."""
    found = []
    for children in Path("/proc/self/task").glob("*/children"):
        for tgid in map(int, children.read_text().split()):
            with suppress(OSError):
                if b"exporter.ras.program" in Path(f"/proc/{tgid}/cmdline").read_bytes():
                    found.append(tgid)
    return found


def capabilities_of_programs() -> list[str]:
    """The effective ones, as /proc shows them."""
    texts = [Path(f"/proc/{tgid}/status").read_text() for tgid in programs()]
    return [line.split()[1] for text in texts for line in text.splitlines() if line.startswith("CapEff:")]
