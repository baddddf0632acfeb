"""What an endpoint raises becomes its answer: a document of the API, or a page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from exporter.errors import ExporterError
from exporter.serve.calls import Failed
from exporter.serve.tools.failure import Failure

Endpoint = Callable[[Request], Awaitable[Response]]


def answering(endpoint: Endpoint, refused: Callable[[Failure], Response]) -> Endpoint:
    """refused: makes the answer of a failure."""

    async def answered(request: Request) -> Response:
        try:
            return await endpoint(request)
        except Failed as failed:
            return refused(failed.failure)
        except ExporterError as error:
            return refused(Failure.of(error))

    return answered
