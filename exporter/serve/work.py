"""What is done in the process of a call: a tool's answer, a larger one, or a page.

In: a request as CallRequest.encoded() makes it. Out: frames: the first says whether there is an answer or a failure.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from exporter.config.fleet_flags import FleetFlags
from exporter.errors import ExporterError, NotPossibleHere
from exporter.history.scope import Scope
from exporter.serve.bulk import BULK_OF
from exporter.serve.pages.registry import rendered
from exporter.serve.tools import answer
from exporter.serve.tools.failure import Failure
from exporter.serve.tools.registry import Offer
from exporter.serve.tools.tool import ToolCall

ANSWERED: Final = b"answered"
"""The first frame of an answer; of a failure it is a JSON document."""


class AnswerForm(enum.StrEnum):
    """What is wanted: a tool's answer within its bound, all of it, or a page for a browser."""

    ANSWER = "answer"
    BULK = "bulk"
    PAGE = "page"


class CallRequest(NamedTuple):
    """name: of a tool, or of a page."""

    name: str
    arguments: Mapping[str, Any]
    scope: Scope
    form: AnswerForm = AnswerForm.ANSWER

    def encoded(self) -> bytes:
        scope = [None if part is None else sorted(part) for part in self.scope]
        return json.dumps([self.name, self.arguments, scope, self.form]).encode()

    @classmethod
    def decoded(cls, request: bytes) -> Self:
        name, arguments, scope, form = json.loads(request)
        parts = (None if part is None else frozenset(part) for part in scope)
        return cls(name, arguments, Scope(*parts), AnswerForm(form))


class Work(NamedTuple):
    """history: path of the file that calls are about. fleet: other nodes; None: there are none."""

    history: Path
    fleet: FleetFlags | None = None

    def frames(self, encoded: bytes) -> Iterator[bytes]:
        """Frames of the answer to a request."""
        request = CallRequest.decoded(encoded)
        try:
            frames = self._frames_of(request)
            first = list(islice(frames, 1))  # none: a timeline in which nothing happened
        except ExporterError as error:
            yield answer.encoded(Failure.of(error).document())
        except MemoryError:
            too_much = NotPossibleHere("the answer needs too much memory", remedy="use a smaller since")
            yield answer.encoded(Failure.of(too_much).document())
        else:
            yield ANSWERED
            yield from chain(first, frames)

    def _frames_of(self, request: CallRequest) -> Iterator[bytes]:
        match request.form:
            case AnswerForm.ANSWER:
                return self._document(request)
            case AnswerForm.BULK:
                wanted = BULK_OF[request.name]
                arguments = wanted.checked(dict(request.arguments))
                return wanted.frames(ToolCall(self.history, request.scope, arguments))
            case AnswerForm.PAGE:
                return iter((rendered(request.name, self.history, request.scope, request.arguments),))

    def _document(self, request: CallRequest) -> Iterator[bytes]:
        wanted = Offer(request.scope, self.fleet is not None).tool(request.name)
        yield answer.encoded(wanted.answer(self.history, request.scope, dict(request.arguments), self.fleet))
