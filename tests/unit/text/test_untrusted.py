"""text.untrusted: JSON within bounds, and values of the wanted type."""

from __future__ import annotations

import math
from typing import Any

import pytest

from exporter.text import untrusted
from exporter.text.untrusted import Untrusted, json_value


class TestJson:
    def test_valid_document(self) -> None:
        assert json_value(b'{"a": [1, 2.5, "x", null, true]}', 100) == {"a": [1, 2.5, "x", None, True]}

    @pytest.mark.parametrize(
        ("raw", "reason"),
        [
            ("[" * 17 + "]" * 17, "more than 16 levels"),
            ("[" * 100_000, "more than 16 levels"),
            ("[" + "1," * 400_001 + "1]", "more than 400000 values"),
            ("[NaN]", "NaN is not a number"),
            ("[-Infinity]", "-Infinity is not a number"),
            ("1" * 5000, "not JSON"),
            ("", "not JSON"),
            ("{'a': 1}", "not JSON"),
            ('"\x00"', "not JSON"),
            ("[1] [2]", "not JSON"),
        ],
    )
    def test_other_documents_are_refused(self, raw: str, reason: str) -> None:
        with pytest.raises(Untrusted, match=reason):
            json_value(raw, 10 << 20)

    def test_larger_document_is_refused(self) -> None:
        with pytest.raises(Untrusted, match="more than 3 bytes"):
            json_value("[11]", 3)

    def test_brackets_and_commas_in_strings_do_not_count(self) -> None:
        text = '["' + "[{,:" * 200_000 + '\\""]'

        assert len(json_value(text, 1 << 20)[0]) == 800_001

    @pytest.mark.parametrize("raw", [b'"\\' * 500_000, b'["' + b'\\"' * 500_000, b'[["' + b'a"\\"' * 500_000])
    def test_strings_without_end_are_refused(self, raw: bytes) -> None:
        """If each quote were tried as the beginning of a string that reaches to the end, the test would not end in its time."""
        with pytest.raises(Untrusted):
            json_value(raw, 10 << 20)

    def test_characters_of_an_error_are_printable(self) -> None:
        with pytest.raises(Untrusted) as raised:
            json_value('{"a\x1b[2J": }', 100)

        assert str(raised.value).isprintable()


class TestValues:
    @pytest.mark.parametrize(
        ("value", "shown"),
        [
            ("trainer-0", "trainer-0"),
            ("\x1b[2J\x07", "\ufffd[2J\ufffd"),
            ("a\nb", "a\ufffdb"),
            ("\u202eexe", "\ufffdexe"),
            ("\ud800", "\ufffd"),
            ("x" * 129, "x" * 127 + "…"),
        ],
    )
    def test_text_is_printable_and_cut(self, value: str, shown: str) -> None:
        assert untrusted.text(value) == shown

    @pytest.mark.parametrize("value", [None, 1, b"x", ["x"], {}, 1.5, True])
    def test_other_types_are_no_text(self, value: Any) -> None:
        with pytest.raises(Untrusted, match="want text"):
            untrusted.text(value)

    @pytest.mark.parametrize("value", [True, -1, 1 << 64, 1.0, "1", None, [1]])
    def test_what_is_no_count(self, value: Any) -> None:
        with pytest.raises(Untrusted):
            untrusted.count(value)

    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e19, 10**400, "1", None, True])
    def test_what_is_no_number(self, value: Any) -> None:
        with pytest.raises(Untrusted):
            untrusted.number(value)

    @pytest.mark.parametrize("value", [math.nan, math.inf, -0.5, 1e19, 10**400, "1", None, True])
    def test_what_is_no_amount(self, value: Any) -> None:
        """Among amounts."""
        with pytest.raises(Untrusted, match="want numbers from 0 on"):
            untrusted.amounts((1, value, 0.5))

    def test_amounts_are_numbers(self) -> None:
        assert untrusted.amounts((1, 0.5, 0, 1e18)) == [1.0, 0.5, 0.0, 1e18]

    @pytest.mark.parametrize("value", [[-1], [1, True], [1.0], ["1"], [1 << 64], [[1]], [1] * 5, "123", {1: 2}])
    def test_what_are_no_counts(self, value: Any) -> None:
        with pytest.raises(Untrusted):
            untrusted.counts(value, 4)

    @pytest.mark.parametrize("value", ["yes", 2, None, [], 1.0])
    def test_what_is_no_switch(self, value: Any) -> None:
        with pytest.raises(Untrusted):
            untrusted.switch(value)

    def test_bounds_of_containers(self) -> None:
        with pytest.raises(Untrusted, match="at most 1 members"):
            untrusted.mapping({"a": 1, "b": 2}, 1)
        with pytest.raises(Untrusted, match="array of 2 values"):
            untrusted.sequence([1], length=2)
        with pytest.raises(Untrusted, match="a is missing"):
            untrusted.member({}, "a")

    @pytest.mark.parametrize(("value", "found"), [(math.inf, 0.0), (math.nan, 0.0), (1e300, 1e18), (-1e300, -1e18)])
    def test_finite_number_within_bounds(self, value: float, found: float) -> None:
        assert untrusted.finite(value) == found
