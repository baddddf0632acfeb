"""Why a node has no usable answer: a kind of a closed set for programs, and a phrase for people.

In: what went wrong with a request. Out: a NodeFailureKind and a text that is printable and bounded, whatever the node has sent.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

from exporter.fleet.node import Node
from exporter.http_client.errors import (
    DeadlineExceeded,
    HttpFailure,
    NotHttp,
    RequestCancelled,
    ResponseTooLarge,
    TlsFailed,
)
from exporter.text import untrusted

MESSAGE_CHARACTERS: Final = 300
SOME_FAILED: Final = 4
"""Exit code of a command that some nodes have not answered."""


class NodeFailureKind(enum.StrEnum):
    """Each is a word that scripts may read."""

    UNREACHABLE = "unreachable"
    """No address, no connection, or one that broke."""
    NOT_TRUSTED = "not_trusted"
    """TLS failed: one side does not trust the other, or the node does not encrypt."""
    NOT_AUTHENTICATED = "not_authenticated"
    """The node does not know the token."""
    REFUSED = "refused"
    """The node answers that it cannot answer: no history, another name, too many requests."""
    TOO_SLOW = "too_slow"
    """No complete answer at the deadline."""
    TOO_LARGE = "too_large"
    """More bytes than an answer may have."""
    NOT_READABLE = "not_readable"
    """Not an answer: a redirect, a page, garbage."""
    OTHER_VERSION = "other_version"
    """The exporter of the node is older or newer, and its answer does not fit."""


class NodeFailure(NamedTuple):
    """message: a phrase of one line that follows the name of the node."""

    node: Node
    kind: NodeFailureKind
    message: str

    @property
    def line(self) -> str:
        """For people."""
        return f"{self.node.name}: {self.kind.replace('_', ' ')}: {self.message}"

    def document(self) -> dict[str, str]:
        """For programs: a row of the answer that has a `failure`."""
        return {"node": self.node.name, "failure": self.kind.value, "message": self.message}


class NodeUnusable(Exception):
    """A request or an answer that has failed, where the node is known elsewhere."""

    def __init__(self, kind: NodeFailureKind, message: str) -> None:
        super().__init__(untrusted.text(message, MESSAGE_CHARACTERS))
        self.kind = kind

    def of(self, node: Node) -> NodeFailure:
        return NodeFailure(node, self.kind, str(self))

    @classmethod
    def by(cls, error: HttpFailure) -> NodeUnusable:
        kind = next((kind for one, kind in _KIND_OF.items() if isinstance(error, one)), NodeFailureKind.UNREACHABLE)
        return cls(kind, str(error))


_KIND_OF: Final = {
    TlsFailed: NodeFailureKind.NOT_TRUSTED,
    NotHttp: NodeFailureKind.NOT_READABLE,
    ResponseTooLarge: NodeFailureKind.TOO_LARGE,
    DeadlineExceeded: NodeFailureKind.TOO_SLOW,
    RequestCancelled: NodeFailureKind.TOO_SLOW,
}
"""Others are UNREACHABLE."""
