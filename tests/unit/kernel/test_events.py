"""events: records of the event ring."""

from __future__ import annotations

import struct

import pytest

from exporter.kernel.abi import EventKind
from exporter.kernel.events import KernelEvent, event_of


class TestEvents:
    def test_event_is_unpacked(self) -> None:
        assert event_of(struct.pack("<IIII", 3, 7, 2, 1)) == KernelEvent(EventKind.ATTACHMENT_SURPLUS, 7, 2, 1)

    def test_unknown_kind_is_an_error(self) -> None:
        """Programs and user space come from one build."""
        with pytest.raises(ValueError, match="9 is not a valid EventKind"):
            event_of(struct.pack("<IIII", 9, 0, 0, 0))
