"""rendering: a result in each format."""

from __future__ import annotations

import json

import pytest

from exporter.errors import BadInput
from exporter.investigate.rendering import FORMATS
from exporter.investigate.result import Result


def rendered(form: str, columns: list[str], *rows: list[object]) -> str:
    return "".join(FORMATS[form](Result.of(columns, [json.dumps(row).encode() for row in rows])))


class TestTable:
    def test_text_is_aligned_left_and_numbers_right(self) -> None:
        assert rendered("table", ["rank", "steps"], ["3", 1000], ["10", None]) == (
            "rank  steps\n3      1000\n10        -\n"
        )

    @pytest.mark.parametrize(
        ("value", "cell"),
        [
            (0.1234567, "0.123457"),
            (1.5e-7, "1.5e-07"),
            (1800000000.25, "1800000000.250"),
            (float("inf"), "inf"),
            ("\x1b[2J", "\ufffd[2J"),
        ],
    )
    def test_cell(self, value: object, cell: str) -> None:
        assert rendered("table", ["x"], [value]).split("\n")[1].strip() == cell

    def test_without_rows_there_is_a_head(self) -> None:
        assert rendered("table", ["rank", "steps"]) == "rank  steps\n"


class TestForPrograms:
    def test_csv_quotes_and_leaves_null_empty(self) -> None:
        assert rendered("csv", ["a", "b"], ['x,"y"', None], ["\x1b\n", 0.1]) == 'a,b\n"x,""y""",\n\ufffd\ufffd,0.1\n'

    def test_json_is_an_array_of_objects(self) -> None:
        text = rendered("json", ["a", "b"], ["\u202e\x1b", 1], [None, float("inf")])

        assert json.loads(text) == [{"a": "\u202e\x1b", "b": 1}, {"a": None, "b": None}]
        assert text.replace("\n", "").isascii()
        assert text.replace("\n", "").isprintable()

    def test_json_without_rows_is_an_empty_array(self) -> None:
        assert json.loads(rendered("json", ["a"])) == []

    def test_lines_of_json_are_objects(self) -> None:
        assert rendered("jsonl", ["a"], [1], [2]) == '{"a": 1}\n{"a": 2}\n'

    @pytest.mark.parametrize("form", ["json", "jsonl"])
    def test_two_columns_of_one_name_are_refused(self, form: str) -> None:
        """One would replace the other."""
        with pytest.raises(BadInput, match="two columns have one name"):
            rendered(form, ["a", "a"], [1, 2])
