"""calibration: the cost of a call, measured on private machine code."""

from __future__ import annotations

import platform

import pytest

from exporter.config.probes import AttachKind
from exporter.kernel.calibration import TYPICAL, calibrate
from tests.support.traced import tracer

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="there is machine code for x86-64 only")


@pytest.mark.parametrize("kind", AttachKind)
@pytest.mark.acceptance
def test_cost_is_measured(kind: AttachKind) -> None:
    """A probe takes longer than 100 ns on any machine, and less than 0.1 ms."""
    with tracer(kind) as traced:
        cost = calibrate(traced.kernel)

    assert cost != TYPICAL
    assert 100 < cost.timed_ns < 100_000
    assert 0 < cost.counted_ns < 100_000


def test_calibration_leaves_no_rows() -> None:
    """Once its one process is forgotten."""
    with tracer() as traced:
        calibrate(traced.kernel)
        processes = traced.tables.read_processes()
        traced.tables.forget(set(processes), traced.tables.read())

        assert len(processes) == 1
        assert (traced.tables.read().processes, traced.tables.read().operations) == ({}, {})


def test_cost_is_assumed_without_the_cuda_programs() -> None:
    """Only nccl is loaded."""
    with tracer(subjects=("process", "nccl")) as traced:
        assert calibrate(traced.kernel) == TYPICAL
