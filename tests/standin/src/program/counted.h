// SPDX-License-Identifier: Apache-2.0
//
// Ground truth of a program: CALL(function, arguments...) makes a call and counts it, its time and its error. Bytes are
// counted apart. counted_json() prints the counts.
#ifndef STANDIN_COUNTED_H
#define STANDIN_COUNTED_H

#include <stdint.h>
#include <stdio.h>

#include "lib/waiting.h"

#define COUNTED_RUNTIME(X)                                                                                             \
    X(cudaMalloc) X(cudaMallocAsync) X(cudaMallocManaged) X(cudaHostAlloc) X(cudaMallocHost) X(cudaFree)               \
    X(cudaFreeAsync) X(cudaFreeHost) X(cudaLaunchKernel) X(cudaLaunchKernelExC) X(cudaLaunchCooperativeKernel)         \
    X(cudaLaunchKernel_ptsz) X(cudaMemcpy) X(cudaMemcpyAsync) X(cudaMemcpyAsync_ptsz) X(cudaMemcpy2D)                  \
    X(cudaMemcpy2DAsync) X(cudaMemcpyPeer) X(cudaMemcpyPeerAsync) X(cudaMemset) X(cudaMemsetAsync)                     \
    X(cudaStreamCreate) X(cudaStreamCreateWithFlags) X(cudaStreamCreateWithPriority) X(cudaStreamDestroy)              \
    X(cudaStreamSynchronize) X(cudaStreamSynchronize_ptsz) X(cudaStreamQuery) X(cudaStreamWaitEvent)                   \
    X(cudaDeviceSynchronize) X(cudaEventCreate) X(cudaEventCreateWithFlags) X(cudaEventDestroy) X(cudaEventRecord)     \
    X(cudaEventQuery) X(cudaEventSynchronize) X(cudaEventElapsedTime) X(cudaStreamBeginCapture)                        \
    X(cudaStreamEndCapture) X(cudaStreamIsCapturing) X(cudaGraphInstantiate) X(cudaGraphLaunch)                        \
    X(cudaHostRegister) X(cudaHostUnregister) X(cudaGraphExecDestroy) X(cudaGraphDestroy) X(cudaSetDevice) X(cudaGetDevice) X(cudaGetDeviceCount)                \
    X(cudaSetDeviceFlags) X(cudaMemGetInfo) X(cudaGetLastError)
#define COUNTED_DRIVER(X)                                                                                              \
    X(cuInit) X(cuLaunchKernel) X(cuLaunchKernelEx) X(cuLaunchKernel_ptsz) X(cuMemcpy) X(cuMemcpyAsync)                \
    X(cuMemcpyHtoD_v2) X(cuMemcpyHtoDAsync_v2) X(cuMemcpyDtoH_v2) X(cuMemcpyDtoHAsync_v2) X(cuMemcpyDtoD_v2)           \
    X(cuMemcpyDtoDAsync_v2) X(cuMemsetD8_v2) X(cuMemsetD8Async) X(cuMemAlloc_v2) X(cuMemAllocAsync)                    \
    X(cuMemAllocManaged) X(cuMemFree_v2) X(cuMemFreeAsync) X(cuMemHostAlloc) X(cuMemFreeHost) X(cuMemCreate)           \
    X(cuMemRelease) X(cuStreamSynchronize) X(cuStreamQuery) X(cuStreamWaitEvent) X(cuCtxSynchronize)                   \
    X(cuEventRecord) X(cuEventQuery) X(cuEventSynchronize) X(cuGraphLaunch)
#define COUNTED_NCCL(X)                                                                                                \
    X(ncclGetUniqueId) X(ncclCommInitRank) X(ncclCommInitRankConfig) X(ncclCommInitRankScalable) X(ncclCommInitAll)    \
    X(ncclCommSplit) X(ncclCommShrink) X(ncclCommCount) X(ncclCommUserRank) X(ncclCommFinalize) X(ncclCommDestroy)     \
    X(ncclCommAbort) X(ncclCommGetAsyncError) X(ncclAllReduce) X(ncclAllGather) X(ncclReduceScatter) X(ncclBroadcast)  \
    X(ncclBcast) X(ncclReduce) X(ncclSend) X(ncclRecv) X(ncclAlltoAll) X(ncclGather) X(ncclScatter) X(ncclGroupStart)  \
    X(ncclGroupEnd)

#define COUNTED_NUMBER(function) CALL_##function,
enum counted_call {
    COUNTED_RUNTIME(COUNTED_NUMBER)
    COUNTED_DRIVER(COUNTED_NUMBER)
    COUNTED_NCCL(COUNTED_NUMBER)
    COUNTED_CALLS
};
#undef COUNTED_NUMBER

enum direction { H2H, H2D, D2H, D2D, DIRECTIONS };

// Without times a call costs two clock readings less; for benchmarks.
extern int counted_has_times;

void counted(enum counted_call call, int64_t started_ns, int result);
#define CALL(function, ...)                                                                                            \
    ({                                                                                                                 \
        int64_t started_ns_ = counted_has_times ? now_ns() : 0;                                                        \
        int result_ = function(__VA_ARGS__);                                                                           \
        counted(CALL_##function, started_ns_, result_);                                                                \
        result_;                                                                                                       \
    })
// Bytes of a copy that succeeded.
void counted_copy(enum direction direction, uint64_t bytes);
// Bytes of a collective that was enqueued: its count times the size of its type.
void counted_collective(enum counted_call call, uint64_t bytes);
uint64_t counted_total(void);
// Members "calls", "bytes" and "nccl_bytes" of a JSON object, without the braces around them.
void counted_json(FILE *to);
// Moves all counts so far to "setup".
void counted_end_setup(void);

#endif
