"""Tables of the kernel made by hand, and what reads them."""

from __future__ import annotations

import pytest

from exporter.kernel.tables import Tables
from tests.support.tables import FakeTables


@pytest.fixture
def kernel() -> FakeTables:
    """Empty tables."""
    return FakeTables()


@pytest.fixture
def tables(kernel: FakeTables) -> Tables:
    """What reads them."""
    return Tables(kernel.maps, kernel.iterate)
