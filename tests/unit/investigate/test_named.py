"""named: every query runs, and leads to another one."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from exporter.investigate.named import QUERIES, QUERY_OF, list_lines
from exporter.investigate.query import query
from exporter.investigate.tables import QuerySpan
from tests.support.history import SECOND
from tests.support.investigated import HOUR_SECONDS, an_hour

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return an_hour(tmp_path_factory.mktemp("named"))


class TestQueries:
    def test_there_are_eleven_with_names_of_their_own(self) -> None:
        assert (len(QUERIES), len(QUERY_OF)) == (11, 11)

    @pytest.mark.parametrize("name", QUERY_OF)
    def test_each_has_rows_where_there_is_something_to_show(self, name: str, path: Path) -> None:
        now_unix_ns = time.time_ns()
        found = query(
            path, QUERY_OF[name].statement, QuerySpan(now_unix_ns - HOUR_SECONDS * SECOND, now_unix_ns, None), 10.0
        )

        assert len(found.lines) >= 1

    @pytest.mark.parametrize("name", QUERY_OF)
    def test_next_one_is_another_that_exists(self, name: str) -> None:
        assert QUERY_OF[name].next_name in QUERY_OF.keys() - {name}

    def test_list_has_a_line_for_each(self) -> None:
        assert [line.split()[0] for line in list_lines()] == list(QUERY_OF)
