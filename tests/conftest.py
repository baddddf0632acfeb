"""What holds for every test: hypothesis has no deadline, since a busy machine is no defect; capabilities are kept."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from exporter.host import capabilities

settings.register_profile("gpustall", deadline=None)
settings.load_profile("gpustall")


@pytest.fixture(autouse=True)
def _capabilities_are_kept() -> Iterator[None]:
    """A test that drops capabilities in this process would take them from all tests after it."""
    before = capabilities.effective()
    yield
    assert capabilities.effective() == before
