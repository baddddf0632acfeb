"""Fixtures of the tests that start real programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.standin_gpu import Gpu, built


@pytest.fixture(scope="session")
def build() -> Path:
    """The folder of the stand-in's libraries and programs, built if they are missing."""
    return built()


@pytest.fixture(scope="module")
def gpu(build: Path) -> Gpu:
    """The stand-in's libraries, loaded into the test runner."""
    return Gpu(build)
