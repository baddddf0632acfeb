"""A job at the beginning of a test."""

from __future__ import annotations

import pytest

from tests.unit.chains.job import Scene


@pytest.fixture
def scene() -> Scene:
    """A job whose steps take 10 ms, and that has run for twenty seconds without a chain."""
    scene = Scene()
    assert scene.go_on(20) == []
    return scene
