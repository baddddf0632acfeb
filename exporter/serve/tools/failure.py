"""What went wrong with a call: the same kind, status and words over every transport. Kinds are of a closed set."""

from __future__ import annotations

import enum
from typing import Any, NamedTuple, Self

from exporter.errors import BadInput, ExporterError, NotPossibleHere, UnknownInput
from exporter.investigate.mistakes import StatementTooSlow


class StatusKind(enum.Enum):
    """Name for programs, and status of HTTP."""

    BAD_INPUT = "bad_input", 400
    UNKNOWN_INPUT = "unknown_input", 422
    NOT_AUTHENTICATED = "not_authenticated", 401
    NOT_FOUND = "not_found", 404
    WRONG_METHOD = "wrong_method", 405
    TOO_LARGE = "too_large", 413
    WRONG_HOST = "wrong_host", 421
    TOO_MANY = "too_many", 429
    INTERNAL = "internal", 500
    NOT_POSSIBLE = "not_possible", 503
    TOO_SLOW = "too_slow", 504

    @property
    def label(self) -> str:
        return self.value[0]

    @property
    def status(self) -> int:
        return self.value[1]


class UnknownName(BadInput):
    """A tool or a chain of this name does not exist, or not for this reader."""


class TooMany(NotPossibleHere):
    """More calls than are answered at a time."""


_KINDS: tuple[tuple[type[ExporterError], StatusKind], ...] = (
    (UnknownName, StatusKind.NOT_FOUND),
    (StatementTooSlow, StatusKind.TOO_SLOW),
    (TooMany, StatusKind.TOO_MANY),
    (UnknownInput, StatusKind.UNKNOWN_INPUT),
    (BadInput, StatusKind.BAD_INPUT),
    (NotPossibleHere, StatusKind.NOT_POSSIBLE),
)


class Failure(NamedTuple):
    """remedy: what to do, or empty."""

    kind: StatusKind
    message: str
    remedy: str = ""

    @classmethod
    def of(cls, error: ExporterError) -> Self:
        kind = next((kind for type_, kind in _KINDS if isinstance(error, type_)), StatusKind.INTERNAL)
        return cls(kind, str(error), error.remedy)

    def document(self) -> dict[str, Any]:
        return {
            "error": {
                "kind": self.kind.label,
                "status": self.kind.status,
                "message": self.message,
                "remedy": self.remedy,
            }
        }
