// SPDX-License-Identifier: Apache-2.0
//
// How the runtime reaches the driver, as the real one does: dlopen("libcuda.so.1"), then cuGetProcAddress for each
// function, once with the legacy default stream and once with a default stream per thread.
#ifndef STANDIN_RUNTIME_H
#define STANDIN_RUNTIME_H

#include "driver/api.h"
#include "lib/failures.h"
#include "runtime/api.h"

#define EXPORT __attribute__((visibility("default")))

enum default_stream { LEGACY, PER_THREAD };

// name in this struct, name that cuGetProcAddress knows, function whose type it has
#define DRIVER_FUNCTIONS(X)                                                                                            \
    X(init, "cuInit", cuInit)                                                                                          \
    X(get_version, "cuDriverGetVersion", cuDriverGetVersion)                                                           \
    X(get_device_count, "cuDeviceGetCount", cuDeviceGetCount)                                                          \
    X(retain_context, "cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain)                                            \
    X(set_context_flags, "cuDevicePrimaryCtxSetFlags", cuDevicePrimaryCtxSetFlags_v2)                                  \
    X(get_context_state, "cuDevicePrimaryCtxGetState", cuDevicePrimaryCtxGetState)                                     \
    X(set_context, "cuCtxSetCurrent", cuCtxSetCurrent)                                                                 \
    X(get_context, "cuCtxGetCurrent", cuCtxGetCurrent)                                                                 \
    X(synchronize_context, "cuCtxSynchronize", cuCtxSynchronize)                                                       \
    X(memory_info, "cuMemGetInfo", cuMemGetInfo_v2)                                                                    \
    X(allocate, "cuMemAlloc", cuMemAlloc_v2)                                                                           \
    X(allocate_managed, "cuMemAllocManaged", cuMemAllocManaged)                                                        \
    X(allocate_async, "cuMemAllocAsync", cuMemAllocAsync)                                                              \
    X(allocate_host, "cuMemHostAlloc", cuMemHostAlloc)                                                                 \
    X(free, "cuMemFree", cuMemFree_v2)                                                                                 \
    X(free_async, "cuMemFreeAsync", cuMemFreeAsync)                                                                    \
    X(free_host, "cuMemFreeHost", cuMemFreeHost)                                                                       \
    X(register_host, "cuMemHostRegister", cuMemHostRegister_v2)                                                        \
    X(unregister_host, "cuMemHostUnregister", cuMemHostUnregister)                                                     \
    X(launch, "cuLaunchKernel", cuLaunchKernel)                                                                        \
    X(launch_ex, "cuLaunchKernelEx", cuLaunchKernelEx)                                                                 \
    X(launch_cooperative, "cuLaunchCooperativeKernel", cuLaunchCooperativeKernel)                                      \
    X(copy, "cuMemcpy", cuMemcpy)                                                                                      \
    X(copy_async, "cuMemcpyAsync", cuMemcpyAsync)                                                                      \
    X(copy_to_device, "cuMemcpyHtoD", cuMemcpyHtoD_v2)                                                                 \
    X(copy_to_device_async, "cuMemcpyHtoDAsync", cuMemcpyHtoDAsync_v2)                                                 \
    X(copy_to_host, "cuMemcpyDtoH", cuMemcpyDtoH_v2)                                                                   \
    X(copy_to_host_async, "cuMemcpyDtoHAsync", cuMemcpyDtoHAsync_v2)                                                   \
    X(copy_in_device, "cuMemcpyDtoD", cuMemcpyDtoD_v2)                                                                 \
    X(copy_in_device_async, "cuMemcpyDtoDAsync", cuMemcpyDtoDAsync_v2)                                                 \
    X(copy_peer, "cuMemcpyPeer", cuMemcpyPeer)                                                                         \
    X(copy_peer_async, "cuMemcpyPeerAsync", cuMemcpyPeerAsync)                                                         \
    X(copy_rows, "cuMemcpy2DUnaligned", cuMemcpy2DUnaligned_v2)                                                        \
    X(copy_rows_async, "cuMemcpy2DAsync", cuMemcpy2DAsync_v2)                                                          \
    X(fill, "cuMemsetD8", cuMemsetD8_v2)                                                                               \
    X(fill_async, "cuMemsetD8Async", cuMemsetD8Async)                                                                  \
    X(create_stream, "cuStreamCreate", cuStreamCreate)                                                                 \
    X(create_stream_with_priority, "cuStreamCreateWithPriority", cuStreamCreateWithPriority)                           \
    X(destroy_stream, "cuStreamDestroy", cuStreamDestroy_v2)                                                           \
    X(synchronize_stream, "cuStreamSynchronize", cuStreamSynchronize)                                                  \
    X(query_stream, "cuStreamQuery", cuStreamQuery)                                                                    \
    X(wait_event, "cuStreamWaitEvent", cuStreamWaitEvent)                                                              \
    X(create_event, "cuEventCreate", cuEventCreate)                                                                    \
    X(destroy_event, "cuEventDestroy", cuEventDestroy_v2)                                                              \
    X(record_event, "cuEventRecord", cuEventRecord)                                                                    \
    X(query_event, "cuEventQuery", cuEventQuery)                                                                       \
    X(synchronize_event, "cuEventSynchronize", cuEventSynchronize)                                                     \
    X(elapsed_time, "cuEventElapsedTime", cuEventElapsedTime)                                                          \
    X(begin_capture, "cuStreamBeginCapture", cuStreamBeginCapture_v2)                                                  \
    X(end_capture, "cuStreamEndCapture", cuStreamEndCapture)                                                           \
    X(is_capturing, "cuStreamIsCapturing", cuStreamIsCapturing)                                                        \
    X(instantiate, "cuGraphInstantiate", cuGraphInstantiateWithFlags)                                                  \
    X(launch_graph, "cuGraphLaunch", cuGraphLaunch)                                                                    \
    X(destroy_exec, "cuGraphExecDestroy", cuGraphExecDestroy)                                                          \
    X(destroy_graph, "cuGraphDestroy", cuGraphDestroy)

struct driver {
#define DRIVER_MEMBER(member, name, type) __typeof__(type) *member;
    DRIVER_FUNCTIONS(DRIVER_MEMBER)
#undef DRIVER_MEMBER
};

// The driver's functions; NULL when there is none: the call then ends with driver_missing().
const struct driver *driver_for(enum default_stream which);
cudaError_t driver_missing(void);
// Remembers an error for cudaGetLastError() and returns it.
cudaError_t noted(cudaError_t error);

#endif
