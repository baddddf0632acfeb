"""The cases of tests/golden: contents of kernel tables, and the scrape and the push that they give."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from exporter import catalog
from exporter.accounting.thread_time import times_by_process
from exporter.causes import Cause
from exporter.chains.chain import Chain, Change, Effect, End, Severity, Transition
from exporter.chains.cold_start import Cold
from exporter.chains.engine import Engine, Observation
from exporter.collectors import COLLECTORS
from exporter.collectors.engine import Engines
from exporter.collectors.sched import Sched
from exporter.config.probes import LaunchMode
from exporter.kernel.abi import Copy, Culprit, HostMemory, IntervalKind, ThreadState, Victim
from exporter.kernel.calibration import CallCost
from exporter.kernel.gpu_rows import GraphRow
from exporter.kernel.tables import Tables
from exporter.model import Identity, Snapshot
from exporter.output.negotiation import Format
from exporter.output.otlp import json_body, points
from exporter.output.otlp.points import Form, Origin
from exporter.output.text import render
from exporter.pipeline.detection import Detection
from exporter.probes.sampling import AdaptiveSampler
from exporter.series.host_totals import TotalsByIdentity
from exporter.series.store import SeriesStore
from exporter.totals import Counts, HistogramTotal, Series, merged
from tests.support.chains import a_chain
from tests.support.records import at
from tests.support.tables import NCCL_WAIT, FakeTables

FOLDER = Path(__file__).parent.parent / "golden"
FILE_OF = {Format.TEXT: "metrics.prom", Format.OPENMETRICS: "metrics.om"}
OTLP_FILE = "otlp.json"
ORIGIN = Origin("gpu7", "gpu-stall-exporter", (("deployment.environment.name", "prod"),))
_LINE_CHARACTERS = 100
NO_TOTALS: TotalsByIdentity = {}

Case = Callable[[], Snapshot]


def training() -> Snapshot:
    """Two ranks of a job, one of which serves as well: every workload metric has a series."""
    kernel = FakeTables()
    for process, tgid in ((1, 4026), (2, 4027)):
        kernel.process(
            process,
            tgid=tgid,
            copied_bytes={Copy.HOST_TO_DEVICE: 1_048_576 * process, Copy.DEVICE_TO_HOST: 4_096},
            allocated_bytes=8_589_934_592,
            freed_bytes=1_073_741_824,
            unknown_frees=process - 1,
            live_allocations=311,
            peak_bytes=8_053_063_680,
            managed_bytes=268_435_456,
            pinned_bytes=134_217_728,
        )
        kernel.copied(
            process,
            Copy.HOST_TO_DEVICE,
            HostMemory.PINNED,
            copies=1,
            copied_bytes=1_048_576 * process,
            total_ns=9_000,
            is_blocking=False,
        )
        kernel.copied(
            process, Copy.DEVICE_TO_HOST, HostMemory.PAGEABLE, copies=1, copied_bytes=4_096, total_ns=2_000_000
        )
        kernel.graphs(process, GraphRow(5, 3, 1, 40_000_000, 7, 3, 9_000_000, 2, 0, 500, 60_000))
        kernel.geometry(process, grid=4, block=3, launches=23)
        kernel.call(process, "cudaMalloc", durations_ns=[1_500, 2_000, 90_000])
        kernel.call(process, "cuMemAlloc", untimed=3)
        kernel.call(process, "cudaLaunchKernel", durations_ns=[4_000] * 23)
        kernel.call(process, "cudaStreamSynchronize", durations_ns=[2_000_000, 800_000_000, 1_200_000_000])
        kernel.slowest(
            process,
            "cudaStreamSynchronize",
            duration_ns=800_000_000,
            ended_ns=990_000_000_000 + process,
            tgid=tgid,
            tid=tgid + 100,
        )
        kernel.error(process, "cudaMalloc", code=2)
        kernel.call(process, "ncclCommInitRank", durations_ns=[300_000_000])
        kernel.communicator(process, digest=0x1234_5678_9ABC_DEF0, rank=process - 1, ranks=2, ordinal=1)
        kernel.call(process, "ncclAllReduce", durations_ns=[20_000] * 7, moved_bytes=7 * 4_194_304, communicator=1)
        kernel.progress(process, enqueued=7, completed=9 - 2 * process, lag_ns=3_000_000 * process)
        kernel.call(process, NCCL_WAIT, durations_ns=[2_000_000, 30_000_000], communicator=1)
    kernel.error(2, "ncclAllReduce", code=6)
    kernel.forked(2, processes=4, threads=31)
    kernel.ended(2, status=9, is_worker=True, is_victim=True)
    _add_waits(kernel)
    identities = {
        1: Identity(node="gpu7", rank="0", container="0123456789ab"),
        2: Identity(node="gpu7", rank="1", container="0123456789ab"),
    }
    engines = {1: "pytorch", 2: "vllm"}
    return _snapshot(
        kernel, identities, lost_ns=100_000_000, of_places=_totals_by_identity(identities[2]), engines=engines
    )


def _add_waits(kernel: FakeTables) -> None:
    """Rank 1: its step thread and a worker wait for CPUs behind `stress` and each other; a worker reads from a slow disk."""
    on_cpu, runnable, pipe = ThreadState.ON_CPU, ThreadState.RUNNABLE, ThreadState.PIPE
    kernel.call(
        2,
        "cudaStreamSynchronize",
        states_ns={on_cpu: 1_500_000_000, ThreadState.GPU_WAIT: 400_000_000, runnable: 102_000_000},
    )
    kernel.exposure(
        2,
        "cudaStreamSynchronize",
        exact_ns=60_000_000,
        bounded=(3, 330_000_000, 40_000_000),
        clean=(10, 1_000_000_000),
    )
    dry_ns = {pipe: 800_000_000, runnable: 50_000_000, ThreadState.THROTTLED: 25_000_000}
    kernel.feeding(2, dry_ns=dry_ns, hits=(6_400, 64, 64), kernels=23)
    kernel.wakeup(2, pipe, {on_cpu: 100_000_000, runnable: 200_000_000, ThreadState.IO: 500_000_000})
    kernel.beats(2, [(120_000_000 * number, 7) for number in range(1, 17)])
    kernel.outputs(2, [(20_000_000 * number, 0) for number in range(1, 131)] + [(5_200_000_000, 2_500_000_000)])
    kernel.blame(2, 300_000_000, comm=b"stress")
    kernel.blame(2, 100_000_000, culprit=Culprit.IDLE, comm=b"", tgid=0)
    kernel.blame(2, 7_000_000, victim=Victim.WORKER, culprit=Culprit.IRQ, comm=b"", tgid=0)
    kernel.blame(2, 200_000_000, victim=Victim.WORKER, culprit=Culprit.OWN, comm=b"python")
    kernel.interval(2, IntervalKind.WORKER, {on_cpu: 2_000_000_000, ThreadState.IO: 500_000_000})
    kernel.thread(2, 4127, tgid=4027, gaps_ns={on_cpu: 700_000_000, pipe: 800_000_000, runnable: 50_000_000})


def hostile() -> Snapshot:
    """Nothing is known of one process, and the other has chosen its names to do harm."""
    kernel = FakeTables()
    kernel.process(1, tgid=1, comm=b"")
    kernel.call(1, "cudaFree", durations_ns=[0, 2**63])
    kernel.slowest(1, "cudaFree", duration_ns=2**63, ended_ns=999_000_000_000, is_being_written=True)
    kernel.error(1, "cudaFree", code=-1)
    kernel.error(1, "cudaFree", code=2**31 - 1)
    kernel.process(2, tgid=2, comm=b'a"} 1\n# EOF')
    kernel.call(2, "ncclGroupEnd", durations_ns=[1])
    kernel.call(2, "ncclSend", durations_ns=[1], moved_bytes=2**64 - 1, communicator=17)
    kernel.communicator(2, digest=0, rank=-1, ranks=0, ordinal=1)
    kernel.progress(2, communicator=17, enqueued=2**64 - 1, completed=2**63)
    kernel.feeding(1)
    kernel.feeding(2, dry_ns={ThreadState.RUNNABLE: 7}, hits=(64, 64, 0))
    kernel.blame(2, 30_000_000, comm=b'x"} 1\n# EOF')
    kernel.blame(2, 20_000_000, comm=b"\xff\xfe\x80", tgid=667)
    kernel.blame(2, 20_000_000, comm=b"", tgid=668)
    identities = {1: Identity(), 2: Identity(node='no"de\\', container="a\nb", pod='",le="1"} 7')}
    return _snapshot(kernel, identities)


class _Scripted(Engine):
    """One chain of process 2, which becomes worse; another one that is over, and a cold start. lost_ns: in the first chain."""

    def __init__(self, lost_ns: int) -> None:
        super().__init__()
        self._lost_ns = lost_ns

    def update(self, processes: Mapping[int, Observation], now_ns: int) -> list[Transition]:
        """Two chains: one escalates, one is resolved."""
        until = {"updated_ns": 990_000_000_000, "lost_ns": self._lost_ns}
        opened = a_chain(process=2, culprits=(('x"} 1\n# EOF', 1.0),), severity=Severity.MEDIUM, **until)
        self._open = replace(opened, severity=Severity.HIGH)
        over = a_chain(process=2, id="2" * 32, cause=Cause.BLOCK_IO, severity=Severity.LOW)
        changes = (Change.OPENED, opened), (Change.ESCALATED, self._open), (Change.OPENED, over)
        return [*(Transition(*one) for one in changes), over.resolved(now_ns, End.RECOVERED)]

    def open_chains(self) -> list[Chain]:
        """The one that escalated."""
        return [self._open]

    def cold_start(self, number: int) -> Cold | None:
        """3.5 s in launches, for process 2."""
        cold_ns = {Effect.LAUNCH: 3_500_000_000, Effect.ALLOC: 0, Effect.GRAPH: 250_000_000}
        return Cold(1, 9_000_000_000, cold_ns) if number == 2 else None


CASES: dict[str, Case] = {"training": training, "hostile": hostile}


def exposition(snapshot: Snapshot, fmt: Format) -> str:
    """The body of /metrics, without the exporter's own metrics."""
    return "".join(render(snapshot, fmt)) + ("# EOF\n" if fmt is Format.OPENMETRICS else "")


def otlp_document(snapshot: Snapshot) -> str:
    """The default push, without the exporter's own metrics; indented, so that a diff is readable."""
    form = Form(is_delta=False, with_explicit_buckets=False)
    (request,) = points.requests(points.data_points(snapshot, ()))
    return _indented(json.loads(json_body.encode(request, snapshot.taken_at.unix_ns, ORIGIN, form))) + "\n"


def _indented(value: Any, margin: str = "") -> str:
    """JSON: short values and lists of counts in one line, all others with one line for each item."""
    line = json.dumps(value, ensure_ascii=False)
    is_nested = isinstance(value, dict) or (isinstance(value, list) and isinstance((value or [None])[0], dict))
    if not is_nested or len(line) <= _LINE_CHARACTERS:
        return line
    inner = f"{margin}  "
    if isinstance(value, dict):
        opened, closed = "{}"
        items = [f"{json.dumps(key)}: {_indented(item, inner)}" for key, item in value.items()]
    else:
        opened, closed = "[]"
        items = [_indented(item, inner) for item in value]
    return f"{opened}\n{inner}" + f",\n{inner}".join(items) + f"\n{margin}{closed}"


def _totals_by_identity(one: Identity) -> TotalsByIdentity:
    """Totals of the machine, of the container of a process, and of the process as a workload."""
    machine, container = Identity(one.node), replace(one, rank="")
    https, drops = ("https",), ("eth0", "sent")
    disk, read = ("nvme0n1",), ("nvme0n1", "read")
    reclaims = HistogramTotal(Counts.of([3, 1], begin=160), 4_000_000)
    return {
        machine: {
            **_gpu_totals(),
            Series(catalog.cpu.STEAL, ()): 2_500_000_000,
            Series(catalog.cpu.IRQ, ()): 10_000_000,
            Series(catalog.cpu.SOFTIRQ, ()): 750_000_000,
            Series(catalog.network.UNREAD, ("namespace",)): 3,
            Series(catalog.network.INTERFACE_DROPS, drops): 7,
            Series(catalog.network.INTERFACE_ERRORS, drops): 2,
            Series(catalog.network.QUEUE_DROPS, drops): 5,
        },
        container: {
            Series(catalog.memory.RECLAIM_DURATION, ()): reclaims,
            Series(catalog.memory.RECLAIMED, ()): 1_048_576,
            Series(catalog.memory.OOM_KILLS, ()): 1,
            Series(catalog.memory.MAJOR_FAULTS, ()): 23,
            Series(catalog.memory.USED, ()): 8_589_934_592,
            Series(catalog.memory.LIMIT, ()): 17_179_869_184,
            Series(catalog.cpu.QUOTA_PERIODS, ()): 600,
            Series(catalog.cpu.QUOTA_THROTTLED_PERIODS, ()): 150,
            Series(catalog.cpu.QUOTA_THROTTLED, ()): 9_000_000_000,
            Series(catalog.network.RETRANSMITS, ("ipv4", "data")): 23,
            Series(catalog.network.RETRANSMITS, ("ipv6", "handshake")): 1,
            Series(catalog.block.QUEUE_DURATION, read): HistogramTotal(Counts(100, (5, 18)), 4_000_000),
            Series(catalog.block.DEVICE_DURATION, read): HistogramTotal(Counts(140, (23,)), 9_000_000),
            Series(catalog.block.BYTES, read): 23 * 262_144,
            Series(catalog.block.ERRORS, read): 2,
        },
        one: {
            Series(catalog.memory.SWAP, ()): 4_194_304,
            Series(catalog.memory.PAGE_ALLOCATED, ()): 268_435_456,
            Series(catalog.gpu.PROCESS_MEMORY, ("0", "")): 8_589_934_592,
            Series(catalog.block.WAIT, disk): 8_500_000,
            Series(catalog.block.WAITS, disk): 21,
            Series(catalog.network.SOCKETS, https): 4,
            Series(catalog.network.SOCKET_SEGMENTS, https): 4_000,
            Series(catalog.network.SOCKET_RETRANSMITS, https): 19,
            Series(catalog.network.SOCKET_ROUND_TRIP, https): 12_500_000,
            Series(catalog.network.SOCKET_WINDOW, https): 10,
        },
    }


def _gpu_totals() -> dict[Series, int]:
    """One that is held down by its power limit, with a driver that counts the bytes of PCIe."""
    gpu = "0"
    info = (gpu, "", "GPU-1f0a", "NVIDIA H100 80GB HBM3", "00000000:3B:00.0", "570.86.15")
    return {
        Series(catalog.gpu.INFO, info): 1,
        Series(catalog.gpu.UP, (gpu,)): 1,
        Series(catalog.gpu.ERRORS, (gpu, "no_function")): 1,
        Series(catalog.gpu.THROTTLED, (gpu, "power")): 250_500_000_000,
        Series(catalog.gpu.CLOCK, (gpu, "sm")): 1_665_000_000,
        Series(catalog.gpu.CLOCK_MAX, (gpu, "sm")): 1_980_000_000,
        Series(catalog.gpu.POWER, (gpu,)): 698_250_000_000,
        Series(catalog.gpu.POWER_LIMIT, (gpu,)): 700_000_000_000,
        Series(catalog.gpu.ENERGY, (gpu,)): 86_400_125_000_000,
        Series(catalog.gpu.TEMPERATURE, (gpu, "memory")): 81,
        Series(catalog.gpu.TEMPERATURE_SLOWDOWN, (gpu,)): 90,
        Series(catalog.gpu.UTILIZATION, (gpu, "gpu")): 970_000_000,
        Series(catalog.gpu.MEMORY, (gpu, "", "reserved")): 536_870_912,
        Series(catalog.gpu.UNTRACED_MEMORY, (gpu, "")): 0,
        Series(catalog.gpu.ECC_ERRORS, (gpu, "corrected")): 3,
        Series(catalog.gpu.REMAPPED_ROWS, (gpu, "uncorrected")): 1,
        Series(catalog.gpu.RETIRED_PAGES, (gpu, "corrected")): 0,
        Series(catalog.gpu.REPAIR, (gpu, "pending")): 1,
        Series(catalog.gpu.XID_ERRORS, (gpu, "94")): 1,
        Series(catalog.gpu.LINK_GENERATION, (gpu, "current")): 5,
        Series(catalog.gpu.LINK_WIDTH, (gpu, "max")): 16,
        Series(catalog.gpu.PCIE_BYTES, (gpu, "sent")): 123_456_789_012,
        Series(catalog.gpu.PCIE_THROUGHPUT, (gpu, "sent")): 1_250_000_000,
        Series(catalog.gpu.PCIE_REPLAYS, (gpu,)): 4,
        Series(catalog.gpu.NVLINK_BYTES, (gpu, "received")): 987_654_321_984,
        Series(catalog.gpu.NVLINK_ERRORS, (gpu, "replay")): 2,
        Series(catalog.gpu.MIG, (gpu,)): 0,
    }


def _snapshot(
    kernel: FakeTables,
    identities: dict[int, Identity],
    lost_ns: int = 0,
    of_places: TotalsByIdentity = NO_TOTALS,
    engines: dict[int, str] | None = None,
) -> Snapshot:
    """lost_ns: to the cause of an open chain of process 2. of_places: what collectors of the machine say. engines: by process."""
    tables = Tables(kernel.maps, kernel.iterate)
    reading = tables.read()
    sched = Sched(tables)
    accounts = sched.update(identities, 1_000_000_000, reading)
    of_threads = sched.totals(accounts, times_by_process(accounts))
    governor = AdaptiveSampler(CallCost(timed_ns=2_000.0, counted_ns=500.0), limit=0.01, launch_mode=LaunchMode.SAMPLED)
    feeding = tables.read_feeding(identities)
    governor.update({process: row._replace(timed_calls=0) for process, row in feeding.items()}, 0)
    governor.update(feeding, 1_000_000_000)
    diagnosis = Detection(tables, sched.progress, _Scripted(lost_ns))
    diagnosis.tick(reading.processes, {}, frozenset(), 1_000_000_000)
    of_chains = diagnosis.totals(identities)
    of_engines = Engines(tables, ("vllm",))
    of_engines.update(engines or {}, 5_200_000_000)
    of_collectors = (collect(reading) for collect in COLLECTORS.values())
    totals = merged([*of_collectors, of_threads, of_chains, of_engines.totals(), governor.totals()])
    for process, row in reading.processes.items():
        labels = (str(row.tgid), row.comm.decode(), *("" for _ in catalog.workload.INFO.labels[2:]))
        totals[process][Series(catalog.workload.INFO, labels)] = 1
    return SeriesStore(900.0, at(0.0)).snapshot(
        totals, identities, at(1_000.0), diagnosis.traces(identities), of_places
    )
