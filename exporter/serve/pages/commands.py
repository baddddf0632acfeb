"""Commands for a person to run: text that can be selected, with a button that copies it where scripts run."""

from __future__ import annotations

from collections.abc import Iterable

from exporter.serve.pages.markup import Markup, element


def commands(lines: Iterable[str]) -> Markup | None:
    """None without commands. The script adds the button."""
    found = [element("li", element("code", line, data_copy=True)) for line in lines]
    return element("ul", found, class_="commands") if found else None
