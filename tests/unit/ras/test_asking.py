"""asking: which connection gets the answer about the job, and the lines about it or about why there is none."""

from __future__ import annotations

import socket

import pytest

from exporter.ras.asking import CONNECTIONS_MAX, RasResult, asked
from exporter.ras.job import KnownJob
from exporter.ras.report import RankProcess
from tests.support.ras_answers import EIGHT_INCOMPLETE, a_communicator, a_missing_rank, a_rank, in_json, in_text
from tests.support.ras_server import Entry, answering, ras_server, saying, silence
from tests.unit.ras.test_text_form import SILENT_2_24

JOB = KnownJob(frozenset({2}), frozenset({RankProcess(2, 0, 41)}), frozenset({41}))
OF_JOB = answering(in_json(a_communicator([a_rank(0, 41)], [a_missing_rank(1, 42)])))
OF_ANOTHER = answering(in_json(a_communicator([a_rank(0, 51), a_rank(1, 52)])))


def query(address: tuple[str, int], job: KnownJob = JOB) -> RasResult:
    """With as many sockets as the program has."""
    sockets = [socket.socket() for _ in range(CONNECTIONS_MAX)]
    try:
        return asked(sockets, address, job, deadline_seconds=60.0)
    finally:
        for one in sockets:
            one.close()


class TestAsked:
    """Several processes listen on one port; the kernel chooses."""

    def test_answer_about_the_job_is_evidence(self) -> None:
        with ras_server([OF_JOB]) as server:
            result, (head, fact) = query(server.address)

        assert result == "answered"
        assert head == "NCCL RAS: NCCL 2.29.1 reports 1 communicator, the largest of 2 ranks"
        assert fact == "NCCL RAS: rank 1 (process 42 on 10.0.0.2) of 2 in communicator ae94423cfbb2ef4a does not answer"

    @pytest.mark.parametrize("first", [silence(), OF_ANOTHER])
    def test_stopped_process_or_another_job_is_followed_by_another_connection(self, first: Entry) -> None:
        with ras_server([first, OF_JOB]) as server:
            assert query(server.address).result == "answered"
            assert len(server.connections) == 2

    def test_only_another_job_answers(self) -> None:
        """Nothing of its answer is shown."""
        with ras_server([OF_ANOTHER]) as server:
            result, lines = query(server.address)
            host, port = server.address
            assert len(server.connections) == CONNECTIONS_MAX

        assert result == "other_job"
        assert lines == (f"NCCL RAS: another job answers at {host}:{port}: nothing is known of this one",)

    def test_old_version_answers_in_text(self) -> None:
        """A job of eight ranks has no process that the answer names: its size is enough."""
        job = KnownJob(frozenset({8}), frozenset({RankProcess(8, 0, 41)}), frozenset({41}))
        with ras_server([answering(in_text(EIGHT_INCOMPLETE, SILENT_2_24), knows_json=False)]) as server:
            result, lines = query(server.address, job)

        assert result == "answered"
        assert "NCCL RAS: rank 5 of 8 in communicator cf264af53edbe986 does not answer" in lines

    @pytest.mark.parametrize(
        ("entry", "result"),
        [
            (answering(b"\x00" * 100), "unreadable"),
            (answering(in_json()[:20]), "unreadable"),
            (saying(b"HTTP/1.1 400 Bad Request\r\n"), "unreadable"),
        ],
    )
    def test_other_content_is_one_plain_line(self, entry: Entry, result: str) -> None:
        with ras_server([entry]) as server:
            found = query(server.address)
            host, port = server.address

        assert found.result == result
        assert found.lines == (
            f"NCCL RAS: the answer of {host}:{port} is not readable: another version of NCCL, or another program",
        )

    def test_no_listener_is_one_plain_line(self) -> None:
        with ras_server([silence()]) as server:
            host, port = server.address
        result, lines = query((host, port))

        assert (result, lines) == ("refused", (f"NCCL RAS: {host}:{port} refuses or ends connections",))

    def test_address_of_ipv6_has_brackets(self) -> None:
        with ras_server([saying(b"no\n")], host="::1") as server:
            sockets = [socket.socket(socket.AF_INET6)]
            found = asked(sockets, server.address, JOB, deadline_seconds=60.0)
            port = server.address[1]

        assert f"the answer of [::1]:{port} is not readable" in found.lines[0]
