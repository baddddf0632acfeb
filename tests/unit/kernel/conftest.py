"""Fixtures: kernel maps without a kernel, and their reader."""

from __future__ import annotations

import pytest

from exporter.kernel.tables import Tables
from tests.support.tables import FakeTables


@pytest.fixture
def kernel() -> FakeTables:
    return FakeTables()


@pytest.fixture
def tables(kernel: FakeTables) -> Tables:
    return Tables(kernel.maps, kernel.iterate)
