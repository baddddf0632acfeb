"""How much of a process has been swapped out?

In: /proc. Out: bytes; None where nothing can be read.
"""

from __future__ import annotations

from exporter.errors import NotPossibleHere, ProcessGone
from exporter.host.machine import kilobytes, swap_bytes
from exporter.host.processes import Processes

_STATUS_BYTES_MAX = 16 * 1024


class SwapReader:
    """Reads one /proc tree."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes

    def has_any(self) -> bool:
        """Whether the machine can swap at all: where it cannot, no process need be looked at."""
        return bool(swap_bytes(self._processes.proc))

    def bytes_of(self, tgid: int) -> int | None:
        """VmSwap of /proc/TGID/status; shared memory is no part of it."""
        try:
            status = self._processes.read(tgid, "status", _STATUS_BYTES_MAX)
        except (ProcessGone, NotPossibleHere):
            return None
        return kilobytes(status.decode("ascii", "replace"), "VmSwap")
