"""Slow calls in a recording: those of the recorded minute, by line of Python, within bounds.

In: call sites by process. Out: those that fit, and their JSON, which older versions skip.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from exporter.python.call_site import STACK_BYTES_MAX, CallSite, CallStack
from exporter.text import untrusted

OF_PROCESS_MAX: Final = 16
BYTES_MAX: Final = 1 << 20
"""JSON of all stacks in a recording: an eighth of what its head may have."""


def bounded(by_process: Mapping[int, Sequence[CallSite]]) -> dict[int, tuple[CallSite, ...]]:
    """The call sites with the most time in slow calls, as many as a recording may have."""
    every = [(one, process) for process, sites in by_process.items() for one in sites]
    every.sort(key=lambda item: -item[0].total_ns)
    found: dict[int, tuple[CallSite, ...]] = {}
    left_bytes = BYTES_MAX
    for one, process in every:
        size_bytes = len(one.stack.encoded())
        known = found.get(process, ())
        if len(known) < OF_PROCESS_MAX and size_bytes <= min(left_bytes, STACK_BYTES_MAX):
            found[process] = (*known, one)
            left_bytes -= size_bytes
    return found


def to_documents(sites: Sequence[CallSite]) -> list[Any]:
    """JSON values."""
    return [one.to_document(one.stack.to_document()) for one in sites]


def from_documents(documents: Any) -> tuple[CallSite, ...]:
    """The inverse of to_documents(). Raises ValueError for other documents."""
    return tuple(
        CallSite.from_document(one, CallStack.from_document) for one in untrusted.sequence(documents, OF_PROCESS_MAX)
    )
