// SPDX-License-Identifier: Apache-2.0
//
// Orders for the runtime and the driver. The name of an order is the function to call. Other calls that it needs, such as a
// kernel before a synchronisation, are counted too.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls/calls.h"
#include "program/truth.h"

static const dim3 one = {1, 1, 1};

// 6x4x2/32x8x1 is a grid and a block; without an option both are 1x1x1.
static void sizes_of(const struct order *order, dim3 *grid, dim3 *block)
{
    *grid = *block = one;
    sscanf(order->option, "%ux%ux%u/%ux%ux%u", &grid->x, &grid->y, &grid->z, &block->x, &block->y, &block->z);
}

static CUdeviceptr as_device(const void *pointer)
{
    return (uintptr_t)pointer;
}

void launch_timed(struct context *context, int64_t amount)
{
    uint64_t duration_ns = (uint64_t)amount;
    void *arguments[] = {&duration_ns};

    CALL(cudaLaunchKernel, standin_timed_kernel(), one, one, arguments, 0, context->stream);
}

void cuda_prepare(struct context *context, size_t bytes, int64_t kernel_ns)
{
    uint64_t duration_ns = (uint64_t)kernel_ns;
    void *arguments[] = {&duration_ns};
    cudaGraph_t graph;

    bytes = bytes < 4096 ? 4096 : bytes;
    CALL(cudaSetDevice, context->rank % 8);
    CALL(cudaStreamCreateWithFlags, &context->stream, cudaStreamNonBlocking);
    CALL(cudaEventCreate, &context->event);
    CALL(cudaMalloc, (void **)&context->device, bytes);
    CALL(cudaMalloc, (void **)&context->other_device, bytes);
    CALL(cudaMallocHost, (void **)&context->pinned, bytes);
    context->pageable = calloc(1, bytes);
    CALL(cudaStreamBeginCapture, context->stream, cudaStreamCaptureModeThreadLocal);
    CALL(cudaLaunchKernel, standin_timed_kernel(), one, one, arguments, 0, context->stream);
    CALL(cudaStreamEndCapture, context->stream, &graph);
    CALL(cudaGraphInstantiate, &context->graph, graph, 0);
}

static void keep(struct context *context, int result, void *pointer)
{
    if (result == 0 && context->keeps < KEPT)
        context->kept[context->keeps++] = pointer;
}

static void *kept(struct context *context)
{
    return context->keeps > 0 ? context->kept[--context->keeps] : NULL;
}

struct ends {
    void *to;
    const void *from;
    int kind;
    enum direction direction;
};

// Options: h2d (the default), d2h, d2d, h2h. A p makes the host side pageable: ph2d, d2ph. A k puts it into the middle of the
// latest allocation: kh2d, d2kh.
static struct ends ends_of(const struct context *context, const char *option, size_t bytes)
{
    char *host = strchr(option, 'p') ? context->pageable : context->pinned;

    if (strchr(option, 'k') && context->keeps > 0)
        host = (char *)context->kept[context->keeps - 1] + bytes;

    if (strncmp(option, "d2d", 3) == 0)
        return (struct ends){context->other_device, context->device, cudaMemcpyDeviceToDevice, D2D};
    if (strncmp(option, "d2", 2) == 0)
        return (struct ends){host, context->device, cudaMemcpyDeviceToHost, D2H};
    if (strcmp(option, "h2h") == 0)
        return (struct ends){context->pageable, context->pinned, cudaMemcpyHostToHost, H2H};
    return (struct ends){context->device, host, cudaMemcpyHostToDevice, H2D};
}

static void copied(int result, enum direction direction, size_t bytes)
{
    if (result == 0)
        counted_copy(direction, bytes);
}

static bool copy_once(struct context *context, const struct order *order)
{
    const char *name = order->name;
    size_t bytes = (size_t)order->amount, row = bytes / 4;
    struct ends ends = ends_of(context, order->option, bytes);

    if (strcmp(name, "cudaMemcpy") == 0)
        copied(CALL(cudaMemcpy, ends.to, ends.from, bytes, ends.kind), ends.direction, bytes);
    else if (strcmp(name, "cudaMemcpyAsync") == 0)
        copied(CALL(cudaMemcpyAsync, ends.to, ends.from, bytes, ends.kind, context->stream), ends.direction, bytes);
    else if (strcmp(name, "cudaMemcpyAsync_ptsz") == 0)
        copied(CALL(cudaMemcpyAsync_ptsz, ends.to, ends.from, bytes, ends.kind, NULL), ends.direction, bytes);
    else if (strcmp(name, "cudaMemcpy2D") == 0)
        copied(CALL(cudaMemcpy2D, ends.to, row, ends.from, row, row, 4, ends.kind), ends.direction, 4 * row);
    else if (strcmp(name, "cudaMemcpy2DAsync") == 0)
        copied(CALL(cudaMemcpy2DAsync, ends.to, row, ends.from, row, row, 4, ends.kind, context->stream),
               ends.direction, 4 * row);
    else if (strcmp(name, "cudaMemcpyPeer") == 0)
        copied(CALL(cudaMemcpyPeer, context->other_device, 0, context->device, 0, bytes), D2D, bytes);
    else if (strcmp(name, "cudaMemcpyPeerAsync") == 0)
        copied(CALL(cudaMemcpyPeerAsync, context->other_device, 0, context->device, 0, bytes, context->stream), D2D, bytes);
    else if (strcmp(name, "cudaMemset") == 0)
        CALL(cudaMemset, context->device, 0, bytes);
    else if (strcmp(name, "cudaMemsetAsync") == 0)
        CALL(cudaMemsetAsync, context->device, 0, bytes, context->stream);
    else
        return false;
    return true;
}

static bool driver_copy_once(struct context *context, const struct order *order)
{
    const char *name = order->name;
    size_t bytes = (size_t)order->amount;
    CUdeviceptr device = as_device(context->device), other = as_device(context->other_device);

    if (strcmp(name, "cuMemcpy") == 0)
        copied(CALL(cuMemcpy, other, device, bytes), D2D, bytes);
    else if (strcmp(name, "cuMemcpyAsync") == 0)
        copied(CALL(cuMemcpyAsync, other, device, bytes, context->stream), D2D, bytes);
    else if (strcmp(name, "cuMemcpyHtoD_v2") == 0)
        copied(CALL(cuMemcpyHtoD_v2, device, context->pinned, bytes), H2D, bytes);
    else if (strcmp(name, "cuMemcpyHtoDAsync_v2") == 0)
        copied(CALL(cuMemcpyHtoDAsync_v2, device, context->pinned, bytes, context->stream), H2D, bytes);
    else if (strcmp(name, "cuMemcpyDtoH_v2") == 0)
        copied(CALL(cuMemcpyDtoH_v2, context->pinned, device, bytes), D2H, bytes);
    else if (strcmp(name, "cuMemcpyDtoHAsync_v2") == 0)
        copied(CALL(cuMemcpyDtoHAsync_v2, context->pinned, device, bytes, context->stream), D2H, bytes);
    else if (strcmp(name, "cuMemcpyDtoD_v2") == 0)
        copied(CALL(cuMemcpyDtoD_v2, other, device, bytes), D2D, bytes);
    else if (strcmp(name, "cuMemcpyDtoDAsync_v2") == 0)
        copied(CALL(cuMemcpyDtoDAsync_v2, other, device, bytes, context->stream), D2D, bytes);
    else if (strcmp(name, "cuMemsetD8_v2") == 0)
        CALL(cuMemsetD8_v2, device, 0, bytes);
    else if (strcmp(name, "cuMemsetD8Async") == 0)
        CALL(cuMemsetD8Async, device, 0, bytes, context->stream);
    else
        return false;
    return true;
}

// Allocations through the runtime or the driver. The memory is kept for the freeing calls.
static bool allocate_new(struct context *context, const struct order *order)
{
    const char *name = order->name;
    size_t bytes = (size_t)order->amount;
    void *pointer = NULL;
    CUdeviceptr address = 0;
    int result;

    if (strcmp(name, "cudaMalloc") == 0)
        result = CALL(cudaMalloc, &pointer, bytes);
    else if (strcmp(name, "cudaMallocAsync") == 0)
        result = CALL(cudaMallocAsync, &pointer, bytes, context->stream);
    else if (strcmp(name, "cudaMallocManaged") == 0)
        result = CALL(cudaMallocManaged, &pointer, bytes, cudaMemAttachGlobal);
    else if (strcmp(name, "cudaHostAlloc") == 0)
        result = CALL(cudaHostAlloc, &pointer, bytes, 0);
    else if (strcmp(name, "cudaMallocHost") == 0)
        result = CALL(cudaMallocHost, &pointer, bytes);
    else if (strcmp(name, "cudaHostRegister") == 0)
        result = CALL(cudaHostRegister, pointer = calloc(1, bytes), bytes, 0);
    else if (strcmp(name, "cuMemAlloc_v2") == 0)
        result = CALL(cuMemAlloc_v2, &address, bytes);
    else if (strcmp(name, "cuMemAllocAsync") == 0)
        result = CALL(cuMemAllocAsync, &address, bytes, context->stream);
    else if (strcmp(name, "cuMemAllocManaged") == 0)
        result = CALL(cuMemAllocManaged, &address, bytes, 1);
    else if (strcmp(name, "cuMemHostAlloc") == 0)
        result = CALL(cuMemHostAlloc, &pointer, bytes, 0);
    else if (strcmp(name, "cuMemCreate") == 0)
        result = CALL(cuMemCreate, (uint64_t *)&address, bytes, NULL, 0);
    else
        return false;
    keep(context, result, pointer ? pointer : (void *)(uintptr_t)address);
    return true;
}

static bool free_kept(struct context *context, const struct order *order)
{
    const char *name = order->name;

    if (strcmp(name, "cudaFree") == 0)
        CALL(cudaFree, kept(context));
    else if (strcmp(name, "cudaFreeAsync") == 0)
        CALL(cudaFreeAsync, kept(context), context->stream);
    else if (strcmp(name, "cudaFreeHost") == 0)
        CALL(cudaFreeHost, kept(context));
    else if (strcmp(name, "cudaHostUnregister") == 0)
        CALL(cudaHostUnregister, kept(context));
    else if (strcmp(name, "cuMemFree_v2") == 0)
        CALL(cuMemFree_v2, as_device(kept(context)));
    else if (strcmp(name, "cuMemFreeAsync") == 0)
        CALL(cuMemFreeAsync, as_device(kept(context)), context->stream);
    else if (strcmp(name, "cuMemFreeHost") == 0)
        CALL(cuMemFreeHost, kept(context));
    else if (strcmp(name, "cuMemRelease") == 0)
        CALL(cuMemRelease, as_device(kept(context)));
    else
        return false;
    return true;
}

static bool launch_once(struct context *context, const struct order *order)
{
    const char *name = order->name;
    uint64_t duration_ns = (uint64_t)order->amount;
    void *arguments[] = {&duration_ns};
    dim3 grid, block;
    const void *kernel = standin_timed_kernel();

    sizes_of(order, &grid, &block);
    cudaLaunchConfig_t config = {grid, block, 0, context->stream, NULL, 0};
    CUlaunchConfig driver_config = {grid.x, grid.y, grid.z, block.x, block.y, block.z, 0, context->stream, NULL, 0};

    if (strcmp(name, "cudaLaunchKernel") == 0)
        CALL(cudaLaunchKernel, kernel, grid, block, arguments, 0, context->stream);
    else if (strcmp(name, "cudaLaunchKernel_ptsz") == 0)
        CALL(cudaLaunchKernel_ptsz, kernel, grid, block, arguments, 0, NULL);
    else if (strcmp(name, "cudaLaunchKernelExC") == 0)
        CALL(cudaLaunchKernelExC, &config, kernel, arguments);
    else if (strcmp(name, "cudaLaunchCooperativeKernel") == 0)
        CALL(cudaLaunchCooperativeKernel, kernel, grid, block, arguments, 0, context->stream);
    else if (strcmp(name, "cudaGraphLaunch") == 0)
        CALL(cudaGraphLaunch, context->graph, context->stream);
    else if (strcmp(name, "cuGraphLaunch") == 0)
        CALL(cuGraphLaunch, context->graph, context->stream);
    else if (strcmp(name, "cuLaunchKernel") == 0)
        CALL(cuLaunchKernel, (CUfunction)kernel, grid.x, grid.y, grid.z, block.x, block.y, block.z, 0, context->stream,
             arguments, NULL);
    else if (strcmp(name, "cuLaunchKernel_ptsz") == 0)
        CALL(cuLaunchKernel_ptsz, (CUfunction)kernel, grid.x, grid.y, grid.z, block.x, block.y, block.z, 0, NULL,
             arguments, NULL);
    else if (strcmp(name, "cuLaunchKernelEx") == 0)
        CALL(cuLaunchKernelEx, &driver_config, (CUfunction)kernel, arguments, NULL);
    else
        return false;
    return true;
}

// Captures one kernel, or as many as the option says, and instantiates the graph.
static cudaGraphExec_t captured(struct context *context, const struct order *order)
{
    int kernels = order->option[0] ? atoi(order->option) : 1;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    int status;

    CALL(cudaStreamBeginCapture, context->stream, cudaStreamCaptureModeThreadLocal);
    for (int i = 0; i < kernels; i++)
        launch_timed(context, order->amount);
    CALL(cudaStreamIsCapturing, context->stream, &status);
    CALL(cudaStreamEndCapture, context->stream, &graph);
    CALL(cudaGraphInstantiate, &exec, graph, 0);
    CALL(cudaGraphDestroy, graph);
    return exec;
}

// Part of the capture is enqueued on a second stream, which waits for the first one and is then waited for by it.
static void capture_two_streams(struct context *context, const struct order *order)
{
    uint64_t duration_ns = (uint64_t)order->amount;
    void *arguments[] = {&duration_ns};
    cudaEvent_t fork, join;
    cudaStream_t other;
    cudaGraph_t graph = NULL;

    CALL(cudaEventCreate, &fork);
    CALL(cudaEventCreate, &join);
    CALL(cudaStreamCreateWithFlags, &other, cudaStreamNonBlocking);
    CALL(cudaStreamBeginCapture, context->stream, cudaStreamCaptureModeThreadLocal);
    launch_timed(context, order->amount);
    CALL(cudaEventRecord, fork, context->stream);
    CALL(cudaStreamWaitEvent, other, fork, 0);
    CALL(cudaLaunchKernel, standin_timed_kernel(), one, one, arguments, 0, other);
    CALL(cudaEventRecord, join, other);
    CALL(cudaStreamWaitEvent, context->stream, join, 0);
    CALL(cudaStreamEndCapture, context->stream, &graph);
    CALL(cudaGraphInstantiate, &context->graph, graph, 0);
    CALL(cudaLaunchKernel, standin_timed_kernel(), one, one, arguments, 0, other);
    CALL(cudaGraphLaunch, context->graph, context->stream);
}

static void capture_once(struct context *context, const struct order *order)
{
    const char *name = order->name;
    cudaStream_t stream;

    if (strcmp(name, "abandon") == 0) {
        CALL(cudaStreamCreateWithFlags, &stream, cudaStreamNonBlocking);
        CALL(cudaStreamBeginCapture, stream, cudaStreamCaptureModeThreadLocal);
    } else if (strcmp(name, "branch") == 0) {
        capture_two_streams(context, order);
    } else {
        cudaGraphExec_t exec = captured(context, order);

        if (strcmp(name, "replay") == 0)
            CALL(cudaGraphLaunch, exec, context->stream);
        CALL(cudaGraphExecDestroy, exec);
    }
}

// Waits and queries. With an amount, a kernel of that length is launched before each, so that there is something to wait for.
static bool wait_once(struct context *context, const struct order *order)
{
    const char *name = order->name;

    if (strstr(name, "Synchronize") && order->amount > 0)
        launch_timed(context, order->amount);
    if (strcmp(name, "cudaStreamSynchronize") == 0) {
        CALL(cudaStreamSynchronize, context->stream);
    } else if (strcmp(name, "cudaStreamSynchronize_ptsz") == 0) {
        CALL(cudaStreamSynchronize_ptsz, NULL);
    } else if (strcmp(name, "cudaDeviceSynchronize") == 0) {
        CALL(cudaDeviceSynchronize);
    } else if (strcmp(name, "cudaEventSynchronize") == 0) {
        CALL(cudaEventRecord, context->event, context->stream);
        CALL(cudaEventSynchronize, context->event);
    } else if (strcmp(name, "cuStreamSynchronize") == 0) {
        CALL(cuStreamSynchronize, context->stream);
    } else if (strcmp(name, "cuCtxSynchronize") == 0) {
        CALL(cuCtxSynchronize);
    } else if (strcmp(name, "cuEventSynchronize") == 0) {
        CALL(cuEventRecord, context->event, context->stream);
        CALL(cuEventSynchronize, context->event);
    } else if (strcmp(name, "cudaStreamQuery") == 0) {
        CALL(cudaStreamQuery, context->stream);
    } else if (strcmp(name, "cudaEventQuery") == 0) {
        CALL(cudaEventQuery, context->event);
    } else if (strcmp(name, "cudaEventRecord") == 0) {
        CALL(cudaEventRecord, context->event, context->stream);
    } else if (strcmp(name, "cudaStreamWaitEvent") == 0) {
        CALL(cudaStreamWaitEvent, context->stream, context->event, 0);
    } else if (strcmp(name, "cuStreamQuery") == 0) {
        CALL(cuStreamQuery, context->stream);
    } else if (strcmp(name, "cuEventQuery") == 0) {
        CALL(cuEventQuery, context->event);
    } else if (strcmp(name, "cuEventRecord") == 0) {
        CALL(cuEventRecord, context->event, context->stream);
    } else if (strcmp(name, "cuStreamWaitEvent") == 0) {
        CALL(cuStreamWaitEvent, context->stream, context->event, 0);
    } else {
        return false;
    }
    return true;
}

static bool other_once(struct context *context, const struct order *order)
{
    cudaStream_t stream;
    cudaEvent_t event;

    const char *name = order->name;

    if (strcmp(name, "capture") == 0 || strcmp(name, "replay") == 0 || strcmp(name, "branch") == 0 ||
        strcmp(name, "abandon") == 0) {
        capture_once(context, order);
    } else if (strcmp(name, "stream") == 0) {
        if (CALL(cudaStreamCreate, &stream) == cudaSuccess)
            CALL(cudaStreamDestroy, stream);
    } else if (strcmp(name, "event") == 0) {
        if (CALL(cudaEventCreate, &event) == cudaSuccess)
            CALL(cudaEventDestroy, event);
    } else {
        return false;
    }
    return true;
}

bool cuda_run(struct context *context, const struct order *order)
{
    for (int64_t i = 0; i < order->count; i++)
        if (!launch_once(context, order) && !wait_once(context, order) && !copy_once(context, order) &&
            !driver_copy_once(context, order) && !allocate_new(context, order) && !free_kept(context, order) &&
            !other_once(context, order))
            return false;
    return true;
}
