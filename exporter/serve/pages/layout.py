"""What all pages have: the head, the navigation, the form of the time span, and headers that let nothing of others run."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from exporter import __version__
from exporter.serve.pages.markup import Child, Markup, element
from exporter.serve.pages.span import CHOICES, UNTIL, PageSpan

STATIC: Final = Path(__file__).with_name("static")
_POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self';"
    " base-uri 'none'; frame-ancestors 'none'"
)


class Viewer(NamedTuple):
    """Who reads a page. name: of the token; empty where none is needed."""

    name: str = ""


class PageFrame(NamedTuple):
    """title: of the window. path: parts of its path, for the form. is_live: the script reads the page again from time to time."""

    title: str
    path: tuple[str, ...]
    span: PageSpan
    viewer: Viewer
    is_live: bool = False
    kept: tuple[tuple[str, str], ...] = ()
    """More of its query, which the form keeps."""


def page_headers() -> dict[str, str]:
    return {
        "content-type": "text/html; charset=utf-8",
        "content-security-policy": _POLICY,
        "referrer-policy": "same-origin",  # without it a form of this page has the origin `null`
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
    }


def page(frame: PageFrame, *content: Child) -> bytes:
    """The whole document."""
    header = element(
        "header",
        element("a", "Skip to content", href="#content", class_="skip"),
        element("a", "GPU stalls", href=frame.span.link(""), class_="brand"),
        _span_form(frame),
        _session(frame.viewer),
    )
    return _document(frame.title, header, element("main", *content, id="content"), is_live=frame.is_live)


def plain_page(title: str, *content: Child) -> bytes:
    """A document without a time span, such as the one that asks for a token."""
    header = element("header", element("a", "GPU stalls", href="/", class_="brand"))
    return _document(title, header, element("main", *content, id="content"), is_live=False)


def _document(title: str, header: Markup, main: Markup, *, is_live: bool) -> bytes:
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{title} · GPU stalls"),
        element("link", rel="icon", href=static_url("icon.svg"), type="image/svg+xml"),
        element("link", rel="stylesheet", href=static_url("style.css")),
        element("script", src=static_url("script.js"), defer=True),
    )
    footer = element(
        "footer", f"gpu-stall-exporter {__version__}. Names of processes, files and functions come from jobs."
    )
    body = element("body", header, main, footer, data_live=is_live)
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n".encode()


@cache
def static_url(name: str) -> str:
    """With a hash of the content, so that a browser may keep the file."""
    return f"/static/{name}?v={hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]}"


def _span_form(frame: PageFrame) -> Markup:
    since = frame.span.since
    choices = [element("option", one, value=one, selected=one == since) for one in dict.fromkeys((*CHOICES, since))]
    kept = [element("input", type="hidden", name=name, value=value) for name, value in frame.kept]
    until = element(
        "input",
        name=UNTIL,
        value=frame.span.until,
        placeholder="now",
        title="such as 14:02, 90m (ago), or a date and time",
    )
    return element(
        "form",
        element("label", "Last ", element("select", choices, name="since")),
        element("label", " until ", until),
        kept,
        element("button", "Show"),
        action=f"/{'/'.join(frame.path)}",
        method="get",
        class_="span",
        aria_label="Time span",
    )


def _session(viewer: Viewer) -> Markup | None:
    if not viewer.name:
        return None
    button = element("button", "Sign out", class_="quiet")
    return element(
        "form",
        element("span", viewer.name, class_="viewer"),
        button,
        action="/sign-out",
        method="post",
        class_="session",
    )
