"""python.text_object: str objects of every kind, as each version lays them out."""

from __future__ import annotations

import struct

import pytest

from exporter.errors import NotReadable
from exporter.python.layout import CodeLayout
from exporter.python.memory import BoundedMemory
from exporter.python.text_object import CHARACTERS_MAX, text_object
from tests.support.python_memory import MadeMemory
from tests.unit.python.made_interpreter import MadeInterpreter, layout_of

READS_MAX = 8
OLD, NEW, NEWEST = (3, 9), (3, 12), (3, 14)
SHIFTS = {OLD: 2, NEW: 2, NEWEST: 16}
layouts = pytest.mark.parametrize("version", [OLD, NEW, NEWEST])


def made_text(
    version: tuple[int, int], text: str, kind: int, *, is_ascii: bool = False, is_compact: bool = True
) -> bytes:
    """The object in memory. Before 3.12 an ASCII text begins at 48 and another at 72, since then at 40 and 56."""
    state = (kind | is_compact << 3 | is_ascii << 4) << SHIFTS[version] | 1  # interned
    begin = {True: 48, False: 72}[is_ascii] if version == OLD else {True: 40, False: 56}[is_ascii]
    codec = {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}.get(kind, "latin-1")
    head = bytes(16) + struct.pack("<QQI", len(text), 0, state)
    return head.ljust(begin, b"\0") + text.encode(codec, "surrogatepass")


def shown(version: tuple[int, int], content: bytes, *, keep_end: bool = False) -> str | None:
    memory = MadeMemory()
    found = text_object(BoundedMemory(memory, READS_MAX), layout_of(version), memory.put(content), keep_end=keep_end)
    return found.text if found else None


class TestKinds:
    @layouts
    @pytest.mark.parametrize(
        ("text", "kind", "is_ascii"),
        [("train_step", 1, True), ("größe", 1, False), ("名前", 2, False), ("a😀", 4, False), ("", 1, True)],
    )
    def test_text_is_read(self, version: tuple[int, int], text: str, kind: int, is_ascii: bool) -> None:
        """ASCII, Latin-1, two and four bytes a character, none."""
        assert shown(version, made_text(version, text, kind, is_ascii=is_ascii)) == text

    @layouts
    def test_state_of_a_free_threaded_build(self, version: tuple[int, int]) -> None:
        """`interned` takes a byte of its own there."""
        content = bytearray(made_text(version, "f", 1, is_ascii=True))
        struct.pack_into("<I", content, 32, (1 | 1 << 3 | 1 << 4) << 8 | 3)

        assert shown(version, bytes(content)) == "f"

    @layouts
    def test_bits_behind_the_state_may_be_anything(self, version: tuple[int, int]) -> None:
        """Memory that was something else before: only the fields are set."""
        content = bytearray(made_text(version, "step", 1, is_ascii=True))
        content[35] = 0xFF

        assert shown(version, bytes(content)) == "step"

    @layouts
    def test_text_without_a_compact_form_is_refused(self, version: tuple[int, int]) -> None:
        """A subclass of str has one, and before 3.12 other texts too."""
        assert shown(version, made_text(version, "f", 1, is_ascii=True, is_compact=False)) is None

    @layouts
    @pytest.mark.parametrize("kind", [0, 3, 5, 6, 7])
    def test_size_of_a_character_that_does_not_exist(self, version: tuple[int, int], kind: int) -> None:
        assert shown(version, made_text(version, "f", kind)) is None

    def test_ascii_of_two_bytes_a_character_is_refused(self) -> None:
        assert shown(NEW, made_text(NEW, "f", 2, is_ascii=True)) is None


class TestShown:
    @pytest.mark.parametrize(
        ("text", "kind", "expected"),
        [
            ("a\nb\x1b[31m", 1, "a\ufffdb\ufffd[31m"),
            ("bad\udcff", 2, "bad\ufffd"),
            ("\u202eabc", 2, "\ufffdabc"),
        ],
    )
    def test_text_is_printable(self, text: str, kind: int, expected: str) -> None:
        """Control characters, bytes of a path that are no UTF-8, marks that turn the direction."""
        assert shown(NEW, made_text(NEW, text, kind)) == expected

    def test_character_beyond_unicode(self) -> None:
        content = made_text(NEW, "", 4) + b"\xff\xff\xff\xff"
        content = content[:16] + struct.pack("<Q", 1) + content[24:]

        assert shown(NEW, content) == "\ufffd"

    @pytest.mark.parametrize("kind", [1, 2, 4])
    def test_long_text_is_cut(self, kind: int) -> None:
        """To 1,024 characters: its beginning, or of a path its end."""
        content = made_text(NEW, "a" * 5000 + "z", kind)

        assert shown(NEW, content) == "a" * 1023 + "…"
        assert shown(NEW, content, keep_end=True) == "…" + "a" * 1022 + "z"

    def test_text_of_the_longest_length_is_whole(self) -> None:
        assert shown(NEW, made_text(NEW, "a" * CHARACTERS_MAX, 1, is_ascii=True)) == "a" * CHARACTERS_MAX


class TestHostile:
    @pytest.mark.parametrize("length", [1 << 63, (1 << 64) - 1, 1 << 33])
    def test_length_that_no_text_has(self, length: int) -> None:
        content = made_text(NEW, "f", 1, is_ascii=True)

        assert shown(NEW, content[:16] + struct.pack("<Q", length) + content[24:]) is None

    def test_text_that_reaches_into_nothing(self) -> None:
        """900 characters at the end of a page."""
        memory = MadeMemory()
        memory.put(
            made_text(NEW, "", 1, is_ascii=True)[:16] + struct.pack("<Q", 900) + bytes(8) + b"\xe4\0\0\0", 0x10_0F00
        )
        with pytest.raises(NotReadable):
            text_object(BoundedMemory(memory, READS_MAX), layout_of(NEW), 0x10_0F00)

    def test_head_that_reaches_into_nothing(self) -> None:
        memory = MadeMemory()
        memory.put(bytes(16), 0x10_0FF0)
        with pytest.raises(NotReadable, match="is cut"):
            text_object(BoundedMemory(memory, READS_MAX), layout_of(NEW), 0x10_0FF0)


def test_layouts_of_this_file_are_those_of_the_versions() -> None:
    """As CodeLayout has them for a made interpreter."""
    found: list[CodeLayout] = [layout_of(version) for version in (OLD, NEW, NEWEST)]

    assert [(one.text_ascii, one.text_other) for one in found] == [(48, 72), (40, 56), (40, 56)]
    assert MadeInterpreter(NEWEST).state_shift == SHIFTS[NEWEST]
