"""model: frozen records, and values of labels."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.catalog import COMMON_LABELS
from exporter.model import Identity, label_value


class TestLabelValue:
    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("plain", "plain"),
            ("", ""),
            ("a b=ü\\\"'{}", "a b=ü\\\"'{}"),
            ("a\nb\x00c\x1bd\x7fe\x85f", "a\ufffdb\ufffdc\ufffdd\ufffde\ufffdf"),
            ("\u202eevil\ud800", "\ufffdevil\ufffd"),
        ],
    )
    def test_unprintable_characters_are_replaced(self, text: str, value: str) -> None:
        """Newlines, controls, direction marks, lone surrogates; the renderer escapes quotes and backslashes."""
        assert label_value(text) == value

    def test_value_has_at_most_128_characters(self) -> None:
        """Characters, not bytes."""
        assert label_value("ä" * 129) == "ä" * 128

    @given(st.text(alphabet=st.characters(), max_size=200))
    def test_value_is_printable_and_can_be_encoded(self, text: str) -> None:
        """For every text."""
        value = label_value(text)

        assert value.isprintable()
        assert len(value.encode()) <= 4 * 128


class TestIdentity:
    """The five labels of every workload series."""

    def test_unknown_is_empty(self) -> None:
        """Never guessed, never absent."""
        assert Identity().values() == ("", "", "", "", "")

    def test_values_are_in_the_order_of_the_common_labels(self) -> None:
        """As the renderer expects."""
        identity = Identity(node="n", rank="r", container="c", namespace="s", pod="p")

        assert dict(zip(COMMON_LABELS, identity.values(), strict=True)) == {
            "node": "n",
            "rank": "r",
            "container": "c",
            "namespace": "s",
            "pod": "p",
        }

    def test_every_label_is_made_printable(self) -> None:
        dirty = Identity(node="\n", rank="\n", container="\n", namespace="\n", pod="\n")

        assert dirty.values() == ("\ufffd",) * 5

    def test_equal_labels_are_one_identity(self) -> None:
        """It is a key: two processes of one rank and container share their series."""
        assert len({Identity(rank="1"), Identity(rank="1"), Identity(rank="2")}) == 2

    def test_identity_is_frozen(self) -> None:
        """A later name is a new identity."""
        with pytest.raises(FrozenInstanceError):
            Identity().rank = "1"  # type: ignore[misc]
