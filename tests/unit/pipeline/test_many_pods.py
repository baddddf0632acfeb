"""Thousands of pods in a day, each with a short process: no collection has grown with them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from exporter.output.otlp.deltas import MAX_ENDED, Deltas
from exporter.output.otlp.points import data_points
from exporter.workloads.orchestrators.pod_cache import Pod, PodCache
from tests.support.held import sizes
from tests.unit.host.process_tree import process, stat_line
from tests.unit.pipeline.bench import Bench

PODS = 1_500
SECONDS = 8.64
"""From one pod to the next: ten thousand in a day."""
SCRAPE_EVERY = 50
"""Pods between two scrapes."""
HELD_MAX = 1_100
"""Entries of any other collection: fewer than one for each pod."""
BOUNDED = {"Deltas._counted": MAX_ENDED + 6 * 256, "SeriesStore._expired_unix_ns": 10_000}
"""Collections that remember more, in entries. Each of 256 workloads has six counters."""


class Node:
    """A node whose pods each run one process for two ticks. pods: what the orchestrator lists."""

    def __init__(self, proc: Path) -> None:
        self._proc = proc
        self.pods = PodCache()
        self.bench = Bench(proc, pods=self.pods)
        self.deltas = Deltas()

    def run_pod(self, number: int) -> None:
        """From its start to its end."""
        tgid, uid, container = 1_000 + number, f"00000000-0000-4000-8000-{number:012d}", f"{number:064x}"
        bench = self.bench
        self.pods.put(uid, Pod("jobs", f"job-{number}", (uid,), {container: "trainer"}))
        cgroup = f"0::/kubepods/burstable/pod{uid}/{container}\n".encode()
        process(self._proc, tgid, stat=stat_line(tgid), environ=b"RANK=0\0", cgroup=cgroup)
        bench.kernel.process(number, tgid=tgid)
        bench.kernel.call(number, "cudaMalloc", durations_ns=[1_000])
        bench.kernel.error(number, "cudaMalloc", code=number)
        bench.kernel.communicator(number, rank=0, ranks=2)
        bench.tracking.tick([])
        bench.kernel.blame(number, waited_ns=20_000_000, comm=f"other-{number}".encode())
        bench.now += SECONDS
        bench.tracking.tick([number])
        shutil.rmtree(self._proc / str(tgid))
        self.pods.delete(uid)

    def scrape(self) -> None:
        """A snapshot, as scraped and as pushed with delta temporality."""
        snapshot = self.bench.snapshots.snapshot()
        self.bench.tracking.release_unused_identities()
        self.deltas.delivered(self.deltas.collect(data_points(snapshot, ()), snapshot.taken_at.unix_ns))


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Node:
    """After its day."""
    node = Node(tmp_path_factory.mktemp("proc"))
    for number in range(1, PODS + 1):
        node.run_pod(number)
        if number % SCRAPE_EVERY == 0:
            node.scrape()
    return node


class TestAfterADay:
    def test_no_collection_has_grown_with_the_pods(self, node: Node) -> None:
        held = sizes(node.bench.tracking, node.bench.snapshots, node.deltas, node.pods)

        assert node.bench.tracking.workloads() == {}
        assert held["WorkloadRegistry._traced"] == held["PodCache._pods"] == 0
        assert {place: size for place, size in held.items() if size > BOUNDED.get(place, HELD_MAX)} == {}
