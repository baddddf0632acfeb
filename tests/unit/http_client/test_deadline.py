"""http_client.deadline: the time that is left of a request."""

from __future__ import annotations

import pytest

from exporter.http_client.deadline import Deadline
from exporter.http_client.errors import DeadlineExceeded


class Hands:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


class TestDeadline:
    def test_all_waits_share_one_end(self) -> None:
        clock = Hands()
        deadline = Deadline.after(5.0, clock=clock)
        clock.seconds += 3.0

        assert deadline.left_seconds() == 2.0

    def test_nothing_is_left_at_the_end(self) -> None:
        """Exactly then, too: a wait of 0 would mean to poll."""
        clock = Hands()
        deadline = Deadline.after(0.25, clock=clock)
        clock.seconds += 0.25
        with pytest.raises(DeadlineExceeded, match=r"^no complete response within 0\.25 s$"):
            deadline.left_seconds()

    def test_message_can_be_given(self) -> None:
        assert str(Deadline.after(1.0, "the proxy did not answer").exceeded()) == "the proxy did not answer"
