"""Pages for a request that has no answer: what is wrong, what to do, and where to enter a token."""

from __future__ import annotations

from exporter.serve.pages.layout import plain_page
from exporter.serve.pages.markup import Markup, element
from exporter.serve.tools.failure import Failure, StatusKind

_TITLES = {
    StatusKind.NOT_FOUND: "Not found",
    StatusKind.NOT_POSSIBLE: "No answer",
    StatusKind.TOO_SLOW: "Too slow",
    StatusKind.TOO_MANY: "Too many requests",
    StatusKind.WRONG_HOST: "Another name",
    StatusKind.INTERNAL: "Error",
}


def refusal_page(failure: Failure, path: str) -> bytes:
    """path: of the page that was wanted, with its query."""
    if failure.kind is StatusKind.NOT_AUTHENTICATED:
        return sign_in_page(path)
    title = _TITLES.get(failure.kind, "Not understood")
    return plain_page(
        title,
        element("h1", title),
        element("p", f"{failure.message}."),
        element("p", f"{failure.remedy}.") if failure.remedy else None,
        element("p", element("a", "Overview", href="/")),
    )


def local_path(path: str) -> str:
    """The path if it leads to this server, else that of the overview."""
    is_local = path.startswith("/") and not path.startswith("//") and "\\" not in path and path.isprintable()
    return path if is_local else "/"


def sign_in_page(path: str, problem: str = "") -> bytes:
    """path: where to go then. problem: with the token that was entered."""
    path = local_path(path)
    field = element(
        "input",
        id="token",
        name="token",
        type="password",
        required=True,
        autofocus=True,
        autocomplete="current-password",
        spellcheck="false",
        aria_describedby="problem" if problem else None,
        aria_invalid="true" if problem else None,
    )
    return plain_page(
        "Sign in",
        element("h1", "Sign in"),
        element("p", problem, id="problem", class_="problem", role="alert") if problem else None,
        element(
            "form",
            element("label", "Token", for_="token"),
            field,
            element("input", type="hidden", name="path", value=path),
            element("button", "Sign in"),
            action="/sign-in",
            method="post",
            class_="sign-in",
        ),
        element(
            "p",
            "The session ends after eight hours. ",
            _code("gpu-stall-exporter serve --new-token=NAME"),
            " makes a token.",
        ),
        element(
            "p", "You came from another site and have signed in before? ", element("a", "Open the page", href=path), "."
        ),
    )


def _code(text: str) -> Markup:
    return element("code", text)
