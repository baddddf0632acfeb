"""layout: columns on a width."""

from __future__ import annotations

from collections.abc import Sequence

from exporter.top.layout import Column, Line, Rest, Style, StyledText, clipped, padded, restyled, table, text_of
from exporter.top.wording import UNICODE


def column(title: str, *cells: str, importance: int = 5, is_number: bool = False, columns_max: int = 99) -> Column:
    """A column of plain cells."""
    return Column(title, [StyledText(cell) for cell in cells], importance, is_number, columns_max)


def shown(columns: Sequence[Column], width: int, rest: Rest | None = None) -> list[str]:
    """Lines without styles and without blanks at their ends."""
    return [text_of(line).rstrip() for line in table(columns, width, UNICODE, rest)]


def filling(columns_min: int = 4, columns_wanted: int = 4, spared: int = 0) -> Rest:
    """A rest that fills all it gets, for two rows."""

    def cells(columns: int) -> list[Line]:
        return [(StyledText("x" * columns),), (StyledText("y" * columns),)]

    return Rest(lambda columns: f"REST{columns}", cells, columns_min, columns_wanted, spared)


class TestTable:
    """Two blanks between columns."""

    def test_names_stand_to_the_left_and_numbers_to_the_right(self) -> None:
        """As wide as the widest of them."""
        assert shown([column("NAME", "a", "abcde"), column("N", "1", "200", is_number=True)], 80) == [
            "NAME     N",
            "a        1",
            "abcde  200",
        ]

    def test_the_least_important_column_gives_way_first(self) -> None:
        """Whole columns, not letters of all."""
        columns = [column("AAAA", "1"), column("BBBB", "2", importance=1), column("CCCC", "3", importance=2)]

        assert [shown(columns, width)[0] for width in (16, 15, 10, 9, 3)] == [
            "AAAA  BBBB  CCCC",
            "AAAA  CCCC",
            "AAAA  CCCC",
            "AAAA",
            "AA…",
        ]

    def test_a_wide_name_is_cut_at_the_most_that_it_may_have(self) -> None:
        """One long name does not take the width of all."""
        assert shown([column("NAME", "abcdefgh", columns_max=5)], 80)[1] == "abcd…"

    def test_the_rest_has_what_is_left(self) -> None:
        """Behind the gap."""
        assert shown([column("NAME", "a", "b")], 12, filling()) == ["NAME  REST6", "a     xxxxxx", "b     yyyyyy"]

    def test_columns_give_way_to_what_the_rest_needs(self) -> None:
        """To the most of it that it may need only those that are worth less."""
        columns = [column("AAAA", "1", "1", importance=9), column("BBBB", "2", "2", importance=3)]

        assert shown(columns, 16, filling(columns_min=5))[0] == "AAAA  REST10"
        assert shown(columns, 20, filling(columns_wanted=9, spared=3))[0] == "AAAA  REST14"
        assert shown(columns, 20, filling(columns_wanted=9, spared=2))[0] == "AAAA  BBBB  REST8"

    def test_without_rows_there_is_the_heading(self) -> None:
        """It says what there would be."""
        assert shown([column("NAME")], 80) == ["NAME"]


class TestLines:
    """Spans, one behind the other."""

    def test_clipped_ends_in_the_span_that_is_too_long(self) -> None:
        """Styles stay."""
        line = (StyledText("abc", Style.BOLD), StyledText("def", Style.DIM), StyledText("ghi"))

        assert clipped(line, 5, UNICODE) == (StyledText("abc", Style.BOLD), StyledText("d…", Style.DIM))
        assert clipped(line, 9, UNICODE) == line

    def test_padded_reaches_the_width(self) -> None:
        """And leaves alone what has it."""
        assert padded((StyledText("ab"),), 4, Style.TITLE) == (StyledText("ab"), StyledText("  ", Style.TITLE))
        assert padded((StyledText("abcd"),), 4, Style.TITLE) == (StyledText("abcd"),)

    def test_restyled_is_one_span(self) -> None:
        """Of all the text."""
        assert restyled((StyledText("a", Style.BOLD), StyledText("b")), Style.SELECTED) == (
            StyledText("ab", Style.SELECTED),
        )
