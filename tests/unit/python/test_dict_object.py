"""python.dict_object: entries of dicts in memory."""

from __future__ import annotations

import pytest

from exporter.errors import NotReadable
from exporter.python.dict_object import entries, value_of
from exporter.python.memory import BoundedMemory
from tests.unit.python.made_registered import MadeRegistered


def made_dict(count: int, *, has_hashes: bool = False) -> tuple[MadeRegistered, int]:
    """Values 1, 2, … of keys 1001, 1002, …; the first entry was removed."""
    made = MadeRegistered((3, 12))
    return made, made.dict([(1000 + number, number) for number in range(1, count + 1)], has_hashes=has_hashes)


@pytest.mark.parametrize("has_hashes", [False, True])
@pytest.mark.parametrize("count", [0, 1, 23, 600])
def test_entries_are_keys_and_values_without_those_removed(has_hashes: bool, count: int) -> None:
    """600 entries need several reads."""
    made, address = made_dict(count, has_hashes=has_hashes)
    found = list(entries(BoundedMemory(made.memory, 100), address, 1000))

    assert found == [(1000 + number, number) for number in range(1, count + 1)]


def test_more_entries_than_allowed_are_refused() -> None:
    made, address = made_dict(23)

    with pytest.raises(NotReadable):
        list(entries(BoundedMemory(made.memory, 100), address, 23))


@pytest.mark.parametrize(("at", "value"), [(40, 0x5000), (32, 0)])
def test_dict_with_shared_keys_or_without_any_is_refused(at: int, value: int) -> None:
    made, address = made_dict(1)
    made.memory.set_word(address + at, value)

    with pytest.raises(NotReadable):
        list(entries(BoundedMemory(made.memory, 100), address, 1000))


class TestNamed:
    @pytest.mark.parametrize(
        ("name", "value"), [("first", 23), ("second", 29), ("firs", None), ("first ", None), ("fIrst", None)]
    )
    def test_value_is_that_of_the_equal_text(self, name: str, value: int | None) -> None:
        made = MadeRegistered((3, 12))
        address = made.dict([(made.text("first"), 23), (made.text("second"), 29)])

        assert value_of(BoundedMemory(made.memory, 100), made.code(), address, name, 10) == value
