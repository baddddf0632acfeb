"""kernel.layout: members of a packed struct, by name."""

from __future__ import annotations

from exporter.kernel.layout import Layout

LAYOUT = Layout(tgid="I", kind="B", pad="3x", name="4s", total="Q")


class TestLayout:
    def test_size_has_no_padding_of_the_compiler(self) -> None:
        """4 + 1 + 3 + 4 + 8."""
        assert LAYOUT.size == 20

    def test_offset_is_the_size_of_the_members_before(self) -> None:
        assert LAYOUT.offsets == {"tgid": 0, "kind": 4, "pad": 5, "name": 8, "total": 12}

    def test_part_includes_both_of_its_ends(self) -> None:
        assert LAYOUT.part("kind", "name").members == {"kind": "B", "pad": "3x", "name": "4s"}

    def test_part_with_one_name_is_one_member(self) -> None:
        raw = LAYOUT.pack(7, 1, b"gpu7", 1 << 40)

        assert LAYOUT.part("total").unpack_from(raw, LAYOUT.offset("total")) == (1 << 40,)
