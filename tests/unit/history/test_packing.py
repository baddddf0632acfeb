"""history.packing: what is unpacked within bounds."""

from __future__ import annotations

import zlib

import pytest

from exporter.history.packing import UNPACKED_BYTES_MAX, decompressed, packed, unpacked
from exporter.text.untrusted import Untrusted
from tests.support.history import NOON, SECOND, a_window


class TestPacking:
    def test_unpacking_gives_the_same_windows(self) -> None:
        assert unpacked(packed([a_window()]), NOON, NOON + 10 * SECOND) == [a_window()]

    def test_content_that_grows_beyond_the_limit_is_refused(self) -> None:
        """64 KiB of zlib can hold 64 MiB."""
        with pytest.raises(Untrusted, match="more than 4194304 bytes"):
            decompressed(zlib.compress(bytes(64 << 20), 9), UNPACKED_BYTES_MAX)

    @pytest.mark.parametrize("blob", [b"", b"x", packed([a_window()])[:-1]])
    def test_incomplete_content_is_refused(self, blob: bytes) -> None:
        with pytest.raises(Untrusted):
            unpacked(blob, NOON, NOON + 10 * SECOND)

    @pytest.mark.parametrize("value", [None, 5, "text", 1.5])
    def test_other_types_are_refused(self, value: object) -> None:
        """A column of SQLite holds any type."""
        with pytest.raises(Untrusted, match="not compressed"):
            unpacked(value, NOON, NOON + 10 * SECOND)

    @pytest.mark.parametrize(
        "document",
        [
            b"{}",
            b"[[]]",
            b"[null]",
            b'["12345678"]',
            b"[[1,2,3,4,5,6,7,8]]",
            b'[[0,[[],0,""],[0,0,[]],{},[],{},[0,0],[]]]',
        ],
    )
    def test_other_documents_are_refused(self, document: bytes) -> None:
        with pytest.raises(Untrusted):
            unpacked(zlib.compress(document), NOON, NOON + 10 * SECOND)

    def test_names_are_printable(self) -> None:
        """Whichever program wrote them."""
        window = a_window(culprits_ns=(("lock", "\x1b[2J", 5),), lost_ns={"a\nb": 1}, states_ns={"\u202e": 1})
        (found,) = unpacked(packed([window]), NOON, NOON + 10 * SECOND)

        assert found.culprits_ns == (("lock", "\ufffd[2J", 5),)
        assert (found.lost_ns, found.states_ns) == ({"a\ufffdb": 1}, {"\ufffd": 1})
