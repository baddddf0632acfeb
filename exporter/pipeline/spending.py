"""What a process has spent its own time on so far: calls by effect, copies, graph captures.

In: Tables, a process number, what its link to the GPU carries. Out: Spending, for a verdict. Reads its rows key by key.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from exporter.chains.chain import Effect
from exporter.chains.spending import Spending
from exporter.chains.thresholds import PAGEABLE_BYTES_PER_NS
from exporter.kernel.abi import Api, Copy, HostMemory, Role, Shape, ThreadState, Victim
from exporter.kernel.gpu_rows import GpuRows
from exporter.kernel.operation_rows import OperationKey, OperationRow
from exporter.kernel.operations import OPERATIONS, Operation
from exporter.kernel.tables import Tables
from exporter.kernel.thread_rows import ThreadRow
from exporter.units import NANOSECONDS

_OF_ROLE = {
    Role.LAUNCH: Effect.LAUNCH,
    Role.SYNC: Effect.SYNC,
    Role.EVENT_SYNC: Effect.SYNC,
    Role.COPY: Effect.MEMCPY,
    Role.QUERY: Effect.SYNC,
}
_OF_SHAPE = (
    dict.fromkeys((Shape.COPY, Shape.COPY_2D), Effect.MEMCPY)
    | dict.fromkeys((Shape.ALLOCATE, Shape.FREE, Shape.PIN, Shape.PIN_AT, Shape.UNPIN), Effect.ALLOC)
    | dict.fromkeys(
        (Shape.CAPTURE_BEGIN, Shape.CAPTURE_END, Shape.GRAPH_INSTANTIATE, Shape.GRAPH_DESTROY, Shape.EXEC_DESTROY),
        Effect.GRAPH,
    )
)


def spending(tables: Tables, number: int, link_bytes_per_second: float = 0.0) -> Spending:
    """Driver calls within a runtime call count as part of it. link_bytes_per_second: 0 if unknown."""
    operations, _ = tables.read_operations_of((number,))
    gpu = tables.read_gpu_of((number,))
    graphs = gpu.graphs.get(number)
    copied_bytes = sum(copy.bytes for copy in gpu.copies.values())
    threads = [thread for thread in tables.read_threads((number,)) if thread.victim is Victim.STEP]
    return Spending(
        _calls_ns(operations),
        _pageable_ns(gpu),
        graphs.capture_ns + graphs.instantiate_ns if graphs else 0,
        round(copied_bytes / link_bytes_per_second * NANOSECONDS) if link_bytes_per_second else 0,
        _between_calls_ns(threads, (ThreadState.ON_CPU,)),
        _between_calls_ns(threads, (ThreadState.SLEEP, ThreadState.CHILD)),
        gpu.kernels.get(number, 0) + (graphs.kernels if graphs else 0),
        sum(copy.bytes for key, copy in gpu.copies.items() if key.direction is Copy.HOST_TO_DEVICE),
    )


def _calls_ns(operations: Mapping[OperationKey, OperationRow]) -> dict[Effect, int]:
    times: dict[Effect, int] = {}
    for key, operation in operations.items():
        effect = effect_of(OPERATIONS[key.operation])
        if effect is not None:
            is_query = OPERATIONS[key.operation].role is Role.QUERY
            spent_ns = sum(operation.states_ns) if is_query else operation.total_ns  # with the time between queries
            times[effect] = times.get(effect, 0) + spent_ns
    return times


def _between_calls_ns(threads: Iterable[ThreadRow], states: Collection[ThreadState]) -> int:
    """Sum over living threads: one that gives the GPU work in every step lives as long as the job."""
    return sum(thread.gaps_ns[state] for thread in threads for state in states)


def _pageable_ns(gpu: GpuRows) -> int:
    """At most the time that the bytes need: a call that copies a few and waits for the GPU before them has waited, not copied."""
    return sum(
        min(copy.total_ns, round(copy.bytes / PAGEABLE_BYTES_PER_NS))
        for key, copy in gpu.copies.items()
        if key.memory is HostMemory.PAGEABLE
    )


def effect_of(operation: Operation) -> Effect | None:
    """What takes longer when calls of it do; None for those that neither work nor wait."""
    if operation.api is Api.NCCL:
        return Effect.COLLECTIVE
    return _OF_SHAPE.get(operation.shape, _OF_ROLE.get(operation.role))
