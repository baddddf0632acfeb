"""host.child_process: requests to a child, and children that do not answer. The child is the reader, and its /proc a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.errors import NoAnswer
from exporter.host import child_process
from exporter.host.capabilities import READING
from exporter.host.child_process import ChildProcess
from tests.support.patience import PATIENCE_SECONDS
from tests.unit.host.process_tree import process

MODULE = "exporter.host.reader_program"
SHORT_SECONDS = 0.3


class Child:
    """7 has an environment. That of 8 is a pipe without a writer: reading it hangs."""

    def __init__(self, proc: Path) -> None:
        process(proc, 7, environ=b"RANK=3\0")
        process(proc, 8)
        self.pipe = proc / "8/environ"
        os.mkfifo(self.pipe)
        self.child = ChildProcess(MODULE, (str(proc),), READING)

    def rank(self, tgid: int, patience_seconds: float = PATIENCE_SECONDS) -> object:
        return self.child.ask(["environment", tgid, ["RANK"]], patience_seconds).content

    def hang(self) -> None:
        with pytest.raises(NoAnswer):
            self.rank(8, SHORT_SECONDS)

    def release(self) -> None:
        """What hangs in the pipe goes on."""
        os.close(os.open(self.pipe, os.O_WRONLY | os.O_NONBLOCK))


@pytest.fixture
def child(tmp_path: Path) -> Iterator[Child]:
    child = Child(tmp_path)
    yield child
    child.child.close()


class TestStart:
    def test_first_start_may_take_longer_than_later_ones(self, child: Child, monkeypatch: pytest.MonkeyPatch) -> None:
        """No child starts within a millisecond."""
        monkeypatch.setattr(child_process, "START_SECONDS", 0.001)
        with pytest.raises(NoAnswer, match="cannot start a reader"):
            child.rank(7)
        child.child.start()

        assert child.rank(7) == {"RANK": "3"}


class TestAsk:
    def test_one_child_answers_all_requests(self, child: Child) -> None:
        answers = [child.rank(7), child.child.tgid, child.rank(7), child.child.tgid]

        assert answers[0] == answers[2] == {"RANK": "3"}
        assert answers[1] == answers[3] != 0

    def test_request_that_is_not_answered_fails(self, child: Child) -> None:
        """It would hang for ever."""
        child.rank(7)
        child.hang()

    def test_next_request_goes_to_another_child(self, child: Child) -> None:
        child.rank(7)
        first = child.child.tgid
        child.hang()

        assert child.rank(7) == {"RANK": "3"}
        assert child.child.tgid != first

    def test_child_that_has_died_is_replaced(self, child: Child) -> None:
        child.rank(7)
        os.kill(child.child.tgid, 9)
        with pytest.raises(NoAnswer):
            child.rank(7)

        assert child.rank(7) == {"RANK": "3"}

    def test_answer_that_is_too_long_is_none(self, child: Child, tmp_path: Path) -> None:
        """A million libraries that a process may map."""
        process(tmp_path, 9, environ=b"".join(b"V%d=%s\0" % (n, b"\x01" * 250) for n in range(6_000)))

        with pytest.raises(NoAnswer, match="bytes"):
            child.child.ask(["environment", 9, [f"V{n}" for n in range(6_000)]], PATIENCE_SECONDS)


class TestGivenUp:
    """A child is given up by a signal that it gets as soon as it can be interrupted."""

    def test_given_up_child_ends(self, child: Child) -> None:
        child.hang()
        given_up = child.child.given_up
        assert given_up is not None

        assert given_up.wait(PATIENCE_SECONDS) == -9


class TestClose:
    def test_closed_child_answers_no_more(self, child: Child) -> None:
        child.rank(7)
        child.child.close()

        with pytest.raises(NoAnswer, match="stopping"):
            child.rank(7)

    def test_ended_child_is_replaced(self, child: Child) -> None:
        child.rank(7)
        child.child.end()

        assert child.rank(7) == {"RANK": "3"}
