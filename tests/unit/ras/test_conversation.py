"""conversation: commands and replies with a real socket, and what a hostile or broken one does."""

from __future__ import annotations

import socket
import time

import pytest

from exporter.ras.conversation import ConversationFailed, RasAnswer, RasFailure, answer_of
from tests.support.patience import PATIENCE_SECONDS
from tests.support.ras_server import (
    Entry,
    RasServer,
    answering,
    endless,
    endless_at_once,
    ras_server,
    saying,
    silence,
    then_silence,
)


def answer(server: RasServer, patience_seconds: float = PATIENCE_SECONDS) -> RasAnswer:
    """What it answers."""
    return answer_of(socket.socket(), server.address, time.monotonic() + patience_seconds)


def failure(entry: Entry, patience_seconds: float = PATIENCE_SECONDS) -> ConversationFailed:
    """Why there is no answer."""
    with ras_server([entry]) as server, pytest.raises(ConversationFailed) as caught:
        answer(server, patience_seconds)
    return caught.value


class TestAnswer:
    """A process that knows the protocol."""

    def test_answer_is_all_that_comes_before_the_end(self) -> None:
        """In pieces of seven bytes."""
        content = b"x" * 5000
        with ras_server([answering(content, piece=7)]) as server:
            assert answer(server) == RasAnswer(content, is_json=True)

    def test_version_without_json_answers_in_text(self) -> None:
        """Before 2.28.7 it does not know the command."""
        with ras_server([answering(b"text", knows_json=False)]) as server:
            assert answer(server) == RasAnswer(b"text", is_json=False)

    def test_commands_only_read(self) -> None:
        """Since 2.31 there are others, which change the job."""
        with ras_server([answering(b"{}")]) as server:
            answer(server)
            (connection,) = server.connections

        assert connection.commands == ["CLIENT PROTOCOL 2", "TIMEOUT 3", "SET FORMAT json", "VERBOSE STATUS"]

    def test_replies_may_end_as_in_telnet(self) -> None:
        replies = (b"SERVER PROTOCOL 3\r\n", b"OK\r\n", b"OK\r\n", b"{}")
        with ras_server([saying(*replies)]) as server:
            assert answer(server).content == b"{}"


class TestFailures:
    """One that does not, or does not want to."""

    def test_no_listener(self) -> None:
        with ras_server([silence()]) as server:
            address = server.address
        with pytest.raises(ConversationFailed) as caught:
            answer_of(socket.socket(), address, time.monotonic() + PATIENCE_SECONDS)

        assert caught.value.failure is RasFailure.REFUSED

    def test_silence_from_the_begin(self) -> None:
        """Another process may answer then."""
        found = failure(silence())

        assert (found.failure, found.is_at_begin) == (RasFailure.SILENT, True)

    def test_half_of_an_answer_and_silence(self) -> None:
        found = failure(then_silence(b'{"nccl_version":'), patience_seconds=5.0)

        assert (found.failure, found.is_at_begin) == (RasFailure.SILENT, False)

    def test_answer_that_has_no_end(self) -> None:
        assert failure(endless(b" " * (1 << 20))).failure is RasFailure.TOO_LONG

    def test_byte_after_byte_does_not_move_the_deadline(self) -> None:
        """Neither of the status, nor of a reply."""
        assert failure(endless(b" "), patience_seconds=1.0).failure in (RasFailure.SILENT, RasFailure.TOO_LONG)

    @pytest.mark.parametrize(
        "replies",
        [
            (b"HTTP/1.1 400 Bad Request\r\n\r\n",),
            (b"-ERR unknown command\r\n",),
            (b"SERVER PROTOCOL two\n",),
            (b"SERVER PROTOCOL 2\n", b"ERROR: Invalid timeout value\n"),
            (b"SERVER PROTOCOL 2\n", b"OK\n", b"MAYBE\n"),
            (b"SERVER PROTOCOL 2\nOK\nOK\n",),
            (b"SERVER PROTOCOL 2",),
        ],
    )
    def test_another_protocol(self, replies: tuple[bytes, ...]) -> None:
        """The last one ends before its line."""
        assert failure(saying(*replies)).failure is RasFailure.UNREADABLE

    def test_reply_without_an_end(self) -> None:
        assert failure(endless_at_once(b"x" * 100)).failure is RasFailure.UNREADABLE

    def test_end_instead_of_a_reply(self) -> None:
        assert failure(saying()).failure in (RasFailure.UNREADABLE, RasFailure.REFUSED)
