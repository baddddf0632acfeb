"""Builders of what `top` works with: scrapes by hand, and a view of a small job."""

from __future__ import annotations

from collections.abc import Mapping

from exporter.catalog import Metric
from exporter.chains.chain import Severity
from exporter.clock import Moment
from exporter.model import Identity
from exporter.scrape.samples import Distribution, Number, Scrape
from exporter.scrape.view import CauseLoss, OpenChain, OperationRates, Process, View, Workload

RANK_0 = Identity(node="gpu7", rank="0")
RANK_1 = Identity(node="gpu7", rank="1")
BEGAN_NS = 1_790_000_000_000_000_000
SECOND = 1_000_000_000

Series = Mapping[tuple[Identity | None, tuple[str, ...]], Number | Distribution]


def scrape_at(at_seconds: float, series: Mapping[Metric, Series]) -> Scrape:
    """A scrape, in seconds after BEGAN_NS."""
    at_ns = round(at_seconds * SECOND)
    numbers: dict[str, dict[tuple[Identity | None, tuple[str, ...]], Number]] = {}
    distributions: dict[str, dict[tuple[Identity | None, tuple[str, ...]], Distribution]] = {}
    for metric, found in series.items():
        for key, one in found.items():
            if isinstance(one, Number):
                numbers.setdefault(metric.name, {})[key] = one
            else:
                distributions.setdefault(metric.name, {})[key] = one
    return Scrape(Moment(at_ns, BEGAN_NS + at_ns), numbers, distributions)


def counted(value: float, since_seconds: float = 0.0) -> Number:
    """A counter that started that many seconds after BEGAN_NS."""
    return Number(value, BEGAN_NS + round(since_seconds * SECOND))


SYNCHRONIZE = OperationRates("cudaStreamSynchronize", "", 53.1, 0.852, (0.0131, 0.0258, 0.0568))
LAUNCH = OperationRates("cudaLaunchKernel", "", 6908.0, 0.0003, (2.08e-6, 3.72e-6, 5.82e-6))
DRIVER_LAUNCH = OperationRates("cuLaunchKernel", "", 6908.0, 0.0, None)

SLOW = Workload(
    RANK_0,
    (Process("4026", "trainer"),),
    2.0,
    step_seconds=0.0191,
    lost=(CauseLoss("cpu_contention", 0.40, (("stress-ng", 0.38), ("other", 0.02))), CauseLoss("lock", 0.06)),
    late_seconds=0.0024,
    calls_per_second=8496.0,
    operations=(SYNCHRONIZE, LAUNCH, DRIVER_LAUNCH),
)
FINE = Workload(
    RANK_1,
    (Process("4027", "trainer"),),
    2.0,
    step_seconds=0.0190,
    lost=(CauseLoss("irq", 0.001),),
    late_seconds=0.0,
    calls_per_second=8490.0,
    operations=(SYNCHRONIZE,),
)
CHAIN = OpenChain(RANK_0, "cpu_contention", "gap", Severity.HIGH, ("stress-ng",), ("cddab23d5395645d094238308ffe087b",))
JOB = View(0.0, 2.0, (SLOW, FINE), (CHAIN,))
"""Two ranks on one node; rank 0 loses 46 % of its time, and a chain is open."""
