"""pages: rows to bytes allocated by the kernel."""

from __future__ import annotations

from mmap import PAGESIZE

from exporter import catalog
from exporter.collectors import pages
from exporter.kernel.rows import Tables
from exporter.totals import Series
from tests.support.tables import FakeTables


def test_pages_are_told_as_bytes() -> None:
    """23 of them."""
    kernel = FakeTables()
    kernel.process(1)
    kernel.page_allocations(1, 23)

    assert pages.collect(Tables(kernel.maps).read()) == {1: {Series(catalog.MEMORY_PAGE_ALLOCATED, ()): 23 * PAGESIZE}}


def test_nothing_is_told_where_they_are_not_counted() -> None:
    """The table is not there."""
    kernel = FakeTables()
    kernel.process(1)
    del kernel.maps["page_allocations"]

    assert pages.collect(Tables(kernel.maps).read()) == {}


def test_rows_of_a_process_that_has_ended_are_deleted() -> None:
    """With everything else of it."""
    kernel = FakeTables()
    kernel.process(1)
    kernel.page_allocations(1, 23)
    tables = Tables(kernel.maps)
    tables.forget({1}, tables.read())

    assert kernel.maps["page_allocations"].rows == {}
