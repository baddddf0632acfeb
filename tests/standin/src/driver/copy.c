// SPDX-License-Identifier: Apache-2.0
//
// Copies and fills. Their length is COPY_LATENCY_NS + bytes / rate, where the rate depends on the direction. Small ones (up to
// STANDIN_COPY_BYTES) really move the bytes, during the call.
//
// The caller waits when the real driver makes it wait. A synchronous copy to or from the host waits for its end, one within
// the device does not. An asynchronous copy returns at once for pinned memory, from pageable memory when the bytes are staged
// (at once up to STAGING_BYTES), and to pageable memory when they have arrived.
#include <string.h>

#include "driver/driver.h"

enum { COPY_LATENCY_NS = 1000, STAGING_BYTES = 64 << 10 };

// Bytes per microsecond, i.e. MB/s: PCIe 5 pinned and pageable, HBM, NVLink.
enum { PINNED_RATE = 25000, PAGEABLE_RATE = 6000, DEVICE_RATE = 1500000, PEER_RATE = 200000, HOST_RATE = 10000 };

struct copy {
    void *to;
    const void *from;
    size_t width; // bytes of a row
    size_t height;
    size_t to_pitch;
    size_t from_pitch;
    bool is_peer;
    bool is_synchronous;
    CUstream stream;
    enum default_stream which;
};

static int64_t length_ns(size_t bytes, int64_t rate)
{
    return COPY_LATENCY_NS + (int64_t)bytes * 1000 / rate;
}

static int64_t rate_of(const struct copy *copy)
{
    enum place from = place_of(copy->from), to = place_of(copy->to);

    if (copy->is_peer)
        return PEER_RATE;
    if (from == DEVICE && to == DEVICE)
        return DEVICE_RATE;
    if (from != DEVICE && to != DEVICE)
        return HOST_RATE;
    return from == PAGEABLE || to == PAGEABLE ? PAGEABLE_RATE : PINNED_RATE;
}

static bool makes_the_caller_wait(const struct copy *copy)
{
    enum place from = place_of(copy->from), to = place_of(copy->to);

    if (copy->is_synchronous)
        return from != DEVICE || to != DEVICE;
    if (to == PAGEABLE)
        return true;
    return from == PAGEABLE && copy->width * copy->height > STAGING_BYTES;
}

static void move_bytes(const struct copy *copy)
{
    if (copy->width * copy->height > settings.copy_bytes)
        return;
    for (size_t row = 0; row < copy->height; row++)
        memmove((char *)copy->to + row * copy->to_pitch, (const char *)copy->from + row * copy->from_pitch,
                copy->width);
}

static CUresult carry_out(const struct copy *copy)
{
    struct work work = {.duration_ns = length_ns(copy->width * copy->height, rate_of(copy))};
    struct instant end;
    bool was_captured = false;
    CUresult result;

    if (!copy->to || !copy->from)
        return CUDA_ERROR_INVALID_VALUE;
    if (copy->width * copy->height == 0)
        return CUDA_SUCCESS;
    result = enqueue(copy->stream, copy->which, &work, &end, &was_captured);
    if (result || was_captured)
        return result;
    move_bytes(copy);
    if (makes_the_caller_wait(copy))
        instant_wait(&end, wait_mode_of(current_device()));
    return CUDA_SUCCESS;
}

static CUresult copy_line(const char *function, CUdeviceptr to, CUdeviceptr from, size_t bytes, bool is_synchronous,
                          CUstream stream, enum default_stream which)
{
    struct copy copy = {
        .to = (void *)(uintptr_t)to,
        .from = (const void *)(uintptr_t)from,
        .width = bytes,
        .height = 1,
        .is_synchronous = is_synchronous,
        .stream = stream,
        .which = which,
    };
    int code = failure_code(function);

    return code ? code : carry_out(&copy);
}

EXPORT CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    return copy_line("cuMemcpy", to, from, bytes, true, NULL, LEGACY);
}

EXPORT CUresult cuMemcpy_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    return copy_line("cuMemcpy", to, from, bytes, true, NULL, PER_THREAD);
}

EXPORT CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return copy_line("cuMemcpyAsync", to, from, bytes, false, stream, LEGACY);
}

EXPORT CUresult cuMemcpyAsync_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return copy_line("cuMemcpyAsync", to, from, bytes, false, stream, PER_THREAD);
}

EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
    return copy_line("cuMemcpyHtoD", to, (uintptr_t)from, bytes, true, NULL, LEGACY);
}

EXPORT CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr to, const void *from, size_t bytes)
{
    return copy_line("cuMemcpyHtoD", to, (uintptr_t)from, bytes, true, NULL, PER_THREAD);
}

EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    return copy_line("cuMemcpyHtoDAsync", to, (uintptr_t)from, bytes, false, stream, LEGACY);
}

EXPORT CUresult cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    return copy_line("cuMemcpyHtoDAsync", to, (uintptr_t)from, bytes, false, stream, PER_THREAD);
}

EXPORT CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
    return copy_line("cuMemcpyDtoH", (uintptr_t)to, from, bytes, true, NULL, LEGACY);
}

EXPORT CUresult cuMemcpyDtoH_v2_ptds(void *to, CUdeviceptr from, size_t bytes)
{
    return copy_line("cuMemcpyDtoH", (uintptr_t)to, from, bytes, true, NULL, PER_THREAD);
}

EXPORT CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return copy_line("cuMemcpyDtoHAsync", (uintptr_t)to, from, bytes, false, stream, LEGACY);
}

EXPORT CUresult cuMemcpyDtoHAsync_v2_ptsz(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return copy_line("cuMemcpyDtoHAsync", (uintptr_t)to, from, bytes, false, stream, PER_THREAD);
}

EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    return copy_line("cuMemcpyDtoD", to, from, bytes, true, NULL, LEGACY);
}

EXPORT CUresult cuMemcpyDtoD_v2_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    return copy_line("cuMemcpyDtoD", to, from, bytes, true, NULL, PER_THREAD);
}

EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return copy_line("cuMemcpyDtoDAsync", to, from, bytes, false, stream, LEGACY);
}

EXPORT CUresult cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return copy_line("cuMemcpyDtoDAsync", to, from, bytes, false, stream, PER_THREAD);
}

static CUresult copy_between(CUdeviceptr to, CUdeviceptr from, size_t bytes, bool is_synchronous, CUstream stream)
{
    struct copy copy = {
        .to = (void *)(uintptr_t)to,
        .from = (const void *)(uintptr_t)from,
        .width = bytes,
        .height = 1,
        .is_peer = true,
        .is_synchronous = is_synchronous,
        .stream = stream,
    };

    return carry_out(&copy);
}

EXPORT CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                             size_t bytes)
{
    int code = failure_code("cuMemcpyPeer");

    if (code)
        return code;
    return to_context && from_context ? copy_between(to, from, bytes, true, NULL) : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                                  size_t bytes, CUstream stream)
{
    int code = failure_code("cuMemcpyPeerAsync");

    if (code)
        return code;
    return to_context && from_context ? copy_between(to, from, bytes, false, stream) : CUDA_ERROR_INVALID_VALUE;
}

static CUresult copy_rows(const char *function, const CUDA_MEMCPY2D *rows, bool is_synchronous, CUstream stream,
                          enum default_stream which)
{
    int code = failure_code(function);

    if (code)
        return code;
    const char *from = rows->srcMemoryType == CU_MEMORYTYPE_HOST ? rows->srcHost : (char *)(uintptr_t)rows->srcDevice;
    char *to = rows->dstMemoryType == CU_MEMORYTYPE_HOST ? rows->dstHost : (char *)(uintptr_t)rows->dstDevice;
    struct copy copy = {
        .to = to + rows->dstY * rows->dstPitch + rows->dstXInBytes,
        .from = from + rows->srcY * rows->srcPitch + rows->srcXInBytes,
        .width = rows->WidthInBytes,
        .height = rows->Height,
        .to_pitch = rows->dstPitch,
        .from_pitch = rows->srcPitch,
        .is_synchronous = is_synchronous,
        .stream = stream,
        .which = which,
    };
    if (rows->Height > 1 && (rows->srcPitch < rows->WidthInBytes || rows->dstPitch < rows->WidthInBytes))
        return CUDA_ERROR_INVALID_VALUE;
    return carry_out(&copy);
}

EXPORT CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *rows)
{
    return copy_rows("cuMemcpy2DUnaligned", rows, true, NULL, LEGACY);
}

EXPORT CUresult cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D *rows)
{
    return copy_rows("cuMemcpy2DUnaligned", rows, true, NULL, PER_THREAD);
}

EXPORT CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *rows, CUstream stream)
{
    return copy_rows("cuMemcpy2DAsync", rows, false, stream, LEGACY);
}

EXPORT CUresult cuMemcpy2DAsync_v2_ptsz(const CUDA_MEMCPY2D *rows, CUstream stream)
{
    return copy_rows("cuMemcpy2DAsync", rows, false, stream, PER_THREAD);
}

static CUresult fill(const char *function, CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream,
                     enum default_stream which)
{
    struct work work = {.duration_ns = length_ns(bytes, DEVICE_RATE)};
    bool was_captured = false;
    CUresult result = failure_code(function);

    if (result)
        return result;
    if (place_of((void *)(uintptr_t)to) == PAGEABLE)
        return CUDA_ERROR_INVALID_VALUE;
    result = enqueue(stream, which, &work, NULL, &was_captured);
    if (!result && !was_captured && bytes <= settings.copy_bytes)
        memset((void *)(uintptr_t)to, value, bytes);
    return result;
}

EXPORT CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t bytes)
{
    return fill("cuMemsetD8", to, value, bytes, NULL, LEGACY);
}

EXPORT CUresult cuMemsetD8_v2_ptds(CUdeviceptr to, unsigned char value, size_t bytes)
{
    return fill("cuMemsetD8", to, value, bytes, NULL, PER_THREAD);
}

EXPORT CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream)
{
    return fill("cuMemsetD8Async", to, value, bytes, stream, LEGACY);
}

EXPORT CUresult cuMemsetD8Async_ptsz(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream)
{
    return fill("cuMemsetD8Async", to, value, bytes, stream, PER_THREAD);
}
