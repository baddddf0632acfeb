"""memcpy: bytes copied by direction and kind of memory, and how long calls take."""

from __future__ import annotations

from exporter import catalog
from exporter.catalog import Metric
from exporter.collectors import memcpy
from exporter.kernel.abi import Copy, HostMemory
from exporter.kernel.tables import Tables
from exporter.totals import Total
from tests.support.tables import FakeTables


def collected(kernel: FakeTables, metric: Metric) -> dict[tuple[str, ...], Total]:
    """Labels -> total, of process 1."""
    totals = memcpy.collect(Tables(kernel.maps).read())
    return {series.labels: total for series, total in totals[1].items() if series.metric is metric}


class TestDirections:
    def test_bytes_are_by_direction(self) -> None:
        kernel = FakeTables()
        kernel.process(1, copied_bytes={direction: 10 + direction for direction in Copy})

        assert collected(kernel, catalog.memcpy.BYTES) == {
            ("h2h",): 10,
            ("h2d",): 11,
            ("d2h",): 12,
            ("d2d",): 13,
            ("default",): 14,
            ("peer",): 15,
        }

    def test_direction_never_used_is_not_written(self) -> None:
        """Five zeros for each process would be noise."""
        kernel = FakeTables()
        kernel.process(1, copied_bytes={Copy.HOST_TO_DEVICE: 64})

        assert collected(kernel, catalog.memcpy.BYTES) == {("h2d",): 64}


class TestHostMemory:
    """Copies between host and GPU, by kind of host memory."""

    def test_bytes_and_time_are_by_direction_memory_and_whether_the_call_waits(self) -> None:
        """Pageable memory down in 9 ms, pinned memory up in the background."""
        kernel = FakeTables()
        kernel.process(1)
        pageable, pinned = HostMemory.PAGEABLE, HostMemory.PINNED
        kernel.copied(1, Copy.DEVICE_TO_HOST, pageable, copies=3, copied_bytes=300, total_ns=9_000_000)
        kernel.copied(1, Copy.HOST_TO_DEVICE, pinned, copies=5, copied_bytes=50, total_ns=700, is_blocking=False)

        assert collected(kernel, catalog.memcpy.HOST_BYTES) == {
            ("d2h", "pageable", "true"): 300,
            ("h2d", "pinned", "false"): 50,
        }
        assert collected(kernel, catalog.memcpy.HOST_TIME) == {
            ("d2h", "pageable", "true"): 9_000_000,
            ("h2d", "pinned", "false"): 700,
        }

    def test_copies_of_an_ended_process_are_skipped(self) -> None:
        """Its row is deleted before its copies are."""
        kernel = FakeTables()
        kernel.process(1)
        kernel.copied(2, Copy.HOST_TO_DEVICE, HostMemory.UNKNOWN, copies=1, copied_bytes=8, total_ns=7)

        assert memcpy.collect(Tables(kernel.maps).read()) == {1: {}}
