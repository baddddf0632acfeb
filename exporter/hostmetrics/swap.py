"""How much memory of a process is swapped out. In: /proc. Out: bytes; None where nothing can be read."""

from __future__ import annotations

from exporter.errors import NotPossibleHere, ProcessGone
from exporter.host.machine import kilobytes, swap_bytes
from exporter.host.processes import Processes

_STATUS_BYTES_MAX = 16 * 1024


class SwapReader:
    def __init__(self, processes: Processes) -> None:
        self._processes = processes

    def has_any(self) -> bool:
        """Whether the node has swap at all; without it no process needs to be read."""
        return bool(swap_bytes(self._processes.proc))

    def bytes_of(self, tgid: int) -> int | None:
        """VmSwap of /proc/TGID/status; shared memory is not part of it."""
        try:
            status = self._processes.read(self._processes.readable_id(tgid), "status", _STATUS_BYTES_MAX)
        except (ProcessGone, NotPossibleHere):
            return None
        return kilobytes(status.decode("ascii", "replace"), "VmSwap")
