"""config.strict_yaml: YAML without the parts that surprise."""

from __future__ import annotations

import re

import pytest

from exporter.config.strict_yaml import load


class TestLoad:
    def test_document_becomes_plain_values(self) -> None:
        assert load("users:\n  ann: 1\n  bob: [x, null]\n") == {"users": {"ann": 1, "bob": ["x", None]}}

    def test_empty_text_is_none(self) -> None:
        assert load("") is None

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("a: 1\nb: 2\na: 3\n", "the key 'a' is a duplicate (line 3)"),
            ("outer:\n  a: 1\n  a: 2\n", "the key 'a' is a duplicate (line 3)"),
            ("a: 1\n2: b\n", "the key 2 is not a string (line 2)"),
            ("a: 1\nyes: b\n", "the key True is not a string (line 2)"),
        ],
        ids=["duplicate", "duplicate below", "number", "boolean"],
    )
    def test_ambiguous_key_is_refused_with_its_line(self, text: str, message: str) -> None:
        """PyYAML would take the last of two equal keys, and `yes` for true."""
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            load(text)

    def test_tag_that_creates_an_object_is_refused(self) -> None:
        with pytest.raises(ValueError, match=r"could not determine a constructor for the tag .* \(line 2\)"):
            load("a: 1\nb: !!python/object/apply:os.getcwd []\n")

    def test_tag_that_does_not_fit_its_value_is_refused(self) -> None:
        """PyYAML raises a ValueError of its own."""
        with pytest.raises(ValueError, match=r"^not YAML: "):
            load("a: !!int word\n")

    def test_two_documents_are_refused(self) -> None:
        with pytest.raises(ValueError, match=r"but found another document"):
            load("a: 1\n---\nb: 2\n")
