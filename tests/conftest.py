"""What holds for every test: hypothesis has no deadline of its own, since a busy machine is no defect; rights stay."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from exporter.host import capabilities

settings.register_profile("gpustall", deadline=None)
settings.load_profile("gpustall")


@pytest.fixture(autouse=True)
def _rights_stay() -> Iterator[None]:
    """A test that lets go of capabilities in this very process takes them from all that come after it."""
    before = capabilities.effective()
    yield
    assert capabilities.effective() == before
