"""Every probed function: its library, its operation name, and the positions of its arguments.

The name of an operation is the exported symbol without version and suffix; symbols() yields the exported spellings. The number
of an operation is its place in OPERATIONS. The attach cookie carries it, so BPF needs no table of operations.
Signatures: cuda_runtime_api.h and cuda.h of CUDA 11 to 13, nccl.h of NCCL 2.7 to 2.32.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from exporter.kernel.abi import Api, Cookie, Copy, Role, Shape

# `cuMemAlloc_v2`, `cudaMemcpyAsync_ptsz`, `cuMemcpyHtoD_v2_ptds`: ABI versions, and the per-thread default stream.
_VERSIONS = ("", "_v2", "_v3")
_STREAM_SUFFIXES = ("", "_ptsz", "_ptds")


KERNEL_LAUNCHES = frozenset({Shape.LAUNCH, Shape.LAUNCH_SPREAD, Shape.LAUNCH_CONFIG})
"""Shapes of calls that launch one kernel. Partner in C: is_kernel_launch() in bpf/lib/thread.bpf.h."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One probed function. a, b, c, d: argument positions from 1 whose meaning the shape defines; 0: absent."""

    api: Api
    name: str
    shape: Shape = Shape.PLAIN
    a: int = 0
    b: int = 0
    c: int = 0
    d: int = 0
    direction: Copy = Copy.HOST_TO_HOST
    is_handle: bool = False
    is_managed: bool = False
    role: Role = Role.OTHER

    @property
    def can_be_sampled(self) -> bool:
        """Whether its return yields nothing but the duration. Partner in C: can_be_sampled() in bpf/lib/sampling.bpf.h."""
        is_known_at_entry = self.shape is Shape.PLAIN or self.shape in KERNEL_LAUNCHES
        return self.role is Role.LAUNCH and is_known_at_entry and self.api is not Api.NCCL

    @property
    def is_copy(self) -> bool:
        """Also an asynchronous one, which waits for the GPU if its memory is not pinned."""
        return self.shape in {Shape.COPY, Shape.COPY_2D}

    @property
    def may_wait(self) -> bool:
        """Whether a thread waits for the GPU in it, or from one query to the next."""
        return self.is_copy or self.role in {Role.SYNC, Role.EVENT_SYNC, Role.COPY, Role.QUERY}

    @property
    def is_for_event(self) -> bool:
        """Whether later work may still run when it finds its own done."""
        return self.shape is Shape.EVENT_DONE

    @property
    def is_launch(self) -> bool:
        """Whether --probes.launch=off leaves it out."""
        return self.can_be_sampled or self.shape is Shape.GRAPH_LAUNCH

    def symbols(self) -> Iterator[str]:
        """The exported names this operation may have, the plain one first."""
        if self.api is Api.NCCL:
            yield self.name
            return
        for version in _VERSIONS:
            for suffix in _STREAM_SUFFIXES:
                yield self.name + version + suffix

    def cookie(self, number: int) -> int:
        """The 64-bit attach cookie. number: place in OPERATIONS."""
        return (
            number << Cookie.OPERATION
            | self.shape << Cookie.SHAPE
            | self.api << Cookie.API
            | self.direction << Cookie.DIRECTION
            | self.a << Cookie.A
            | self.b << Cookie.B
            | self.c << Cookie.C
            | self.d << Cookie.D
            | self.is_handle << Cookie.HANDLE
            | self.is_managed << Cookie.MANAGED
            | self.role << Cookie.ROLE
        )


def _runtime(name: str, shape: Shape = Shape.PLAIN, **arguments: int) -> Operation:
    return _operation(Api.RUNTIME, "cuda" + name, shape, arguments)


def _driver(name: str, shape: Shape = Shape.PLAIN, **arguments: int) -> Operation:
    return _operation(Api.DRIVER, "cu" + name, shape, arguments)


def _nccl(name: str, shape: Shape = Shape.PLAIN, **arguments: int) -> Operation:
    return _operation(Api.NCCL, "nccl" + name, shape, arguments)


def _operation(api: Api, name: str, shape: Shape, arguments: dict[str, int]) -> Operation:
    direction = Copy(arguments.pop("direction", Copy.HOST_TO_HOST))
    is_handle = bool(arguments.pop("is_handle", 0))
    is_managed = bool(arguments.pop("is_managed", 0))
    role = _role(api, name, shape)
    special = {"direction": direction, "is_handle": is_handle, "is_managed": is_managed, "role": role}
    return Operation(api, name, shape, **special, **arguments)  # type: ignore[arg-type]


def _role(api: Api, name: str, shape: Shape) -> Role:
    """By CUDA's naming: a function that ends in Async only enqueues, a plain Memcpy may wait for the GPU."""
    verb = name.removeprefix("cuda").removeprefix("cu")
    if api is Api.NCCL:
        if name == "ncclCommGetAsyncError":
            return Role.QUERY
        enqueues = shape in {Shape.COLLECTIVE, Shape.SEND_RECEIVE} or name == "ncclGroupEnd"
        return Role.LAUNCH if enqueues else Role.OTHER
    if verb.startswith(("Launch", "GraphLaunch")):
        return Role.LAUNCH
    if verb.startswith(("Memcpy", "Memset")):
        return Role.LAUNCH if verb.endswith("Async") else Role.COPY
    if verb.endswith("Synchronize"):
        return Role.EVENT_SYNC if verb.startswith("Event") else Role.SYNC
    return Role.QUERY if verb.endswith("Query") else Role.OTHER


_RUNTIME = (
    _runtime("Malloc", Shape.ALLOCATE, a=1, b=2),
    _runtime("MallocAsync", Shape.ALLOCATE, a=1, b=2),
    _runtime("MallocFromPoolAsync", Shape.ALLOCATE, a=1, b=2),
    _runtime("MallocManaged", Shape.ALLOCATE, a=1, b=2, is_managed=1),
    _runtime("MallocHost", Shape.PIN, a=1, b=2),
    _runtime("HostAlloc", Shape.PIN, a=1, b=2),
    _runtime("HostRegister", Shape.PIN_AT, a=1, b=2),
    _runtime("Free", Shape.FREE, a=1),
    _runtime("FreeAsync", Shape.FREE, a=1),
    _runtime("FreeHost", Shape.UNPIN, a=1),
    _runtime("HostUnregister", Shape.UNPIN, a=1),
    _runtime("LaunchKernel", Shape.LAUNCH, a=2, b=8),
    _runtime("LaunchKernelExC", Shape.LAUNCH_CONFIG, a=1),
    _runtime("LaunchCooperativeKernel", Shape.LAUNCH, a=2, b=8),
    _runtime("Memcpy", Shape.COPY, a=3, b=4, d=2),
    _runtime("MemcpyAsync", Shape.COPY, a=3, b=4, d=2),
    _runtime("Memcpy2D", Shape.COPY_2D, a=5, b=7, c=6, d=3),
    _runtime("Memcpy2DAsync", Shape.COPY_2D, a=5, b=7, c=6, d=3),
    _runtime("MemcpyPeer", Shape.COPY, a=5, d=3, direction=Copy.PEER),
    _runtime("MemcpyPeerAsync", Shape.COPY, a=5, d=3, direction=Copy.PEER),
    _runtime("Memset"),
    _runtime("MemsetAsync"),
    _runtime("StreamSynchronize", Shape.STREAM_DONE, a=1),
    _runtime("DeviceSynchronize", Shape.DEVICE_DONE),
    _runtime("EventSynchronize", Shape.EVENT_DONE, a=1),
    _runtime("EventRecord", Shape.EVENT_RECORD, a=1, b=2),
    _runtime("EventRecordWithFlags", Shape.EVENT_RECORD, a=1, b=2),
    _runtime("EventQuery", Shape.EVENT_DONE, a=1),
    _runtime("StreamQuery", Shape.STREAM_DONE, a=1),
    _runtime("StreamWaitEvent", Shape.STREAM_WAIT, a=1, b=2),
    _runtime("StreamDestroy", Shape.STREAM_DESTROY, a=1),
    _runtime("EventDestroy", Shape.EVENT_DESTROY, a=1),
    _runtime("StreamBeginCapture", Shape.CAPTURE_BEGIN, a=1),
    _runtime("StreamBeginCaptureToGraph", Shape.CAPTURE_BEGIN, a=1),
    _runtime("StreamEndCapture", Shape.CAPTURE_END, a=1, b=2),
    _runtime("GraphInstantiate", Shape.GRAPH_INSTANTIATE, a=1, b=2),
    _runtime("GraphInstantiateWithFlags", Shape.GRAPH_INSTANTIATE, a=1, b=2),
    _runtime("GraphInstantiateWithParams", Shape.GRAPH_INSTANTIATE, a=1, b=2),
    _runtime("GraphExecUpdate"),
    _runtime("GraphLaunch", Shape.GRAPH_LAUNCH, a=1, b=2),
    _runtime("GraphExecDestroy", Shape.EXEC_DESTROY, a=1),
    _runtime("GraphDestroy", Shape.GRAPH_DESTROY, a=1),
)

_DRIVER = (
    _driver("LaunchKernel", Shape.LAUNCH_SPREAD, a=2, b=9),
    _driver("LaunchKernelEx", Shape.LAUNCH_CONFIG, a=1),
    _driver("LaunchCooperativeKernel", Shape.LAUNCH_SPREAD, a=2, b=9),
    _driver("Memcpy", Shape.COPY, a=3, d=2, direction=Copy.DEFAULT),
    _driver("MemcpyAsync", Shape.COPY, a=3, d=2, direction=Copy.DEFAULT),
    _driver("MemcpyHtoD", Shape.COPY, a=3, d=2, direction=Copy.HOST_TO_DEVICE),
    _driver("MemcpyHtoDAsync", Shape.COPY, a=3, d=2, direction=Copy.HOST_TO_DEVICE),
    _driver("MemcpyDtoH", Shape.COPY, a=3, d=2, direction=Copy.DEVICE_TO_HOST),
    _driver("MemcpyDtoHAsync", Shape.COPY, a=3, d=2, direction=Copy.DEVICE_TO_HOST),
    _driver("MemcpyDtoD", Shape.COPY, a=3, d=2, direction=Copy.DEVICE_TO_DEVICE),
    _driver("MemcpyDtoDAsync", Shape.COPY, a=3, d=2, direction=Copy.DEVICE_TO_DEVICE),
    _driver("MemAlloc", Shape.ALLOCATE, a=1, b=2),
    _driver("MemAllocAsync", Shape.ALLOCATE, a=1, b=2),
    _driver("MemAllocFromPoolAsync", Shape.ALLOCATE, a=1, b=2),
    _driver("MemAllocManaged", Shape.ALLOCATE, a=1, b=2, is_managed=1),
    _driver("MemAllocHost", Shape.PIN, a=1, b=2),
    _driver("MemHostAlloc", Shape.PIN, a=1, b=2),
    _driver("MemHostRegister", Shape.PIN_AT, a=1, b=2),
    _driver("MemFreeHost", Shape.UNPIN, a=1),
    _driver("MemHostUnregister", Shape.UNPIN, a=1),
    _driver("MemFree", Shape.FREE, a=1),
    _driver("MemFreeAsync", Shape.FREE, a=1),
    _driver("MemCreate", Shape.ALLOCATE, a=1, b=2, is_handle=1),
    _driver("MemRelease", Shape.FREE, a=1, is_handle=1),
    _driver("StreamSynchronize", Shape.STREAM_DONE, a=1),
    _driver("CtxSynchronize", Shape.DEVICE_DONE),
    _driver("EventSynchronize", Shape.EVENT_DONE, a=1),
    _driver("EventRecord", Shape.EVENT_RECORD, a=1, b=2),
    _driver("EventQuery", Shape.EVENT_DONE, a=1),
    _driver("StreamQuery", Shape.STREAM_DONE, a=1),
    _driver("StreamWaitEvent", Shape.STREAM_WAIT, a=1, b=2),
    _driver("StreamDestroy", Shape.STREAM_DESTROY, a=1),
    _driver("EventDestroy", Shape.EVENT_DESTROY, a=1),
    _driver("StreamBeginCapture", Shape.CAPTURE_BEGIN, a=1),
    _driver("StreamBeginCaptureToGraph", Shape.CAPTURE_BEGIN, a=1),
    _driver("StreamEndCapture", Shape.CAPTURE_END, a=1, b=2),
    _driver("GraphInstantiate", Shape.GRAPH_INSTANTIATE, a=1, b=2),
    _driver("GraphInstantiateWithFlags", Shape.GRAPH_INSTANTIATE, a=1, b=2),
    _driver("GraphInstantiateWithParams", Shape.GRAPH_INSTANTIATE, a=1, b=2),
    _driver("GraphExecUpdate"),
    _driver("GraphLaunch", Shape.GRAPH_LAUNCH, a=1, b=2),
    _driver("GraphExecDestroy", Shape.EXEC_DESTROY, a=1),
    _driver("GraphDestroy", Shape.GRAPH_DESTROY, a=1),
)

_NCCL = (
    _nccl("CommInitRank", Shape.INIT_RANK, a=1, b=2, c=3),
    _nccl("CommInitRankConfig", Shape.INIT_RANK, a=1, b=2, c=3),
    _nccl("CommInitRankScalable", Shape.INIT_SCALABLE, a=1, b=2, c=3, d=5),
    _nccl("CommInitAll", Shape.INIT_ALL, a=1, b=2),
    _nccl("CommSplit", Shape.SPLIT, a=1, b=2, c=4),
    _nccl("CommShrink", Shape.SHRINK, a=1, b=2, c=3, d=4),
    _nccl("CommGrow", Shape.INIT_SCALABLE, a=5, b=2, c=4, d=3),
    _nccl("CommCount", Shape.COMM_COUNT, a=1, b=2),
    _nccl("CommUserRank", Shape.COMM_RANK, a=1, b=2),
    _nccl("CommFinalize"),
    _nccl("CommDestroy", Shape.COMM_DESTROY, a=1),
    _nccl("CommAbort", Shape.COMM_ABORT, a=1),
    _nccl("CommGetAsyncError"),
    _nccl("GroupStart"),
    _nccl("GroupEnd"),
    # The ...Config forms of NCCL 2.29+ have one more argument at the end, so the positions are the same.
    *(
        _nccl(name + form, Shape.COLLECTIVE, a=count, b=count + 1, c=communicator, d=communicator + 1)
        for name, count, communicator in (
            ("AllReduce", 3, 6),
            ("AllGather", 3, 5),
            ("ReduceScatter", 3, 6),
            ("Broadcast", 3, 6),
            ("Reduce", 3, 7),
            ("AlltoAll", 3, 5),
            ("Gather", 3, 6),
            ("Scatter", 3, 6),
        )
        for form in ("", "Config")
    ),
    _nccl("Bcast", Shape.COLLECTIVE, a=2, b=3, c=5, d=6),
    _nccl("Send", Shape.SEND_RECEIVE, a=2, b=3, c=5, d=6),
    _nccl("Recv", Shape.SEND_RECEIVE, a=2, b=3, c=5, d=6),
)

OPERATIONS: tuple[Operation, ...] = _RUNTIME + _DRIVER + _NCCL
"""Place = operation number in keys and cookies. Numbers are valid for one run only and may change freely."""

NUMBERS: dict[str, int] = {operation.name: number for number, operation in enumerate(OPERATIONS)}


def wanted_symbols(api: Api, *, with_launches: bool = True) -> dict[str, int]:
    """Exported symbol -> attach cookie, for every spelling of every operation of one library.

    with_launches: False leaves out launches of kernels and graphs, and other calls that only enqueue work.
    """
    return {
        symbol: operation.cookie(number)
        for number, operation in enumerate(OPERATIONS)
        if operation.api is api and (with_launches or not operation.is_launch)
        for symbol in operation.symbols()
    }
