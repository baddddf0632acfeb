"""Numbers of attachments, by which the programs distinguish the calls of one attachment from those of another.

In: nothing. Out: numbers that fit into the attach cookie; the map `attachments` has a row for each one in use.
Partner in C: is_echo() in bpf/lib/echo.bpf.h.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from exporter.kernel import abi
from exporter.kernel.maps import KernelMap

NO_NUMBER = 0
TABLE = "attachments"


class AttachmentNumbers:
    """1 to 255, each for one attachment at a time; the number that has been free for longest is used next."""

    def __init__(self) -> None:
        self._free = deque(range(NO_NUMBER + 1, abi.ATTACHMENTS))

    def take(self, maps: Mapping[str, KernelMap]) -> int:
        """A free number; NO_NUMBER if there is none: calls of such attachments are not distinguished."""
        if not self._free:
            return NO_NUMBER
        number = self._free.popleft()
        _set_live(maps, number, is_live=True)
        return number

    def give_back(self, number: int, maps: Mapping[str, KernelMap]) -> None:
        """The attachment is gone. A call that is still open in it cannot be confused with another one any more."""
        if number != NO_NUMBER:
            _set_live(maps, number, is_live=False)
            self._free.append(number)


def _set_live(maps: Mapping[str, KernelMap], number: int, *, is_live: bool) -> None:
    if TABLE in maps:
        maps[TABLE].put(abi.NUMBER.pack(number), abi.ATTACHMENT_ROW.pack(0, is_live))
