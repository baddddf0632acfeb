"""hostmetrics: which collectors are made."""

from __future__ import annotations

from exporter import catalog
from exporter.gpu.model import GpuReading, Sample
from exporter.hostmetrics import host_collectors
from exporter.kernel.share_rows import Shares
from exporter.model import Identity
from exporter.totals import Series
from tests.support.gpus import record


class TestGpu:
    def test_series_of_gpus_have_the_identity_of_the_node(self) -> None:
        """Without rank and container."""
        reading = GpuReading((record(Sample(power_mw=1), 0),))
        collector = host_collectors(["device"], {}, "gpu7", 900, shares=Shares({}), read_gpus=lambda: reading)["device"]
        totals = collector.collect(0, [])

        assert set(totals) == {Identity("gpu7")}
        assert totals[Identity("gpu7")][Series(catalog.gpu.POWER, ("0",))] == 1_000_000

    def test_without_a_sampler_or_when_disabled_there_is_no_collector(self) -> None:
        assert host_collectors(["device"], {}, "gpu7", 900, shares=Shares({})) == {}
        assert host_collectors([], {}, "gpu7", 900, shares=Shares({}), read_gpus=GpuReading) == {}
