"""top.layout: columns within a width."""

from __future__ import annotations

from collections.abc import Sequence

from exporter.top.layout import Column, Line, Rest, Style, StyledText, clipped, padded, restyled, table, text_of
from exporter.top.terminal_text import UNICODE


def column(title: str, *cells: str, importance: int = 5, is_number: bool = False, columns_max: int = 99) -> Column:
    """A column of plain cells."""
    return Column(title, [StyledText(cell) for cell in cells], importance, is_number, columns_max)


def shown(columns: Sequence[Column], width: int, rest: Rest | None = None) -> list[str]:
    """Lines without styles and trailing blanks."""
    return [text_of(line).rstrip() for line in table(columns, width, UNICODE, rest)]


def filling(columns_min: int = 4, columns_wanted: int = 4, spared: int = 0) -> Rest:
    """A rest that fills its columns, for two rows."""

    def cells(columns: int) -> list[Line]:
        return [(StyledText("x" * columns),), (StyledText("y" * columns),)]

    return Rest(lambda columns: f"REST{columns}", cells, columns_min, columns_wanted, spared)


class TestTable:
    """Two blanks between columns."""

    def test_names_are_left_aligned_and_numbers_right_aligned(self) -> None:
        """A column is as wide as its widest cell."""
        assert shown([column("NAME", "a", "abcde"), column("N", "1", "200", is_number=True)], 80) == [
            "NAME     N",
            "a        1",
            "abcde  200",
        ]

    def test_least_important_column_is_left_out_first(self) -> None:
        """Whole columns are left out; none is cut."""
        columns = [column("AAAA", "1"), column("BBBB", "2", importance=1), column("CCCC", "3", importance=2)]

        assert [shown(columns, width)[0] for width in (16, 15, 10, 9, 3)] == [
            "AAAA  BBBB  CCCC",
            "AAAA  CCCC",
            "AAAA  CCCC",
            "AAAA",
            "AA…",
        ]

    def test_wide_name_is_cut_at_its_limit(self) -> None:
        """One long name must not take the whole width."""
        assert shown([column("NAME", "abcdefgh", columns_max=5)], 80)[1] == "abcd…"

    def test_rest_fills_the_remaining_width(self) -> None:
        """After a gap."""
        assert shown([column("NAME", "a", "b")], 12, filling()) == ["NAME  REST6", "a     xxxxxx", "b     yyyyyy"]

    def test_columns_are_left_out_for_the_rest(self) -> None:
        """For its wanted width only the less important ones."""
        columns = [column("AAAA", "1", "1", importance=9), column("BBBB", "2", "2", importance=3)]

        assert shown(columns, 16, filling(columns_min=5))[0] == "AAAA  REST10"
        assert shown(columns, 20, filling(columns_wanted=9, spared=3))[0] == "AAAA  REST14"
        assert shown(columns, 20, filling(columns_wanted=9, spared=2))[0] == "AAAA  BBBB  REST8"

    def test_table_without_rows_has_its_heading(self) -> None:
        assert shown([column("NAME")], 80) == ["NAME"]


class TestLines:
    """Functions of single lines."""

    def test_clipped_cuts_the_span_at_the_limit(self) -> None:
        """Styles are kept."""
        line = (StyledText("abc", Style.BOLD), StyledText("def", Style.DIM), StyledText("ghi"))

        assert clipped(line, 5, UNICODE) == (StyledText("abc", Style.BOLD), StyledText("d…", Style.DIM))
        assert clipped(line, 9, UNICODE) == line

    def test_padded_reaches_the_width(self) -> None:
        """A line of that width is unchanged."""
        assert padded((StyledText("ab"),), 4, Style.TITLE) == (StyledText("ab"), StyledText("  ", Style.TITLE))
        assert padded((StyledText("abcd"),), 4, Style.TITLE) == (StyledText("abcd"),)

    def test_restyled_is_one_span(self) -> None:
        """With the whole text."""
        assert restyled((StyledText("a", Style.BOLD), StyledText("b")), Style.SELECTED) == (
            StyledText("ab", Style.SELECTED),
        )
