"""Driver calls that may fail: what a failure means, and which calls a GPU can do without.

In: the errors of exporter/gpu/nvml.py. Out: DriverFailure, or None in place of a value that this GPU or driver does not have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from exporter.errors import ExporterError
from exporter.gpu.call_timeout import BeforeCall
from exporter.gpu.model import FailureKind

T = TypeVar("T")

_LASTING: Final = frozenset({FailureKind.NO_FUNCTION, FailureKind.NO_PERMISSION})
_FATAL: Final = frozenset({FailureKind.LOST, FailureKind.RESET_REQUIRED, FailureKind.RELOADED})
"""Failures after which no other call to this GPU succeeds."""


class DriverFailure(ExporterError):
    """A call that the driver answered with an error. call: the function. code: the driver's number of the error.

    is_unsupported: this GPU does not have the feature, which is no error.
    """

    def __init__(self, call: str, kind: FailureKind, text: str, *, code: int = 0, is_unsupported: bool = False) -> None:
        super().__init__(f"NVML call {call} failed: {text}")
        self.call = call
        self.kind = kind
        self.text = text
        self.code = code
        self.is_unsupported = is_unsupported


class OptionalCalls:
    """Calls about one GPU whose failure costs only their value. call: makes one, and raises DriverFailure."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call
        self._skipped: set[tuple[Any, ...]] = set()
        self._failures: list[DriverFailure] = []
        self.handle: Any = None
        """The driver's handle of the GPU."""

    def value(self, before_call: BeforeCall, *call: Any) -> Any:
        """The result of a function; None when the GPU does not support it, and when it fails, which is recorded.

        call: the function's name and arguments, the first of which is a handle. A call that the driver does not have or does not
        permit is not made again.
        """
        if self._key(call) in self._skipped:
            return None
        try:
            return self._call(before_call, *call)
        except DriverFailure as error:
            return self._without(call, error)

    def either(self, before_call: BeforeCall, newer: tuple[Any, ...], older: tuple[Any, ...]) -> Any:
        """As value(), with a function or with the one that older drivers have in its place."""
        if self._key(newer) not in self._skipped:
            try:
                return self._call(before_call, *newer)
            except DriverFailure as error:
                if error.kind is not FailureKind.NO_FUNCTION:
                    return self._without(newer, error)
            self._skipped.add(self._key(newer))
        return self.value(before_call, *older)

    def attempt(self, run: Callable[[], T], default: T) -> T:
        """The result of run(), or the default when it fails, which is recorded."""
        try:
            return run()
        except DriverFailure as error:
            self.record(error)
            return default

    def record(self, error: DriverFailure) -> None:
        """Keep the failure for take_failures(). Raises it when no other call to this GPU can succeed."""
        if error.kind in _FATAL:
            raise error
        if not error.is_unsupported:
            self._failures.append(error)

    def take_failures(self) -> list[DriverFailure]:
        """Failures of single calls since the last time."""
        found, self._failures = self._failures, []
        return found

    def _without(self, call: tuple[Any, ...], error: DriverFailure) -> None:
        """An invalid argument is not the handle, since others have accepted that: the call will not succeed later either."""
        if error.kind is FailureKind.RECONFIGURED and call[1] is self.handle:
            self._skipped.add(self._key(call))
            error = DriverFailure(error.call, FailureKind.DRIVER, error.text, code=error.code)
        self.record(error)
        if error.kind in _LASTING:
            self._skipped.add(self._key(call))

    def _key(self, call: tuple[Any, ...]) -> tuple[Any, ...]:
        """All MIG instances share one key: their handles are new each time."""
        name, handle, *others = call
        return (name, handle is self.handle, *others)
