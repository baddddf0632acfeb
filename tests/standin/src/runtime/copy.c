// SPDX-License-Identifier: Apache-2.0
//
// Copies and fills: the direction chooses the driver's function, as in the real runtime.
#include <stdint.h>

#include "runtime/runtime.h"

static CUdeviceptr as_device(const void *pointer)
{
    return (uintptr_t)pointer;
}

static cudaError_t copy(const struct driver *driver, void *to, const void *from, size_t bytes, int kind)
{
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return driver->copy_to_device(as_device(to), from, bytes);
    case cudaMemcpyDeviceToHost:
        return driver->copy_to_host(to, as_device(from), bytes);
    case cudaMemcpyDeviceToDevice:
        return driver->copy_in_device(as_device(to), as_device(from), bytes);
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
        return driver->copy(as_device(to), as_device(from), bytes);
    default:
        return cudaErrorInvalidMemcpyDirection;
    }
}

static cudaError_t copy_async(const struct driver *driver, void *to, const void *from, size_t bytes, int kind,
                              cudaStream_t stream)
{
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return driver->copy_to_device_async(as_device(to), from, bytes, stream);
    case cudaMemcpyDeviceToHost:
        return driver->copy_to_host_async(to, as_device(from), bytes, stream);
    case cudaMemcpyDeviceToDevice:
        return driver->copy_in_device_async(as_device(to), as_device(from), bytes, stream);
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
        return driver->copy_async(as_device(to), as_device(from), bytes, stream);
    default:
        return cudaErrorInvalidMemcpyDirection;
    }
}

// Unified addressing: the address shows the driver whether it is host memory.
static CUDA_MEMCPY2D rows_of(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                             size_t height)
{
    return (CUDA_MEMCPY2D){
        .srcMemoryType = CU_MEMORYTYPE_UNIFIED,
        .srcDevice = as_device(from),
        .srcPitch = from_pitch,
        .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
        .dstDevice = as_device(to),
        .dstPitch = to_pitch,
        .WidthInBytes = width,
        .Height = height,
    };
}

static cudaError_t copy_between(void *to, int to_device, const void *from, int from_device, size_t bytes,
                                cudaStream_t stream, int is_asynchronous)
{
    const struct driver *driver = driver_for(LEGACY);
    CUcontext to_context, from_context;
    cudaError_t error;

    if (!driver)
        return driver_missing();
    error = driver->retain_context(&to_context, to_device);
    if (!error)
        error = driver->retain_context(&from_context, from_device);
    if (error)
        return noted(error);
    if (is_asynchronous)
        return noted(driver->copy_peer_async(as_device(to), to_context, as_device(from), from_context, bytes, stream));
    return noted(driver->copy_peer(as_device(to), to_context, as_device(from), from_context, bytes));
}

EXPORT cudaError_t cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t bytes)
{
    cudaError_t error = failure_code("cudaMemcpyPeer");

    return error ? noted(error) : copy_between(to, to_device, from, from_device, bytes, NULL, 0);
}

EXPORT cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes,
                                       cudaStream_t stream)
{
    cudaError_t error = failure_code("cudaMemcpyPeerAsync");

    return error ? noted(error) : copy_between(to, to_device, from, from_device, bytes, stream, 1);
}

static cudaError_t copy_line(enum default_stream which, void *to, const void *from, size_t bytes, int kind)
{
    const struct driver *driver = driver_for(which);
    cudaError_t error = failure_code("cudaMemcpy");

    if (!driver)
        return driver_missing();
    return noted(error ? error : copy(driver, to, from, bytes, kind));
}

EXPORT cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, int kind)
{
    return copy_line(LEGACY, to, from, bytes, kind);
}

EXPORT cudaError_t cudaMemcpy_ptds(void *to, const void *from, size_t bytes, int kind)
{
    return copy_line(PER_THREAD, to, from, bytes, kind);
}

static cudaError_t copy_line_async(enum default_stream which, void *to, const void *from, size_t bytes, int kind,
                                cudaStream_t stream)
{
    const struct driver *driver = driver_for(which);
    cudaError_t error = failure_code("cudaMemcpyAsync");

    if (!driver)
        return driver_missing();
    return noted(error ? error : copy_async(driver, to, from, bytes, kind, stream));
}

EXPORT cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, cudaStream_t stream)
{
    return copy_line_async(LEGACY, to, from, bytes, kind, stream);
}

EXPORT cudaError_t cudaMemcpyAsync_ptsz(void *to, const void *from, size_t bytes, int kind, cudaStream_t stream)
{
    return copy_line_async(PER_THREAD, to, from, bytes, kind, stream);
}

static cudaError_t copy_rows(enum default_stream which, void *to, size_t to_pitch, const void *from,
                             size_t from_pitch, size_t width, size_t height, int kind)
{
    const struct driver *driver = driver_for(which);
    cudaError_t error = failure_code("cudaMemcpy2D");

    if (!driver)
        return driver_missing();
    CUDA_MEMCPY2D rows = rows_of(to, to_pitch, from, from_pitch, width, height);
    if (!error && (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault))
        error = cudaErrorInvalidMemcpyDirection;
    return noted(error ? error : driver->copy_rows(&rows));
}

EXPORT cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                                size_t height, int kind)
{
    return copy_rows(LEGACY, to, to_pitch, from, from_pitch, width, height, kind);
}

EXPORT cudaError_t cudaMemcpy2D_ptds(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                                     size_t height, int kind)
{
    return copy_rows(PER_THREAD, to, to_pitch, from, from_pitch, width, height, kind);
}

static cudaError_t copy_rows_async(enum default_stream which, void *to, size_t to_pitch, const void *from,
                                  size_t from_pitch, size_t width, size_t height, int kind, cudaStream_t stream)
{
    const struct driver *driver = driver_for(which);
    cudaError_t error = failure_code("cudaMemcpy2DAsync");

    if (!driver)
        return driver_missing();
    CUDA_MEMCPY2D rows = rows_of(to, to_pitch, from, from_pitch, width, height);
    if (!error && (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault))
        error = cudaErrorInvalidMemcpyDirection;
    return noted(error ? error : driver->copy_rows_async(&rows, stream));
}

EXPORT cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                                     size_t height, int kind, cudaStream_t stream)
{
    return copy_rows_async(LEGACY, to, to_pitch, from, from_pitch, width, height, kind, stream);
}

EXPORT cudaError_t cudaMemcpy2DAsync_ptsz(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                                          size_t width, size_t height, int kind, cudaStream_t stream)
{
    return copy_rows_async(PER_THREAD, to, to_pitch, from, from_pitch, width, height, kind, stream);
}

static cudaError_t fill(enum default_stream which, void *to, int value, size_t bytes)
{
    const struct driver *driver = driver_for(which);
    cudaError_t error = failure_code("cudaMemset");

    if (!driver)
        return driver_missing();
    return noted(error ? error : driver->fill(as_device(to), (unsigned char)value, bytes));
}

EXPORT cudaError_t cudaMemset(void *to, int value, size_t bytes)
{
    return fill(LEGACY, to, value, bytes);
}

EXPORT cudaError_t cudaMemset_ptds(void *to, int value, size_t bytes)
{
    return fill(PER_THREAD, to, value, bytes);
}

static cudaError_t fill_async(enum default_stream which, void *to, int value, size_t bytes, cudaStream_t stream)
{
    const struct driver *driver = driver_for(which);
    cudaError_t error = failure_code("cudaMemsetAsync");

    if (!driver)
        return driver_missing();
    return noted(error ? error : driver->fill_async(as_device(to), (unsigned char)value, bytes, stream));
}

EXPORT cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    return fill_async(LEGACY, to, value, bytes, stream);
}

EXPORT cudaError_t cudaMemsetAsync_ptsz(void *to, int value, size_t bytes, cudaStream_t stream)
{
    return fill_async(PER_THREAD, to, value, bytes, stream);
}
