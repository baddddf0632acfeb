"""surroundings: which collectors of the machine are made."""

from __future__ import annotations

from exporter import catalog
from exporter.gpu.model import GpuReading, Sample
from exporter.hostmetrics import host_collectors
from exporter.model import Identity
from exporter.totals import Series
from tests.support.gpus import record


class TestDevice:
    """GPUs."""

    def test_they_are_told_of_the_node(self) -> None:
        """Neither of a rank nor of a container."""
        reading = GpuReading((record(Sample(power_mw=1), 0),))
        collector = host_collectors(["device"], {}, "gpu7", 900, read_gpus=lambda: reading)["device"]
        totals = collector.collect(0, [])

        assert set(totals) == {Identity("gpu7")}
        assert totals[Identity("gpu7")][Series(catalog.gpu.POWER, ("0",))] == 1_000_000

    def test_where_nobody_samples_them_there_is_no_collector(self) -> None:
        """It is switched off."""
        assert host_collectors(["device"], {}, "gpu7", 900) == {}
        assert host_collectors([], {}, "gpu7", 900, read_gpus=GpuReading) == {}
