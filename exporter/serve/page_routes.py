"""The pages over HTTP: their paths, the files beside them, and signing in and out. A page is made in the process of a call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from exporter.errors import BadInput
from exporter.serve.answering import Endpoint, answering
from exporter.serve.calls import Calls
from exporter.serve.gate import AUDIT, READER, SIGN_IN, SIGN_OUT, STATIC
from exporter.serve.pages import layout
from exporter.serve.pages.refusal import local_path, refusal_page, sign_in_page
from exporter.serve.pages.registry import CHAIN, OVERVIEW, WORKLOAD_NAME
from exporter.serve.pages.span import PageSpan
from exporter.serve.sessions import Sessions, kept_cookie, removed_cookie, session_id_of
from exporter.serve.tools.failure import Failure, StatusKind
from exporter.serve.work import AnswerForm, CallRequest
from exporter.service.tokens import TokenFile, hash_of

_FILES: Final[Mapping[str, str]] = {
    "style.css": "text/css; charset=utf-8",
    "script.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
_KEPT: Final = "public, max-age=31536000, immutable"
"""Their URLs have a hash of the content."""
_FIELDS_MAX: Final = 8


def page_routes(calls: Calls, tokens: TokenFile | None, sessions: Sessions) -> list[Route]:
    """tokens: None where no request needs one."""
    pages, signing = _Pages(calls, needs_token=tokens is not None), _Signing(tokens, sessions)
    routes: tuple[tuple[str, str, Endpoint], ...] = (
        ("GET", "/", pages.overview),
        ("GET", "/chains/{chain_id}", pages.chain),
        ("GET", "/workload", pages.workload),
        ("GET", f"{STATIC}{{name}}", _static),
        ("GET", SIGN_IN, signing.form),
        ("POST", SIGN_IN, signing.sign_in),
        ("POST", SIGN_OUT, signing.sign_out),
    )
    return [Route(path, answering(endpoint, refused), methods=[method]) for method, path, endpoint in routes]


class _Pages:
    def __init__(self, calls: Calls, *, needs_token: bool) -> None:
        self._calls = calls
        self._needs_token = needs_token

    async def overview(self, request: Request) -> Response:
        return await self._page(request, OVERVIEW, {})

    async def chain(self, request: Request) -> Response:
        return await self._page(request, CHAIN, {"chain_id": request.path_params["chain_id"]})

    async def workload(self, request: Request) -> Response:
        return await self._page(request, WORKLOAD_NAME, {"workload": request.query_params.get("workload", "")})

    async def _page(self, request: Request, name: str, arguments: Mapping[str, str]) -> Response:
        request.scope[AUDIT]["tool"] = f"page {name}"
        reader = request.scope[READER]
        viewer = {"viewer": reader.name if self._needs_token else ""}
        asked = {**PageSpan.of(request.query_params).arguments, **arguments, **viewer}
        wanted = CallRequest(name, asked, reader.scope, AnswerForm.PAGE)
        async with self._calls.frames(wanted) as frames:
            return _shown(b"".join([frame async for frame in frames]))


class _Signing:
    """Only a form of a page of this server signs in or out."""

    def __init__(self, tokens: TokenFile | None, sessions: Sessions) -> None:
        self._tokens = tokens
        self._sessions = sessions

    async def form(self, _request: Request) -> Response:
        return _to("/") if self._tokens is None else _shown(sign_in_page("/"))

    async def sign_in(self, request: Request) -> Response:
        _refuse_other_sites(request)
        fields = _fields(await request.body())
        token, path = fields.get("token", "").strip(), local_path(fields.get("path", "/"))
        reader = self._tokens.tokens().reader(token) if self._tokens else None
        if reader is None:
            return _shown(sign_in_page(path, "This token is not known."), StatusKind.NOT_AUTHENTICATED.status)
        request.scope[AUDIT]["reader"] = reader.name
        return _to(path, kept_cookie(self._sessions.begin(hash_of(token))))

    async def sign_out(self, request: Request) -> Response:
        _refuse_other_sites(request)
        self._sessions.end(session_id_of(request.headers.get("cookie", "")))
        return _to("/", removed_cookie())


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in _FILES:
        return refused(Failure(StatusKind.NOT_FOUND, "there is no such file"))
    headers = {"cache-control": _KEPT, "cross-origin-resource-policy": "same-origin"}
    return Response((layout.STATIC / name).read_bytes(), headers=headers, media_type=_FILES[name])


def _refuse_other_sites(request: Request) -> None:
    """Raises BadInput for a form of another site, or of another port. Clients that are no browsers send no such header."""
    if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
        raise BadInput("a page of another site has sent this form", remedy="open the server's own page")


def _fields(body: bytes) -> dict[str, str]:
    """The last value of each field. Raises BadInput."""
    try:
        found = parse_qs(body.decode("ascii"), max_num_fields=_FIELDS_MAX)
    except ValueError:
        raise BadInput("the body is not a form") from None
    return {name: values[-1] for name, values in found.items()}


def refused(failure: Failure) -> Response:
    """A failure as a page."""
    return _shown(refusal_page(failure, "/"), failure.kind.status)


def _shown(body: bytes, status: int = 200) -> Response:
    return Response(body, status, layout.page_headers())


def _to(path: str, cookie: str = "") -> Response:
    headers: dict[str, Any] = {"location": path, **({"set-cookie": cookie} if cookie else {})}
    return Response(status_code=303, headers=headers)
