"""What a call costs here, measured on machine code of our own."""

from __future__ import annotations

import platform

import pytest

from exporter.config.probes import AttachKind
from exporter.kernel.calibration import TYPICAL, calibrate
from tests.support.traced import tracer

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="there is machine code for x86-64 only")


@pytest.mark.parametrize("kind", AttachKind)
def test_cost_is_measured(kind: AttachKind) -> None:
    """A probe takes longer than 100 ns on any machine, and less than 0.1 ms."""
    with tracer(kind) as traced:
        cost = calibrate(traced.kernel)

    assert cost != TYPICAL
    assert 100 < cost.timed_ns < 100_000
    assert 0 < cost.counted_ns < 100_000


def test_what_it_was_measured_on_can_be_forgotten() -> None:
    """One process, which has ended: nothing of it is left."""
    with tracer() as traced:
        calibrate(traced.kernel)
        processes = traced.tables.read_processes()
        traced.tables.forget(set(processes), traced.tables.read())

        assert len(processes) == 1
        assert (traced.tables.read().processes, traced.tables.read().operations) == ({}, {})


def test_without_programs_to_measure_it_is_assumed() -> None:
    """NCCL alone is traced."""
    with tracer(subjects=("process", "nccl")) as traced:
        assert calibrate(traced.kernel) == TYPICAL
