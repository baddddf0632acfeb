"""HTML that is escaped by construction: text is never markup unless this module has made it.

`element("td", "<b>")` is `<td>&lt;b&gt;</td>`. Names of programs, containers and functions come from jobs.
"""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Final

from exporter.text.printable import printable

_VOID: Final = frozenset(("br", "input", "link", "meta"))


class Markup(str):
    """Made by element() alone."""

    __slots__ = ()


Child = str | int | None | Iterable["Child"]


def element(tag: str, *children: Child, **attributes: str | int | bool | None) -> Markup:
    """children: text, elements, or several of them; None is nothing. attributes: `class_` is class, `aria_label` is aria-label.

    An attribute that is True stands without a value; one that is None or False is left out.
    """
    opening = "".join(_attribute(name, value) for name, value in attributes.items())
    if tag in _VOID:
        return Markup(f"<{tag}{opening}>")
    return Markup(f"<{tag}{opening}>{joined(children)}</{tag}>")


def joined(child: Child) -> Markup:
    match child:
        case None:
            return Markup("")
        case Markup():
            return child
        case str() | int():
            return Markup(html.escape(printable(str(child)), quote=False))
    return Markup("".join(map(joined, child)))


def _attribute(name: str, value: str | int | bool | None) -> str:
    if value is None or value is False:
        return ""
    shown = name.rstrip("_").replace("_", "-")
    return f" {shown}" if value is True else f' {shown}="{html.escape(printable(str(value)), quote=True)}"'
