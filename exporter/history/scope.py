"""Which processes a reader of the history may see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from exporter.history.window import ProcessLabels
from exporter.model import Identity
from exporter.text import untrusted


class Scope(NamedTuple):
    """nodes, namespaces: those whose processes are seen; None: all.

    Processes whose labels are not known are seen without limits only.
    """

    nodes: frozenset[str] | None = None
    namespaces: frozenset[str] | None = None

    @property
    def is_all(self) -> bool:
        return self.nodes is None and self.namespaces is None

    def sees(self, identity: Identity | None) -> bool:
        if self.is_all:
            return True
        return (
            identity is not None
            and (self.nodes is None or identity.node in self.nodes)
            and (self.namespaces is None or identity.namespace in self.namespaces)
        )

    def sees_document(self, document: Any) -> bool:
        """The same of a window as Window.to_document() makes it. Raises ValueError for other data."""
        fields = untrusted.sequence(document)
        if len(fields) < 2:
            raise untrusted.Untrusted("not a window")
        return self.sees(ProcessLabels.from_document(fields[1]).identity)

    def seen_of(self, documents: Sequence[Any]) -> list[Any]:
        """The documents of windows that are seen."""
        return [one for one in documents if self.sees_document(one)]


EVERYTHING = Scope()
