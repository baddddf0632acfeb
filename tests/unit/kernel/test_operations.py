"""operations: positions of arguments against the C signatures, and the wanted symbols."""

from __future__ import annotations

import itertools
import re

import pytest

from exporter.kernel.abi import Api, Cookie, Copy, Role, Shape
from exporter.kernel.operations import NUMBERS, OPERATIONS, Operation, wanted_symbols

SIGNATURES = """
cudaMalloc(void **where, size_t bytes)
cudaMallocAsync(void **where, size_t bytes, cudaStream_t stream)
cudaMallocFromPoolAsync(void **where, size_t bytes, cudaMemPool_t pool, cudaStream_t stream)
cudaMallocManaged(void **where, size_t bytes, unsigned flags)
cudaMallocHost(void **where, size_t bytes)
cudaHostAlloc(void **where, size_t bytes, unsigned flags)
cudaHostRegister(void *address, size_t bytes, unsigned flags)
cudaFreeHost(void *address)
cudaHostUnregister(void *address)
cudaLaunchKernel(const void *func, dim3_xy grid, dim3_z grid_z, dim3_xy block, dim3_z block_z, void **args, size_t shared, cudaStream_t stream)
cudaLaunchCooperativeKernel(const void *func, dim3_xy grid, dim3_z grid_z, dim3_xy block, dim3_z block_z, void **args, size_t shared, cudaStream_t stream)
cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *func, void **args)
cuLaunchKernel(CUfunction f, unsigned grid, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream stream, void **params, void **extra)
cuLaunchCooperativeKernel(CUfunction f, unsigned grid, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream stream, void **params)
cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **params, void **extra)
cudaFree(void *address)
cudaFreeAsync(void *address, cudaStream_t stream)
cudaMemcpy(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind)
cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
cudaMemcpy2D(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height, enum cudaMemcpyKind kind)
cudaMemcpy2DAsync(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height, enum cudaMemcpyKind kind, cudaStream_t stream)
cudaMemcpyPeer(void *dst, int dstDevice, const void *src, int srcDevice, size_t bytes)
cudaMemcpyPeerAsync(void *dst, int dstDevice, const void *src, int srcDevice, size_t bytes, cudaStream_t stream)
cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t bytes)
cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)
cuMemcpyHtoD(CUdeviceptr dst, const void *src, size_t bytes)
cuMemcpyHtoDAsync(CUdeviceptr dst, const void *src, size_t bytes, CUstream stream)
cuMemcpyDtoH(void *dst, CUdeviceptr src, size_t bytes)
cuMemcpyDtoHAsync(void *dst, CUdeviceptr src, size_t bytes, CUstream stream)
cuMemcpyDtoD(CUdeviceptr dst, CUdeviceptr src, size_t bytes)
cuMemcpyDtoDAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)
cuMemAlloc(CUdeviceptr *where, size_t bytes)
cuMemAllocAsync(CUdeviceptr *where, size_t bytes, CUstream stream)
cuMemAllocFromPoolAsync(CUdeviceptr *where, size_t bytes, CUmemoryPool pool, CUstream stream)
cuMemAllocManaged(CUdeviceptr *where, size_t bytes, unsigned flags)
cuMemFree(CUdeviceptr address)
cuMemFreeAsync(CUdeviceptr address, CUstream stream)
cuMemCreate(CUmemGenericAllocationHandle *where, size_t bytes, const CUmemAllocationProp *prop, unsigned long long flags)
cuMemRelease(CUmemGenericAllocationHandle address)
cudaStreamSynchronize(cudaStream_t stream)
cudaStreamQuery(cudaStream_t stream)
cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
cudaStreamDestroy(cudaStream_t stream)
cudaDeviceSynchronize(void)
cudaEventSynchronize(cudaEvent_t event)
cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags)
cudaEventQuery(cudaEvent_t event)
cudaEventDestroy(cudaEvent_t event)
cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t into, const cudaGraphNode_t *nodes, const cudaGraphEdgeData *edges, size_t count, enum cudaStreamCaptureMode mode)
cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *where)
cudaGraphInstantiate(cudaGraphExec_t *where, cudaGraph_t graph, unsigned long long flags)
cudaGraphInstantiateWithFlags(cudaGraphExec_t *where, cudaGraph_t graph, unsigned long long flags)
cudaGraphInstantiateWithParams(cudaGraphExec_t *where, cudaGraph_t graph, cudaGraphInstantiateParams *params)
cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
cudaGraphExecDestroy(cudaGraphExec_t exec)
cudaGraphDestroy(cudaGraph_t graph)
cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode)
cuStreamBeginCaptureToGraph(CUstream stream, CUgraph into, const CUgraphNode *nodes, const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode)
cuStreamEndCapture(CUstream stream, CUgraph *where)
cuGraphInstantiate(CUgraphExec *where, CUgraph graph, unsigned long long flags)
cuGraphInstantiateWithFlags(CUgraphExec *where, CUgraph graph, unsigned long long flags)
cuGraphInstantiateWithParams(CUgraphExec *where, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params)
cuGraphLaunch(CUgraphExec exec, CUstream stream)
cuGraphExecDestroy(CUgraphExec exec)
cuGraphDestroy(CUgraph graph)
cuMemAllocHost(void **where, size_t bytes)
cuMemHostAlloc(void **where, size_t bytes, unsigned flags)
cuMemHostRegister(void *address, size_t bytes, unsigned flags)
cuMemFreeHost(void *address)
cuMemHostUnregister(void *address)
cuStreamSynchronize(CUstream stream)
cuStreamQuery(CUstream stream)
cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
cuStreamDestroy(CUstream stream)
cuCtxSynchronize(void)
cuEventSynchronize(CUevent event)
cuEventRecord(CUevent event, CUstream stream)
cuEventQuery(CUevent event)
cuEventDestroy(CUevent event)
ncclCommInitRank(ncclComm_t *newcomm, int nranks, ncclUniqueId by_value, int rank)
ncclCommInitRankConfig(ncclComm_t *newcomm, int nranks, ncclUniqueId by_value, int rank, ncclConfig_t *config)
ncclCommInitRankScalable(ncclComm_t *newcomm, int nranks, int rank, int nId, ncclUniqueId *ids, ncclConfig_t *config)
ncclCommInitAll(ncclComm_t *newcomm, int ndev, const int *devlist)
ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config)
ncclCommShrink(ncclComm_t comm, int *excluded, int excludedCount, ncclComm_t *newcomm, ncclConfig_t *config, int flags)
ncclCommGrow(ncclComm_t comm, int nranks, const ncclUniqueId *ids, int rank, ncclComm_t *newcomm, ncclConfig_t *config)
ncclCommCount(ncclComm_t comm, int *where)
ncclCommUserRank(ncclComm_t comm, int *where)
ncclCommDestroy(ncclComm_t comm)
ncclCommAbort(ncclComm_t comm)
ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
ncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream)
ncclReduceScatter(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
ncclBroadcast(const void *send, void *recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream)
ncclBcast(void *buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream)
ncclReduce(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
ncclAlltoAll(const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream)
ncclGather(const void *send, void *recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream)
ncclScatter(const void *send, void *recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream)
ncclSend(const void *send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
ncclRecv(void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
"""  # noqa: E501 - a signature is a line; names of parameters are those that PARAMETERS asks for

PARAMETERS = {
    Shape.ALLOCATE: ("where", "bytes", "", ""),
    Shape.FREE: ("address", "", "", ""),
    Shape.COPY: ("bytes", "kind", "", "src"),
    Shape.COPY_2D: ("width", "kind", "height", "src"),
    Shape.COLLECTIVE: ("count", "type", "comm", "stream"),
    Shape.SEND_RECEIVE: ("count", "type", "comm", "stream"),
    Shape.INIT_RANK: ("newcomm", "nranks", "rank", ""),
    Shape.INIT_SCALABLE: ("newcomm", "nranks", "rank", "ids"),
    Shape.INIT_ALL: ("newcomm", "ndev", "", ""),
    Shape.SPLIT: ("comm", "color", "newcomm", ""),
    Shape.SHRINK: ("comm", "excluded", "excludedCount", "newcomm"),
    Shape.COMM_COUNT: ("comm", "where", "", ""),
    Shape.COMM_RANK: ("comm", "where", "", ""),
    Shape.COMM_DESTROY: ("comm", "", "", ""),
    Shape.COMM_ABORT: ("comm", "", "", ""),
    Shape.EVENT_RECORD: ("event", "stream", "", ""),
    Shape.STREAM_WAIT: ("stream", "event", "", ""),
    Shape.STREAM_DONE: ("stream", "", "", ""),
    Shape.EVENT_DONE: ("event", "", "", ""),
    Shape.DEVICE_DONE: ("", "", "", ""),
    Shape.STREAM_DESTROY: ("stream", "", "", ""),
    Shape.EVENT_DESTROY: ("event", "", "", ""),
    Shape.CAPTURE_BEGIN: ("stream", "", "", ""),
    Shape.CAPTURE_END: ("stream", "where", "", ""),
    Shape.PIN: ("where", "bytes", "", ""),
    Shape.PIN_AT: ("address", "bytes", "", ""),
    Shape.UNPIN: ("address", "", "", ""),
    Shape.LAUNCH: ("grid", "stream", "", ""),
    Shape.LAUNCH_SPREAD: ("grid", "stream", "", ""),
    Shape.LAUNCH_CONFIG: ("config", "", "", ""),
    Shape.GRAPH_INSTANTIATE: ("where", "graph", "", ""),
    Shape.GRAPH_LAUNCH: ("exec", "stream", "", ""),
    Shape.GRAPH_DESTROY: ("graph", "", "", ""),
    Shape.EXEC_DESTROY: ("exec", "", "", ""),
}
"""Shape -> the parameters at a, b, c and d; see `enum shape` in bpf/abi/call.h."""

HOOKED_BY_DESIGN = """
 cudaMalloc cudaMallocAsync cudaMallocManaged cudaHostAlloc cudaFree cudaFreeAsync cudaLaunchKernel
cudaLaunchKernelExC cudaLaunchCooperativeKernel cudaMemcpy cudaMemcpyAsync cudaMemcpy2D cudaMemcpy2DAsync
cudaMemcpyPeer cudaMemcpyPeerAsync cudaMemset cudaMemsetAsync cudaStreamSynchronize cudaDeviceSynchronize
cudaEventSynchronize cudaEventRecord cudaEventQuery cudaStreamQuery cudaStreamWaitEvent cudaEventDestroy
cudaStreamBeginCapture cudaStreamEndCapture cudaGraphInstantiate cudaGraphLaunch cuLaunchKernel
cuLaunchKernelEx cuMemcpyHtoD cuMemcpyDtoH cuMemcpyDtoD cuMemcpyAsync cuMemcpyHtoDAsync cuMemcpyDtoHAsync
cuMemcpyDtoDAsync cuMemAlloc cuMemAllocAsync cuMemAllocManaged cuMemFree cuMemCreate cuStreamSynchronize
cuCtxSynchronize cuEventSynchronize cuEventRecord cuEventQuery cuStreamWaitEvent cuGraphLaunch
ncclCommInitRank ncclCommInitRankConfig ncclCommInitRankScalable ncclCommInitAll ncclCommSplit ncclCommDestroy
ncclCommAbort ncclCommGetAsyncError ncclAllReduce ncclAllGather ncclReduceScatter ncclBroadcast ncclBcast
ncclReduce ncclSend ncclRecv ncclAlltoAll ncclGroupStart ncclGroupEnd
"""


def operation(name: str) -> Operation:
    return OPERATIONS[NUMBERS[name]]


def positions() -> list[tuple[str, tuple[str, ...]]]:
    """[("cudaMalloc", ("where", "bytes")), ...], without structs by value, which use no register on x86-64."""
    found = []
    for line in SIGNATURES.strip().splitlines():
        name, arguments = re.fullmatch(r"(\w+)\((.*)\)", line).groups()  # type: ignore[union-attr]
        names = (re.split(r"[ *]", argument)[-1] for argument in arguments.split(", "))
        found.append((name, tuple(name for name in names if name != "by_value")))
    return found


class TestPositions:
    @pytest.mark.parametrize(
        ("name", "parameters"), positions(), ids=lambda value: value if isinstance(value, str) else ""
    )
    def test_positions_are_those_of_the_signature(self, name: str, parameters: tuple[str, ...]) -> None:
        """Absent arguments are 0."""
        found = operation(name)
        wanted = PARAMETERS[found.shape]

        expected = tuple(parameters.index(one) + 1 if one in parameters else 0 for one in wanted)
        assert (found.a, found.b, found.c, found.d) == expected

    def test_every_operation_with_a_shape_has_a_signature_here(self) -> None:
        """The ...Config forms of collectives have the positions of the plain ones."""
        shaped = {one.name.removesuffix("Config") for one in OPERATIONS if one.shape is not Shape.PLAIN}

        assert shaped == {name.removesuffix("Config") for name, _ in positions()}

    def test_config_forms_have_the_positions_of_the_plain_ones(self) -> None:
        """NCCL 2.29 added a pointer after the stream."""
        plain, config = operation("ncclAllReduce"), operation("ncclAllReduceConfig")

        assert (config.shape, config.a, config.b, config.c) == (plain.shape, plain.a, plain.b, plain.c)
        assert config.d == plain.d == 7

    @pytest.mark.parametrize(
        ("name", "direction"),
        [
            ("cudaMemcpyPeer", Copy.PEER),
            ("cudaMemcpyPeerAsync", Copy.PEER),
            ("cuMemcpy", Copy.DEFAULT),
            ("cuMemcpyAsync", Copy.DEFAULT),
            ("cuMemcpyHtoD", Copy.HOST_TO_DEVICE),
            ("cuMemcpyHtoDAsync", Copy.HOST_TO_DEVICE),
            ("cuMemcpyDtoH", Copy.DEVICE_TO_HOST),
            ("cuMemcpyDtoHAsync", Copy.DEVICE_TO_HOST),
            ("cuMemcpyDtoD", Copy.DEVICE_TO_DEVICE),
            ("cuMemcpyDtoDAsync", Copy.DEVICE_TO_DEVICE),
        ],
    )
    def test_copy_without_a_kind_has_a_fixed_direction(self, name: str, direction: Copy) -> None:
        assert operation(name).direction is direction

    def test_only_physical_allocations_are_handles(self) -> None:
        """A handle of cuMemCreate may equal an address."""
        assert {one.name for one in OPERATIONS if one.is_handle} == {"cuMemCreate", "cuMemRelease"}

    def test_only_managed_allocations_are_managed(self) -> None:
        assert {one.name for one in OPERATIONS if one.is_managed} == {"cudaMallocManaged", "cuMemAllocManaged"}

    def test_destination_of_every_copy_is_the_first_argument(self) -> None:
        """COPY_DESTINATION in bpf/cuda.bpf.c."""
        copies = [name for name, parameters in positions() if parameters and parameters[0] == "dst"]

        assert set(copies) == {one.name for one in OPERATIONS if one.shape in (Shape.COPY, Shape.COPY_2D)}


class TestSymbols:
    def test_plain_name_comes_first(self) -> None:
        """The first of two symbols at one address is reported."""
        assert next(operation("cuMemAlloc").symbols()) == "cuMemAlloc"

    @pytest.mark.parametrize(
        ("name", "symbol"),
        [
            ("cuMemAlloc", "cuMemAlloc_v2"),
            ("cuMemcpyHtoDAsync", "cuMemcpyHtoDAsync_v2_ptsz"),
            ("cuMemcpyDtoH", "cuMemcpyDtoH_v2_ptds"),
            ("cudaMemcpyAsync", "cudaMemcpyAsync_ptsz"),
            ("cudaMemcpy", "cudaMemcpy_ptds"),
            ("ncclAllReduce", "ncclAllReduce"),
        ],
    )
    def test_versions_and_per_thread_streams_are_spellings(self, name: str, symbol: str) -> None:
        """ABI versions, and the per-thread default stream."""
        spellings = list(operation(name).symbols())

        assert symbol in spellings

    def test_nccl_operation_has_one_symbol(self) -> None:
        """pncclAllReduce has the same address and is probed once."""
        assert list(operation("ncclAllReduce").symbols()) == ["ncclAllReduce"]

    def test_no_two_operations_share_a_symbol(self) -> None:
        """Otherwise one would be counted as the other."""
        symbols = list(itertools.chain.from_iterable(one.symbols() for one in OPERATIONS))

        assert len(symbols) == len(set(symbols))

    def test_wanted_symbols_are_those_of_one_library(self) -> None:
        """libcudart does not export cuMemAlloc; libtorch_cuda.so may export both."""
        wanted = wanted_symbols(Api.RUNTIME)

        assert "cudaMalloc" in wanted
        assert not [symbol for symbol in wanted if not symbol.startswith("cuda")]

    def test_name_has_the_prefix_of_its_library(self) -> None:
        prefixes = {Api.RUNTIME: "cuda", Api.DRIVER: "cu", Api.NCCL: "nccl"}

        assert all(one.name.startswith(prefixes[one.api]) for one in OPERATIONS)
        assert not [one.name for one in OPERATIONS if one.api is Api.DRIVER and one.name.startswith("cuda")]


class TestCookies:
    """The attach cookie."""

    def test_cookie_has_the_layout_of_the_header(self) -> None:
        """Operation 0x1234, COPY_2D, driver, direction 2; a to d are 5, 7, 6, 15; a handle."""
        made = Operation(
            Api.DRIVER, "x", Shape.COPY_2D, a=5, b=7, c=6, d=15, direction=Copy.DEVICE_TO_HOST, is_handle=True
        )

        assert made.cookie(0x1234) == 0x0001_F675_2104_1234

    def test_every_field_of_every_operation_fits(self) -> None:
        """16 bits of operation, 8 of shape, 4 of everything else."""
        assert len(OPERATIONS) <= 1 << (Cookie.SHAPE - Cookie.OPERATION)
        assert max(Shape) < 1 << (Cookie.API - Cookie.SHAPE)
        assert max(Api) < 1 << (Cookie.DIRECTION - Cookie.API)
        assert max(Copy) < 1 << (Cookie.A - Cookie.DIRECTION)
        assert max(max(one.a, one.b, one.c, one.d) for one in OPERATIONS) < 1 << 4

    def test_number_is_the_place_in_operations(self) -> None:
        """And the low 16 bits of the cookie."""
        assert [NUMBERS[one.name] for one in OPERATIONS] == list(range(len(OPERATIONS)))
        assert wanted_symbols(Api.NCCL)["ncclSend"] & 0xFFFF == NUMBERS["ncclSend"]


class TestCoverage:
    """Operations that users expect."""

    @pytest.mark.parametrize("name", HOOKED_BY_DESIGN.split())
    def test_operation_is_probed(self, name: str) -> None:
        assert name in NUMBERS


ROLES = {
    Role.LAUNCH: """
cudaLaunchKernel cudaLaunchKernelExC cudaLaunchCooperativeKernel cudaGraphLaunch cudaMemcpyAsync cudaMemcpy2DAsync
cudaMemcpyPeerAsync cudaMemsetAsync cuLaunchKernel cuLaunchKernelEx cuLaunchCooperativeKernel cuGraphLaunch cuMemcpyAsync
cuMemcpyHtoDAsync cuMemcpyDtoHAsync cuMemcpyDtoDAsync ncclGroupEnd ncclAllReduce ncclAllReduceConfig ncclAllGather
ncclAllGatherConfig ncclReduceScatter ncclReduceScatterConfig ncclBroadcast ncclBroadcastConfig ncclBcast ncclReduce
ncclReduceConfig ncclAlltoAll ncclAlltoAllConfig ncclGather ncclGatherConfig ncclScatter ncclScatterConfig ncclSend ncclRecv
""",
    Role.SYNC: "cudaStreamSynchronize cudaDeviceSynchronize cuStreamSynchronize cuCtxSynchronize",
    Role.EVENT_SYNC: "cudaEventSynchronize cuEventSynchronize",
    Role.COPY: "cudaMemcpy cudaMemcpy2D cudaMemcpyPeer cudaMemset cuMemcpy cuMemcpyHtoD cuMemcpyDtoH cuMemcpyDtoD",
    Role.QUERY: "cudaEventQuery cudaStreamQuery cuEventQuery cuStreamQuery ncclCommGetAsyncError",
}


class TestRoles:
    """What a call does for the GPU."""

    @pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
    def test_these_have_the_role_and_no_other(self, role: Role) -> None:
        """Written out; all other calls have Role.OTHER."""
        assert {one.name for one in OPERATIONS if one.role is role} == set(ROLES[role].split())

    def test_role_is_in_the_cookie(self) -> None:
        """Four bits from bit 52."""
        number = NUMBERS["cudaEventSynchronize"]

        assert OPERATIONS[number].cookie(number) >> 52 & 15 == 5
