"""What is done in the process of a call."""

from __future__ import annotations

import json
import time
from pathlib import Path

from exporter.history.scope import EVERYTHING, Scope
from exporter.serve.work import ANSWERED, AnswerForm, CallRequest, Work
from tests.support.history import SECOND
from tests.support.hostile_files import make_history
from tests.support.investigated import an_hour


def frames(history: Path, request: CallRequest) -> list[bytes]:
    return [*Work(history).frames(request.encoded())]


class TestRequest:
    def test_scope_survives(self) -> None:
        request = CallRequest("explain", {"since": "1h"}, Scope(None, frozenset(("a", "b"))), form=AnswerForm.BULK)

        assert CallRequest.decoded(request.encoded()) == request


class TestWork:
    def test_answer(self, tmp_path: Path) -> None:
        first, document = frames(an_hour(tmp_path), CallRequest("explain", {}, EVERYTHING))

        assert first == ANSWERED
        assert json.loads(document)["status"] == "slow"

    def test_failure_stands_alone(self, tmp_path: Path) -> None:
        (failure,) = frames(tmp_path / "none.sqlite", CallRequest("explain", {}, EVERYTHING))

        assert json.loads(failure)["error"]["kind"] == "not_possible"

    def test_timeline_is_a_trace(self, tmp_path: Path) -> None:
        """Each packet of it begins with the number of its field, 1, as bytes of counted length."""
        first, *pieces = frames(an_hour(tmp_path), CallRequest("timeline", {}, EVERYTHING, form=AnswerForm.BULK))

        assert first == ANSWERED
        assert b"".join(pieces)[0] == 0x0A

    def test_timeline_of_a_time_without_calls_is_empty(self, tmp_path: Path) -> None:
        path = tmp_path / "history.sqlite"
        make_history(path, now_unix_ns=time.time_ns() - 24 * 3600 * SECOND)

        assert frames(path, CallRequest("timeline", {}, EVERYTHING, form=AnswerForm.BULK)) == [ANSWERED]
