"""HTML that is escaped by construction."""

from __future__ import annotations

import pytest

from exporter.serve.pages.markup import element, joined

HOSTILE = "</td><script>alert(1)</script>\"'&"


class TestElement:
    def test_text_is_escaped(self) -> None:
        assert element("td", "<b>") == "<td>&lt;b&gt;</td>"

    def test_hostile_text_has_no_tag(self) -> None:
        found = element("td", HOSTILE)

        assert found.count("<") == 2
        assert "&lt;script&gt;" in found

    def test_hostile_attribute_stays_one_attribute(self) -> None:
        found = element("td", title='x" onmouseover="alert(1)')

        assert found == '<td title="x&quot; onmouseover=&quot;alert(1)"></td>'

    def test_elements_within_elements_are_escaped_once(self) -> None:
        assert element("tr", element("td", "a&b")) == "<tr><td>a&amp;b</td></tr>"

    def test_joined_text_is_no_markup(self) -> None:
        """Only what this module made is."""
        assert element("p", str(element("b", "x")) + "<i>") == "<p>&lt;b&gt;x&lt;/b&gt;&lt;i&gt;</p>"

    def test_control_characters_are_replaced(self) -> None:
        assert element("td", "a\x00\nb") == "<td>a\ufffd\ufffdb</td>"

    def test_names_of_attributes(self) -> None:
        assert element("p", class_="x", aria_label="y") == '<p class="x" aria-label="y"></p>'

    @pytest.mark.parametrize(("value", "expected"), [(True, "<input required>"), (False, "<input>"), (None, "<input>")])
    def test_attribute_without_a_value(self, value: bool | None, expected: str) -> None:
        assert element("input", required=value) == expected

    def test_nothing_is_nothing(self) -> None:
        assert joined((None, ("a", (1, None)))) == "a1"
