"""A bench with one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.pipeline.bench import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Process 1, rank 3, has allocated twice."""
    made = Bench(tmp_path)
    made.kernel.process(1)
    made.kernel.call(1, "cudaMalloc", durations_ns=[1_000, 2_000])
    return made
