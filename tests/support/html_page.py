"""A page as a browser without scripts reads it: its text, links and elements. What is not well formed is refused."""

from __future__ import annotations

from html.parser import HTMLParser

_VOID = frozenset(("br", "input", "link", "meta"))


class HtmlPage(HTMLParser):
    """elements: name and attributes of each, in order."""

    def __init__(self, document: bytes) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self._open: list[str] = []
        self._texts: list[tuple[tuple[str, ...], str]] = []
        self.feed(document.decode())
        self.close()
        assert self._open == [], "elements are not closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), f"an attribute stands twice in <{tag}>"
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data: str) -> None:
        self._texts.append((tuple(self._open), data))

    @property
    def text(self) -> str:
        return " ".join(" ".join(text for _, text in self._texts).split())

    def texts(self, tag: str) -> list[str]:
        """The text directly in each element of this name."""
        return [text for path, text in self._texts if path[-1:] == (tag,)]

    def all(self, tag: str) -> list[dict[str, str]]:
        """Attributes of each element of this name."""
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def links(self) -> dict[str, str]:
        """Where each path leads that a person may click."""
        return {one["href"]: one.get("download", "") for one in self.all("a")}
